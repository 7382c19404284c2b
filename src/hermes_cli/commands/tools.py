"""`hermes tools`: what the agent can do."""

from __future__ import annotations

import argparse
from typing import Any

from agent.config import Config, load_config
from agent.config.write import set_config_values, with_values
from agent.plugin_loading import load_plugins
from gateway.status import running_pid
from hermes_cli.command_parser import meant
from hermes_cli.command_run import UserError
from tools.plugin_tools import plugin_tools
from tools.registry import Registry
from tools.toolset_names import ALL, switched, understand, unwanted_in
from tools.toolsets import default_tools

from .output import bold, one_line, print_json, width

EXAMPLES = """\
hermes tools                      what the agent can do
hermes tools show terminal        what one tool is told
hermes tools disable web_fetch    not any more, from the next conversation on
hermes tools enable web_fetch     again
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("tools", help="what the agent can do", examples=EXAMPLES)
    parser.set_defaults(act=list_tools, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("list", help="every tool, by toolset")
    action.add_argument("--json", action="store_true", help="for scripts")
    action = actions.add_parser("show", help="what the model is told about a tool")
    action.add_argument("name", metavar="TOOL")
    action.set_defaults(act=show_tool)
    for name, help_ in (
        ("disable", "leave a tool or a toolset out"),
        ("enable", "do not leave it out any more"),
    ):
        action = actions.add_parser(name, help=help_)
        action.add_argument("name", metavar="TOOL|TOOLSET")
        action.set_defaults(act=change)


def _registry(config: Config, *, all_of_them: bool = False) -> Registry:
    from agent.build import tool_settings

    load_plugins(config.raw, config.home, config.environ)
    # Connecting to other programs' servers is what `hermes mcp list` is for.
    settings = {**tool_settings(config), "mcp_servers": {}}
    if all_of_them:
        settings |= {"tools": {}, "toolsets": None}
    return default_tools(settings, config.home, plugin_tools())


def list_tools(args: argparse.Namespace) -> int:
    """Print the tools of the next conversation."""
    from agent.build import check_tool_choice

    config = load_config()
    tools = list(_registry(config))
    if args.json:
        print_json(
            [
                {"name": tool.name, "toolset": tool.toolset, "description": tool.description}
                for tool in tools
            ]
        )
        return 0
    toolset = ""
    for tool in sorted(tools, key=lambda tool: tool.toolset):
        if tool.toolset != toolset:
            toolset = tool.toolset
            print(bold(toolset))
        print(f"  {tool.name:20} {one_line(tool.description, max(20, width() - 24))}")
    if disabled := _disabled(config):
        print(f"Left out: {', '.join(disabled)}")
    check_tool_choice(config)  # which says why there is nothing, and what to write
    if not tools:
        print("The agent has no tools: toolsets is [none].")
    return 0


def show_tool(args: argparse.Namespace) -> int:
    """Print what the model is told about one tool."""
    registry = _registry(load_config())
    tool = registry.get(args.name)
    if tool is None:
        raise UserError(registry.suggest(args.name))
    print(f"{tool.name} ({tool.toolset})\n\n{tool.description}")
    return 0


def _disabled(config: Config) -> list[str]:
    return list(unwanted_in(config.raw))


def change(args: argparse.Namespace) -> int:
    """Leave a tool out from the next conversation on, or not any more."""
    from agent.build import check_tool_choice

    config = load_config()
    known = {n for tool in _registry(config, all_of_them=True) for n in (tool.name, tool.toolset)}
    disabled = _disabled(config)
    names = sorted(understand([args.name], known).names)
    if args.name not in disabled and (not names or not (known | {ALL}).issuperset(names)):
        raise UserError(f"There is no tool {args.name!r}.{meant(args.name, [*known, *disabled])}")
    if args.name in disabled and args.action == "enable":
        names = [args.name, *names]
    changes = switched(config.raw, args.action, names)
    if not changes:
        print(f"{args.name} is {args.action}d already.")
        return 0
    check_tool_choice(load_config(config.home, raw=with_values(config.raw, changes)))
    set_config_values(config.home / "config.yaml", changes)
    print(f"{args.name} is {args.action}d, from the next conversation on.")
    if running_pid(config.home) is not None:
        print("The gateway, which runs, has it so after: hermes gateway restart")
    return 0
