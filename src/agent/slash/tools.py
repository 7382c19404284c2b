"""Commands that show what the agent has: tools, skills, memory, plugins."""

from __future__ import annotations

from collections import defaultdict

from agent import memory_actions
from hermes_base import plugins as host

from .dispatch import plugin_commands, usable_skills
from .surface import CommandError, Surface
from .table import command

CATEGORY = "What it has"


def _toolsets(surface: Surface) -> dict[str, list[str]]:
    toolsets: dict[str, list[str]] = defaultdict(list)
    for tool in surface.build_agent().tools:
        toolsets[tool.toolset].append(tool.name)
    return toolsets


@command("tools", category=CATEGORY, args="[name]", scope="cli", slow=True)
def tools(surface: Surface, args: str) -> str:
    """List the tools, or show what one of them is told to do."""
    if args.split()[:1] in (["enable"], ["disable"]):
        raise CommandError(
            "The tools of a conversation stay the same for its whole life. For the next one, set "
            f"tools: {{disabled: […]}} or toolsets: […] in {surface.config.home / 'config.yaml'}."
        )
    if args and args != "list":
        registry = surface.build_agent().tools
        tool = registry.get(args)
        if tool is None:
            raise CommandError(registry.suggest(args))
        return f"{tool.name} ({tool.toolset}): {tool.description}"
    lines = [f"{toolset}: {', '.join(names)}" for toolset, names in _toolsets(surface).items()]
    return "\n".join(lines) or "This model gets no tools."


@command("toolsets", category=CATEGORY, scope="cli", slow=True)
def toolsets(surface: Surface, args: str) -> str:
    """List the groups of tools."""
    by_toolset = _toolsets(surface)
    return "\n".join(f"{name} ({len(names)})" for name, names in by_toolset.items()) or "None."


@command("skills", category=CATEGORY)
def skills(surface: Surface, args: str) -> str:
    """List the skills; each one can be called as a command."""
    usable = usable_skills(surface)
    lines = [
        f"/{skill.name}  {skill.description}"
        for skill in usable
        if args.lower() in skill.name.lower()
    ]
    return "\n".join(lines) or "There are no skills yet."


@command("reload-skills", category=CATEGORY)
def reload_skills(surface: Surface, args: str) -> str:
    """Look for new skills."""
    count = len(usable_skills(surface))
    return f"{count} skills, usable as commands at once. The agent reads the list with /new."


@command("reload-mcp", category=CATEGORY, slow=True)
def reload_mcp(surface: Surface, args: str) -> str:
    """Connect to the MCP servers anew, for everybody; in chats for administrators."""
    from agent.build import tool_settings
    from tools.mcp.client import close_mcp, load_mcp_tools

    if not surface.config.section("mcp_servers"):
        return "No MCP servers are configured."
    close_mcp()
    tools = load_mcp_tools(tool_settings(surface.config), surface.config.home)
    return f"{len(tools)} tools of MCP servers. The agent gets them with /new."


def _memory_words(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(word, "") for word in memory_actions.ACTIONS if word.startswith(typed)]


@command(
    "memory",
    category=CATEGORY,
    args="[add | edit | forget | history | undo | …]",
    complete=_memory_words,
)
def memory(surface: Surface, args: str) -> str:
    """Show what is remembered for later conversations and where it came from; change, undo."""
    config = surface.config
    return memory_actions.run(config.home, surface.db, surface.memory, surface.session_id, args)


@command("plugins", category=CATEGORY, scope="cli")
def plugins(surface: Surface, args: str) -> str:
    """List the plugins and the commands they bring."""
    lines = [f"{name}: loaded" for name in host.loaded_plugins()]
    lines += [f"{name}: {reason}" for name, reason in host.plugin_problems().items()]
    lines += [f"/{command.name}  {command.description}" for command in plugin_commands().values()]
    return "\n".join(lines) or "No plugins are loaded. See: hermes plugins list"
