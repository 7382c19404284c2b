"""Tools: which there are, which a session has, and which later ones get."""

from __future__ import annotations

from typing import Literal

from agent.config import Config, ConfigError, load_config
from agent.config.write import set_config_values, with_values
from agent.plugin_loading import load_plugins
from tools.base import Tool
from tools.plugin_tools import plugin_tools
from tools.toolset_names import switched
from tools.toolsets import default_tools, selected

from .. import agents
from .. import shapes_settings as wire
from ..clients import READ
from ..rpc import Call, RpcError, method

NO_NAMES = 4018
NOT_WRITTEN = 5035
MCP_FAILED = 5015
NO_SERVERS = "No MCP servers are configured."


def _all_tools(config: Config) -> list[Tool]:
    """Every tool that could be used here, also those that are switched off."""
    from agent.build import tool_settings

    settings = tool_settings(config)
    settings.pop("toolsets", None)
    settings["tools"] = {}
    load_plugins(config.raw, config.home, config.environ)
    return list(default_tools(settings, config.home, plugin_tools()))


def _wanted(config: Config, tools: list[Tool]) -> set[str]:
    from agent.build import tool_settings

    return {tool.name for tool in selected(tools, tool_settings(config, "tui"))}


def _toolsets(call: Call, session_id: str | None) -> wire.Toolsets:
    config = call.config
    tools = _all_tools(config)
    agent = call.session(session_id).get("agent") if session_id else None
    enabled = {tool.name for tool in agent.tools} if agent is not None else _wanted(config, tools)
    groups: dict[str, list[wire.ToolInfo]] = {}
    for tool in tools:
        groups.setdefault(tool.toolset, []).append(_info(tool, tool.name in enabled))
    return {
        "toolsets": [
            {
                "name": name,
                "enabled": any(info["enabled"] for info in infos),
                "tool_count": len(infos),
                "tools": infos,
            }
            for name, infos in groups.items()
        ]
    }


def _info(tool: Tool, enabled: bool) -> wire.ToolInfo:
    first = tool.description.strip().partition("\n")[0]
    return {"name": tool.name, "description": first, "enabled": enabled}


@method("tools.list", scope=READ, slow=True)
def list_tools(call: Call, session_id: str | None = None) -> wire.Toolsets:
    """Every tool by group, and whether a session (or the next one) has it."""
    return _toolsets(call, session_id)


@method("toolsets.list", scope=READ, slow=True)
def list_toolsets(call: Call, session_id: str | None = None) -> wire.Toolsets:
    """The groups of tools, and whether a session (or the next one) has them."""
    return _toolsets(call, session_id)


@method("tools.show", scope=READ, slow=True)
def show(call: Call, session_id: str) -> wire.ToolSections:
    """The tools that a session's model is told of."""
    session = call.session(session_id)
    agent = agents.ensure_agent(call.hub, session_id, session)
    groups: dict[str, list[wire.ToolInfo]] = {}
    for tool in agent.tools:
        groups.setdefault(tool.toolset, []).append(_info(tool, True))
    return {
        "sections": [{"name": name, "tools": infos} for name, infos in groups.items()],
        "total": sum(map(len, groups.values())),
    }


@method("tools.configure", slow=True)
def configure(
    call: Call, action: Literal["enable", "disable"], names: list[str]
) -> wire.ToolsChange:
    """Switch tools or groups of tools on or off, for conversations that begin from now on."""
    from agent.build import check_tool_choice

    if not names:
        raise RpcError(NO_NAMES, "Which tools? tools.list has their names.")
    config = call.config
    tools = _all_tools(config)
    known = {name for tool in tools for name in (tool.name, tool.toolset)}
    valid = [name for name in dict.fromkeys(names) if name in known]
    changes = switched(config.raw, action, valid, platform="tui")
    try:
        check_tool_choice(load_config(config.home, raw=with_values(config.raw, changes)), "tui")
        set_config_values(config.home / "config.yaml", changes)
        after = call.hub.reload_config()
    except ConfigError as error:
        raise RpcError(NOT_WRITTEN, str(error)) from error
    enabled = _wanted(after, tools)
    groups = dict.fromkeys(tool.toolset for tool in tools if tool.name in enabled)
    servers = {f"mcp-{name}" for name in after.section("mcp_servers")}
    return {
        "changed": valid if changes else [],
        "unknown": [name for name in names if name not in known],
        "enabled_toolsets": list(groups),
        "missing_servers": sorted(servers - known),
        "info": "A conversation keeps its tools for life; the next one has these.",
        "reset": False,
    }


@method("reload.mcp", slow=True)
def reload_mcp(call: Call) -> wire.McpReload:
    """Connect to the MCP servers anew; conversations that begin from now on have their tools."""
    from agent.build import tool_settings

    config = call.hub.reload_config()
    if not config.section("mcp_servers"):
        return {"status": "none", "message": NO_SERVERS, "tools": 0}
    from tools.mcp.client import close_mcp, load_mcp_tools

    close_mcp()
    tools = load_mcp_tools(tool_settings(config), config.home)
    if not tools:
        raise RpcError(MCP_FAILED, "No MCP server has answered; the log says why.")
    return {"status": "reloaded", "message": f"{len(tools)} tools.", "tools": len(tools)}
