"""From a line to its result: a command of the table, a plugin's, or a skill by its name.

A command that fails says so in its result; it never breaks the front end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.home import ConfigError
from agent.providers import UnknownProviderError
from hermes_base import plugins
from hermes_state import StoreError
from tools.base import ToolContext, ToolError, Workspace
from tools.skills import skill_view
from tools.skills.index import Skill as SkillFacts
from tools.skills.index import skills_of

from .results import Exec, Plugin, Result, Skill
from .surface import CommandError, Surface
from .table import Command, lookup, normal, parse, table, unknown

if TYPE_CHECKING:
    from hermes_base.plugins.registrations import PluginCommand

log = logging.getLogger(__name__)


def is_command(line: str) -> bool:
    """Whether a line is meant as a command: "/new", but not a path such as "/etc/hosts"."""
    word = line.strip().partition(" ")[0].partition("\n")[0]
    return len(word) > 1 and word[0] == "/" and "/" not in word[1:]


def is_slow(surface: Surface, line: str) -> bool:
    """Whether the command may take long; what is not in the table may."""
    command = lookup(parse(line)[0], surface.scope)
    return command is None or command.slow


def run(surface: Surface, line: str) -> Result:
    """Carry a command out."""
    name, args = parse(line)
    try:
        command = lookup(name, surface.scope)
        known = name if command is None else command.name  # an alias is no way around it
        if refusal := surface.access.why_no_command(known):
            return Exec(refusal, failed=True)
        if command is not None:
            return _run_command(command, surface, args)
        return _run_other(surface, name, args)
    except (CommandError, ToolError, ConfigError, UnknownProviderError, StoreError) as error:
        return Exec(str(error), failed=True)
    except Exception as error:
        # A fault in one command must not cost the person the conversation.
        log.exception("The command /%s failed", name)
        return Exec(f"/{name} failed: {type(error).__name__}: {error}", failed=True)


def _run_command(command: Command, surface: Surface, args: str) -> Result:
    result = command.handler(surface, args)
    return Exec(result) if isinstance(result, str) else result


def _run_other(surface: Surface, name: str, args: str) -> Result:
    plugin = plugin_commands().get(name)
    if plugin is not None:
        return Plugin(plugins.run_command(plugin.name, args) or "")
    skills = skill_names(surface)
    if name in skills:
        return skill_result(surface, skills[name], args)
    if elsewhere := table().get(name):
        where = "in the terminal" if elsewhere.scope == "cli" else "on chat platforms"
        raise CommandError(f"/{name} is only available {where}.")
    known = [key for key, command in table().items() if command.fits(surface.scope)]
    raise unknown(name, [*known, *plugin_commands(), *skills])


def plugin_commands() -> dict[str, PluginCommand]:
    """The commands of loaded plugins, by the name they are called with."""
    return {normal(name): entry for name, entry in plugins.get_commands().items()}


def skill_names(surface: Surface) -> dict[str, str]:
    """What skills can be called by, and their own names."""
    skills = usable_skills(surface)
    return {normal(skill.name.replace(" ", "-")): skill.name for skill in skills}


def usable_skills(surface: Surface) -> list[SkillFacts]:
    """The skills of whoever's conversation it is, and those that are shared."""
    spaces = surface.memory.spaces(surface.db, surface.session_id)
    return skills_of(surface.config.home, surface.config.skills, (*spaces.shown, *spaces.read))


def skill_result(surface: Surface, name: str, args: str) -> Skill:
    """A message that has the skill's instructions in it, and what it is to be used for."""
    home = surface.config.home
    workspace = Workspace(home, home, settings={"skills": surface.config.skills})
    context = ToolContext(
        surface.session_id, "", workspace=workspace, db=surface.db, memory=surface.memory
    )
    text = skill_view.run(context, name)
    task = args or "Do what the skill describes; ask if something needed is missing."
    return Skill(f"Use the skill {name!r}:\n\n{text}\n\n{task}", name)
