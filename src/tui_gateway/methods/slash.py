"""Slash commands: what there is, what it is called, and having it done."""

from __future__ import annotations

from typing import Any

from tools.memory_scope import MemoryScope, Space
from tools.skills.index import skills_of

from .. import shapes_input as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

NO_COMMAND = 4004
UNKNOWN_COMMAND = 4011
COMMAND_FAILED = 4018


@method("commands.catalog", scope=READ, slow=True)
def commands(call: Call) -> wire.Catalog:
    """Every slash command that a screen with an input line has."""
    from agent.slash import catalog
    from agent.slash.dispatch import plugin_commands

    known = catalog("cli")
    by_category: dict[str, list[list[str]]] = {}
    for command in known:
        by_category.setdefault(command.category, []).append([f"/{command.name}", command.summary])
    plugins = [[f"/{command.name}", command.description] for command in plugin_commands().values()]
    if plugins:
        by_category["Plugins"] = plugins
    config = call.config
    skills = skills_of(config.home, config.skills, _spaces(call))
    return {
        "pairs": [pair for pairs in by_category.values() for pair in pairs],
        "sub": {
            f"/{command.name}": _words(command.args) for command in known if _words(command.args)
        },
        "canon": {
            f"/{name}": f"/{command.name}"
            for command in known
            for name in (command.name, *command.aliases)
        },
        "categories": [{"name": name, "pairs": pairs} for name, pairs in by_category.items()],
        "skill_count": len(skills),
        "warning": "",
    }


def _spaces(call: Call) -> tuple[Space, ...]:
    """Whose skills there are: those of whoever asks."""
    return MemoryScope(call.principal.person_id, is_local=False).spaces(call.db, "").read


def _words(args: str) -> list[str]:
    """The words that may follow a command, of arguments such as "[queue|steer|interrupt]"."""
    inner = args.strip("[]").split("]")[0]
    words = [word.strip() for word in inner.split("|")]
    return words if len(words) > 1 and all(word.isalpha() for word in words) else []


@method("command.resolve", scope=READ)
def resolve(call: Call, name: str) -> wire.ResolvedCommand:
    """The command that a name or alias stands for."""
    from agent.slash import catalog, lookup
    from agent.slash.table import unknown

    wanted = name.strip().removeprefix("/")
    command = lookup(wanted, "cli")
    if command is None:
        known = [command.name for command in catalog("cli")]
        raise RpcError(UNKNOWN_COMMAND, str(unknown(wanted[:80], known)))
    return {
        "canonical": f"/{command.name}",
        "description": command.summary,
        "category": command.category,
        "args": command.args,
    }


@method("slash.exec", scope=TALK, slow=True)
def execute(call: Call, session_id: str, command: str) -> wire.CommandResult:
    """Carry out a line such as "/title A plan" in a session."""
    return _run(call, session_id, command)


@method("command.dispatch", scope=TALK, slow=True)
def dispatch(call: Call, session_id: str, name: str, arg: str = "") -> wire.CommandResult:
    """Carry out a command by its name in a session."""
    return _run(call, session_id, f"/{name.strip().removeprefix('/')} {arg}")


def _run(call: Call, sid: str, line: str) -> wire.CommandResult:
    session = call.session(sid)
    if not line.strip().removeprefix("/").strip():
        raise RpcError(NO_COMMAND, "Which command? commands.catalog lists them.")
    from ..surface import LiveSurface, run_line

    surface = LiveSurface(call.hub, sid, session, call.principal, call.access)
    result = run_line(surface, call.hub, sid, line)
    if getattr(result, "failed", False):
        raise RpcError(COMMAND_FAILED, getattr(result, "output", ""))
    from agent.slash import wire as as_json

    fields: dict[str, Any] = as_json(result)
    answer: wire.CommandResult = {"type": fields["type"], "output": fields.get("output", "")}
    for key in ("message", "notice", "name"):
        if key in fields:
            answer[key] = fields[key]
    if surface.is_leaving:
        answer["leave"] = True
    return answer
