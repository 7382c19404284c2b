"""Which tools an agent gets: all that are usable here, less what the configuration turns off.

A toolset is a named group (`terminal`, `files`, `web`, …); `toolsets:` in config.yaml lists the
wanted ones, `tools: {disabled: […]}` names tools or toolsets to leave out; `toolset_names` knows
the names that Hermes Agent has for them. Modules are imported
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
from .toolset_names import ALL, NONE, names_in, understand, unwanted_in
from .web import web_tools

log = logging.getLogger(__name__)

MAY_BE_MISSING = frozenset({"web_search"})
"""Tools of ours that are there only where they were configured; their names are no mistakes."""
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
    "cronjob",
)


def default_tools(
    settings: Mapping[str, Any], home: Path, added: Iterable[tuple[Tool, bool]] = ()
) -> Registry:
    """The tools for an agent, in a stable order; `settings` are sections of the configuration.

    `added` are tools of plugins, each with whether it may replace one that is there already.
    """
    tools = all_tools(settings)
    if settings.get("mcp_servers"):
        from .mcp.client import load_mcp_tools

        tools += load_mcp_tools(settings, home)
    for tool, may_replace in added:
        places = [place for place, other in enumerate(tools) if other.name == tool.name]
        if not places:
            tools.append(tool)
        elif may_replace:
            tools[places[0]] = tool
        else:
            log.warning("A plugin's tool %s is left out: there is one of that name", tool.name)
    return Registry(selected(tools, settings)).usable()


def all_tools(settings: Mapping[str, Any]) -> list[Tool]:
    """Our own tools, whether or not they can be used here."""
    tools = [tool for name in _MODULES for tool in importlib.import_module(f"tools.{name}").TOOLS]
    return tools + web_tools(settings)


def toolset_list() -> list[str]:
    """The names of our own toolsets."""
    return sorted({tool.toolset for tool in all_tools({})} | {"web"})


def selected(tools: Iterable[Tool], settings: Mapping[str, Any]) -> list[Tool]:
    """The tools that the configuration wants; a name it misspells is logged with the nearest."""
    tools = list(tools)
    known = {name for tool in tools for name in (tool.name, tool.toolset)}
    wanted = understand(names_in(settings.get("toolsets")), known)
    unwanted = understand(unwanted_in(settings), known)
    for name in (wanted.names | unwanted.names) - known - {ALL, NONE, *MAY_BE_MISSING}:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        log.warning("There is no tool or toolset %r%s", name, hint)
    if wanted.without_meaning:
        log.info("There are no toolsets %s here", ", ".join(wanted.without_meaning))
    is_limited = bool(wanted.names or wanted.without_meaning) and ALL not in wanted.names
    return [
        tool
        for tool in tools
        if (not is_limited or {tool.name, tool.toolset} & wanted.names)
        and ALL not in unwanted.names
        and not {tool.name, tool.toolset} & unwanted.names
    ]
