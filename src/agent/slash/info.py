"""Commands that show information: status, usage, what there is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.wall_choices import added_folders, configured_folders, mode_of
from hermes_base.version import __version__
from hermes_state import NOBODY, OPERATOR, plain_text
from hermes_state.goals import in_words
from tools.wall.telling import wall_line

from .config_lines import config_lines
from .dispatch import plugin_commands, skill_names
from .owner import is_at_machine, view_of
from .surface import LOCAL, CommandError, Surface
from .table import Command, catalog, command, lookup, unknown

if TYPE_CHECKING:
    from hermes_base.plugins.registrations import PluginCommand

CATEGORY = "Information"
PAGE = 20


def usable(surface: Surface) -> list[Command]:
    """The commands that the person may use."""
    allow = surface.access.commands.allow
    return [command for command in catalog(surface.scope) if allow(command.name)]


def _commands(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [
        (command.name, command.summary)
        for command in usable(surface)
        if command.name.startswith(typed)
    ]


def _others(surface: Surface) -> tuple[list[PluginCommand], list[str]]:
    """The commands of plugins, and the skills, that the person may use."""
    allow = surface.access.commands.allow
    plugins = [entry for name, entry in plugin_commands().items() if allow(name)]
    return plugins, [key for key in skill_names(surface) if allow(key)]


@command("help", category=CATEGORY, args="[command]", complete=_commands)
def help_(surface: Surface, args: str) -> str:
    """List the commands, or explain one."""
    if args:
        wanted = args.removeprefix("/")
        command = lookup(wanted, surface.scope)
        if command is None or not surface.access.commands.allow(command.name):
            raise unknown(wanted, [command.name for command in usable(surface)])
        others = f"\nAlso: {', '.join('/' + alias for alias in command.aliases)}"
        return _line(command, 0) + (others if command.aliases else "")
    lines: list[str] = []
    category = ""
    for entry in usable(surface):
        if entry.category != category:
            category = entry.category
            lines += ["", category] if lines else [category]
        lines.append("  " + _line(entry, 28))
    plugins, skills = _others(surface)
    lines += [
        f"  /{command.name} {command.args_hint}".ljust(31) + command.description
        for command in plugins
    ]
    if skills:
        lines += ["", "Skills", *(f"  /{key}" for key in skills)]
    return "\n".join(lines)


def _line(command: Command, width: int) -> str:
    call = f"/{command.name} {command.args}".rstrip()
    if width and len(call) > width:
        call = f"/{command.name} …"  # /help and its name shows the rest
    return f"{call.ljust(width)} {command.summary}"


@command("commands", category=CATEGORY, args="[page]", scope="gateway")
def commands(surface: Surface, args: str) -> str:
    """List commands and skills, page by page."""
    lines = [_line(command, 0) for command in usable(surface)]
    plugins, skills = _others(surface)
    lines += [f"/{command.name} {command.description}" for command in plugins]
    lines += [f"/{key} (skill)" for key in skills]
    pages = -(-len(lines) // PAGE)
    page = int(args) if args.isdigit() else 1
    if not 1 <= page <= pages:
        raise CommandError(f"There are {pages} pages.")
    shown = lines[(page - 1) * PAGE : page * PAGE]
    return "\n".join([*shown, f"Page {page} of {pages}."])


@command("status", category=CATEGORY)
def status(surface: Surface, args: str) -> str:
    """Show where this conversation is."""
    session = surface.here.session(surface.session_id)
    agent = surface.agent
    lines = [
        f"Session: {surface.session_id}",
        f"Title: {session['title'] if session and session['title'] else 'none'}",
        f"Model: {agent.model if agent is not None else surface.config.model.name}",
        f"Messages: {session['message_count'] if session else 0}",
        f"State: {'answering' if surface.running else 'waiting for you'}",
    ]
    goal = surface.here.goal(surface.session_id)
    if goal is not None:
        lines.append(in_words(goal))
    if is_at_machine(surface):  # where things are on this machine is nothing for a chat
        lines.append(f"Home: {surface.config.home}")
        if agent is not None:
            lines.append(f"Working directory: {agent.workspace.cwd}")
        lines.append(_wall(surface))
    return "\n".join(lines)


def _wall(surface: Surface) -> str:
    """Which wall is around what runs in this conversation."""
    terminal = surface.config.terminal
    settings = {"backend": terminal.backend, "sandbox": terminal.sandbox}
    folders = configured_folders(surface.config) + added_folders(surface.db, surface.session_id)
    mode = mode_of(surface.db, surface.config, surface.session_id)
    return wall_line(settings, mode, surface.root, folders)


@command("whoami", category=CATEGORY)
def whoami(surface: Surface, args: str) -> str:
    """Show who you are here."""
    if surface.user_id is None:
        who = "whoever sits at this machine" if surface.platform in LOCAL else "unknown"
    else:
        person = surface.db.get_person(surface.user_id)
        who = surface.user_id if person is None else f"{person.name} ({person.role})"
    return f"You are {who}, on {surface.platform}."


@command("usage", category=CATEGORY)
def usage(surface: Surface, args: str) -> str:
    """Show what this conversation has used."""
    lineage = surface.here.lineage(surface.session_id)
    sessions = [session for part in lineage if (session := surface.here.session(part))]
    if not sessions:
        return "Nothing was used yet."

    def total(name: str) -> Any:
        return sum(session[name] or 0 for session in sessions)

    cached = total("cache_read_tokens")
    lines = [
        f"Model calls: {total('api_call_count')}",
        f"Tokens: {total('input_tokens')} in ({cached} from cache), {total('output_tokens')} out",
    ]
    if total("reasoning_tokens"):
        lines.append(f"Of these thinking: {total('reasoning_tokens')}")
    priced = any(session["estimated_cost_usd"] is not None for session in sessions)
    lines.append(f"Cost: about ${total('estimated_cost_usd'):.4f}" if priced else "Cost: not known")
    lines += _spent_lately(surface)
    lines += _limits(surface, sessions[-1]["session_key"])
    if surface.agent is not None and (status := surface.agent.context_status()):
        lines.append(f"Context engine {status}")
    return "\n".join(lines)


def _spent_lately(surface: Surface) -> list[str]:
    """What the person has spent today and this month, in all their conversations."""
    if surface.platform not in LOCAL and not surface.user_id:
        return []  # nobody knows whose it is
    now = time.localtime(surface.db.clock)
    today = time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
    month = time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    days = view_of(surface).usage(month)["per_day"]
    date = time.strftime("%Y-%m-%d", time.localtime(today))
    spent = {
        "today": [day for day in days if day["day"] == date],
        "this month": days,
    }
    return [
        f"You, {when}: {sum(day['api_calls'] for day in parts)} model calls,"
        f" about ${sum(day['cost_usd'] for day in parts):.2f}"
        for when, parts in spent.items()
    ]


def _limits(surface: Surface, session_key: str | None) -> list[str]:
    """How much of each limit that holds here is used; none without limits."""
    from agent.limits import find_limits, used_line

    owner = surface.user_id or (None if surface.platform in LOCAL else NOBODY)
    table = find_limits(surface.config, surface.db, owner)
    limits = [] if table is None else table.list_limits(session_key)
    return [used_line(use) for use in surface.db.list_limit_uses(limits)]


@command("insights", category=CATEGORY, args="[days]", slow=True)
def insights(surface: Surface, args: str) -> str:
    """Show what you have used in the last days."""
    if args and (not args.isdigit() or not 0 < int(args) <= 3650):
        raise CommandError("How many days? For instance: /insights 30")
    days = int(args or 30)
    used = view_of(surface).usage(surface.db.clock - days * 86_400)
    lines = [
        f"The last {days} days: {used['conversations']} conversations, "
        f"{used['messages']} messages, {used['tool_calls']} tool calls",
        *(
            f"{model['model']}: {model['api_calls']} calls, {model['input_tokens']} tokens in, "
            f"{model['output_tokens']} out, about ${model['cost_usd']:.2f}"
            for model in used["models"]
        ),
        *_by_person(surface, used["people"]),
    ]
    return "\n".join(lines)


def _by_person(surface: Surface, people: list[dict[str, Any]]) -> list[str]:
    """What everybody has used, for those who see more than their own."""
    if len(people) < 2:
        return []
    names = {person["id"]: person["name"] for person in surface.db.list_persons()}
    return [
        f"{names.get(whose, whose)}: {person['api_calls']} calls, about ${person['cost_usd']:.2f}"
        for person in people
        for whose in [person["user_id"] or OPERATOR]
    ]


@command("version", category=CATEGORY, aliases=("v",))
def version(surface: Surface, args: str) -> str:
    """Show the version."""
    return f"Hermes {__version__}"


@command("config", category=CATEGORY, args="[key]", scope="cli")
def config(surface: Surface, args: str) -> str:
    """Show the configuration, without secrets."""
    lines = [line for line in config_lines(surface.config) if line.startswith(args)]
    return "\n".join(lines) or f"There is no key {args!r}."


@command("copy", category=CATEGORY, args="[number]", scope="cli")
def copy(surface: Surface, args: str) -> str:
    """Put the last answer (or the one before, 2, …) on the clipboard."""
    if args and (not args.isdigit() or int(args) < 1):
        raise CommandError("Which answer? /copy is the last one, /copy 2 the one before.")
    answers = [
        plain_text(message["content"])
        for message in surface.here.conversation(surface.session_id)
        if message["role"] == "assistant" and message.get("content")
    ]
    number = int(args or 1)
    if number > len(answers):
        raise CommandError(f"There are {len(answers)} answers.")
    surface.copy(answers[-number])
    return f"Copied {len(answers[-number])} characters."


@command("image", category=CATEGORY, args="<path>", scope="cli")
def image(surface: Surface, args: str) -> str:
    """Send a picture along with your next message."""
    if not args:
        raise CommandError("Which file? For instance: /image ~/plan.png")
    path = Path(args.strip("'\"")).expanduser()
    # What lies on this machine is nobody's but the operator's.
    if surface.actor is not None or not path.is_file():
        raise CommandError(f"There is no file {path}.")
    surface.attach_image(path)
    return f"{path.name} goes along with your next message."
