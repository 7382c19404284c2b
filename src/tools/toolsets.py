"""Which tools an agent gets: all that are usable here, less what the configuration turns off.

A toolset is a named group (`terminal`, `files`, `web`, …); `toolsets:` in config.yaml lists the
wanted ones, `tools: {disabled: […]}` names tools or toolsets to leave out. Modules are imported
only when a registry is built.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .base import Tool
from .registry import Registry

log = logging.getLogger(__name__)

_MODULES = (
    "terminal.tool",
    "processes.tool",
    "files",
    "code_execution",
    "past_sessions",
    "memory",
    "planning",
    "skills",
    "delegate",
)


def default_tools(
    settings: Mapping[str, Any], home: Path, added: Iterable[tuple[Tool, bool]] = ()
) -> Registry:
    """The tools for an agent, in a stable order; `settings` are sections of the configuration.

    `added` are tools of plugins, each with whether it may replace one that is there already.
    """
    found = [one for name in _MODULES for one in importlib.import_module(f"tools.{name}").TOOLS]
    from .web import web_tools

    found += web_tools(settings)
    if settings.get("mcp_servers"):
        from .mcp.client import load_mcp_tools

        found += load_mcp_tools(settings, home)
    for one, may_replace in added:
        places = [place for place, other in enumerate(found) if other.name == one.name]
        if not places:
            found.append(one)
        elif may_replace:
            found[places[0]] = one
        else:
            log.warning("A plugin's tool %s is left out: there is one of that name", one.name)
    return Registry(selected(found, settings)).usable()


def selected(tools: Iterable[Tool], settings: Mapping[str, Any]) -> list[Tool]:
    """The tools that the configuration wants; a name it misspells is logged with the nearest."""
    tools = list(tools)
    known = {name for one in tools for name in (one.name, one.toolset)}
    wanted = _names(settings.get("toolsets"))
    section = settings.get("tools")
    unwanted = _names(section.get("disabled") if isinstance(section, Mapping) else None)
    for name in (wanted | unwanted) - known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        log.warning("There is no tool or toolset %r%s", name, hint)
    return [
        one
        for one in tools
        if (not wanted or {one.name, one.toolset} & wanted)
        and not {one.name, one.toolset} & unwanted
    ]


def _names(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    return {str(name) for name in value} if isinstance(value, list | tuple | set) else set()
