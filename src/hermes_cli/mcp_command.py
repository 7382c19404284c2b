"""`hermes mcp`: Hermes' tools for other programs, and other programs' tools for Hermes."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.code_calls import CodeCalls
from agent.config import ConfigError, load_config
from agent.ids import new_session_id
from agent.logs import setup_logging
from tools.base import Tool, ToolContext, Workspace
from tools.extras import install_hint
from tools.mcp.client import close_mcp, load_mcp_tools
from tools.mcp.serve import as_text, serve
from tools.processes.ledger import reap_orphans
from tools.services import Services
from tools.toolsets import default_tools

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import SessionDB

WITHHELD = frozenset({"delegation", "clarify", "todo"})
"""Toolsets that need the agent or its person; a client of ours has its own."""


def add_parsers(commands: Any) -> None:
    """Add `mcp` with its own commands to the command line."""
    mcp = commands.add_parser("mcp", help="tools for other programs, and theirs for Hermes")
    actions = mcp.add_subparsers(dest="mcp_action", metavar="action", required=True)
    actions.add_parser("serve", help="offer Hermes' tools on standard input and output")
    actions.add_parser("list", help="show the configured servers and their tools")


def run(args: argparse.Namespace) -> int:
    """Carry `hermes mcp …` out; returns the exit code."""
    from agent.store import open_store
    from hermes_state import StoreError

    try:
        config = load_config()
        setup_logging(config.home, config.logging)
        if args.mcp_action == "list":
            return list_servers(config)
        with open_store(config.home) as db:
            return serve_tools(config, db)
    except (ConfigError, StoreError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 2


def serve_tools(config: Config, db: SessionDB) -> int:
    """Offer the tools until the client hangs up.

    Nobody can be asked, so what is dangerous is refused unless the configuration allows it; secrets
    do not leave in results.
    """
    import importlib.util

    if importlib.util.find_spec("mcp") is None:
        print(f"hermes: this needs the package mcp. Run: {install_hint('mcp')}", file=sys.stderr)
        return 2
    from agent.build import check_tool_choice, tool_settings
    from hermes_base.redaction import redact

    reap_orphans(config.home)
    check_tool_choice(config)
    # Their own MCP servers are for the client to connect to, not for us to pass on.
    settings = {**tool_settings(config), "mcp_servers": {}}
    registry = default_tools(settings, config.home).usable(
        lambda tool: tool.toolset not in WITHHELD
    )
    workspace = Workspace(config.home, Path.cwd(), settings=settings)
    session_id = new_session_id()
    services = Services()

    def context(call_id: str = "", progress: Any = lambda text: None) -> ToolContext:
        return ToolContext(
            session_id,
            call_id or os.urandom(6).hex(),
            progress=progress,
            workspace=workspace,
            db=db,
            services=services,
        )

    def present(tool: Tool, caller: ToolContext, result: Any) -> str:
        return redact(as_text(tool, caller, result))

    services = Services(call_tool=CodeCalls(registry, context))
    try:
        serve(registry, context, present)
    finally:
        terminal = sys.modules.get("tools.terminal.tool")
        if terminal is not None:
            terminal.close_terminal(workspace)
    return 0


def list_servers(config: Config) -> int:
    """Connect to the configured servers and print what they offer; 1 if one does not answer."""
    from agent.build import tool_settings

    servers = config.section("mcp_servers")
    if not servers:
        print(f"No MCP servers. Add them as mcp_servers in {config.home / 'config.yaml'}.")
        return 0
    tools_by_server: dict[str, list[str]] = {f"mcp-{name}": [] for name in servers}
    try:
        for tool in load_mcp_tools(tool_settings(config), config.home):
            tools_by_server.setdefault(tool.toolset, []).append(tool.name)
    finally:
        close_mcp()
    for toolset, names in tools_by_server.items():
        print(f"{toolset.removeprefix('mcp-')}: {', '.join(names) or 'no tools; see the log'}")
    return 0 if all(tools_by_server.values()) else 1
