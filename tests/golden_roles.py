"""What each role may call by default: tools, commands, methods of the protocol, routes of the API.

`roles.txt` is the list as it was read and agreed to; `python -m tests.golden_roles` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from agent.access import ADMIN, AccessTable
from agent.slash.table import table
from gateway.platforms.api.app import build_app
from tools.toolsets import all_tools
from tui_gateway import methods, rpc
from tui_gateway.clients import OPERATE
from tui_gateway.permitted import why_not

FILE = Path(__file__).with_name("roles.txt")
ROLES = ("operator", ADMIN, "member", "guest")


def lines() -> Iterator[str]:
    """The list, a line for each thing that can be called."""
    access = {role: AccessTable().find(role) for role in ROLES}
    yield f"{'':54}{' '.join(role.ljust(8) for role in ROLES)}".rstrip()

    def line(kind: str, name: str, allowed: dict[str, bool]) -> str:
        marks = " ".join(("yes" if allowed[role] else "-").ljust(8) for role in ROLES)
        return f"{f'{kind} {name}':54}{marks}".rstrip()

    for tool in sorted(all_tools({}), key=lambda tool: (tool.toolset, tool.name)):
        may = {role: access[role].permissions.allow_tool(tool) for role in ROLES}
        yield line("tool", f"{tool.toolset}/{tool.name}", may)
    for name in sorted({command.name for command in table().values()}):
        yield line("command", f"/{name}", {r: access[r].commands.allow(name) for r in ROLES})
    for mode in ("plan", "guarded", "full"):
        yield line("mode", mode, {r: access[r].why_no_mode(mode) is None for r in ROLES})
    yield line("model", "any", {r: access[r].why_no_model("any") is None for r in ROLES})
    methods.load()
    methods.load_rest()
    for name, method in sorted(rpc.METHODS.items()):
        may = {r: method.scope != OPERATE and why_not(name, access[r]) is None for r in ROLES}
        yield line("method", name, may | {"operator": True})
    for route in cast(Any, build_app(cast(Any, SimpleNamespace()), cast(Any, _Anything()))).routes:
        needs = route.endpoint.needs
        may = {r: not needs or access[r].commands.allow(needs) for r in ROLES}
        verb = next(iter(sorted((route.methods or {"GET"}) - {"HEAD"})))
        yield line("route", f"{verb} {route.path}", may)


class _Anything:
    def __getattr__(self, name: str) -> str:
        return name


def text() -> str:
    """The whole list."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
