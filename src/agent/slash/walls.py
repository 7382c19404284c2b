"""Commands for what a conversation may do: its mode, and where it may write."""

from __future__ import annotations

from pathlib import Path

from agent import wall_choices
from agent.wall_choices import WallChoiceError
from tools.base import Mode
from tools.modes import MEANINGS, MODES

from .surface import CommandError, Surface
from .table import command

CATEGORY = "Settings"


def _modes(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(mode, MEANINGS[mode]) for mode in MODES if mode.startswith(typed)]


@command("mode", category=CATEGORY, args="[plan|guarded|full]", complete=_modes)
def mode(surface: Surface, args: str) -> str:
    """Show or choose what the agent may do in this conversation."""
    if not args:
        now = wall_choices.mode_of(surface.db, surface.config, surface.session_id, surface.access)
        allowed = [mode for mode in MODES if mode != now and not surface.access.why_no_mode(mode)]
        others = [f"  /mode {mode}: {MEANINGS[mode]}" for mode in allowed]
        return "\n".join([f"Mode: {now}. {_meaning(now)}", "Others:", *others])
    try:
        chosen = wall_choices.mode_named(args)
    except WallChoiceError as error:
        raise CommandError(str(error)) from error
    _choose(surface, chosen)
    return f"Mode: {chosen}. {_meaning(chosen)}"


def _choose(surface: Surface, mode: Mode) -> None:
    if refusal := surface.access.why_no_mode(mode):
        raise CommandError(refusal)
    surface.set_mode(mode)


def _meaning(name: Mode) -> str:
    meaning = MEANINGS[name]
    return f"{meaning[0].upper()}{meaning[1:]}."


@command("yolo", category=CATEGORY, args="[on|off]")
def yolo(surface: Surface, args: str) -> str:
    """Do everything in this conversation without a wall and without asking (/mode full), or not."""
    word = args.lower()
    if word not in ("", "on", "off"):
        raise CommandError("/yolo knows on and off.")
    before = wall_choices.mode_of(surface.db, surface.config, surface.session_id, surface.access)
    is_on = before != "full" if not word else word == "on"
    _choose(surface, "full" if is_on else "guarded")
    if is_on:
        return (
            "Mode: full. Dangerous commands now run without asking and without a wall, in this"
            " conversation. /yolo off ends it."
        )
    if surface.config.approvals.mode == "off":
        return (
            "Mode: guarded. Commands run inside a wall again; nothing is asked, because"
            " approvals.mode is off in the configuration."
        )
    return "Mode: guarded. Dangerous commands are asked about."


@command("folder", category=CATEGORY, args="[add PATH | remove PATH]", aliases=("folders",))
def folder(surface: Surface, args: str) -> str:
    """List the folders that the agent may write to, or add and remove one."""
    action, _, path = args.strip().partition(" ")
    path = path.strip()
    if path[:1] == path[-1:] and path[:1] in ("'", '"') and len(path) > 1:
        path = path[1:-1]
    if not action or (action == "list" and not path):
        return _listed(surface)
    if action not in ("add", "remove") or not path:
        raise CommandError("/folder lists them, /folder add PATH and /folder remove PATH do that.")
    try:
        if action == "add" and surface.actor is not None:
            raise CommandError(f"There is no folder {path}. /folder lists them.")
        if action == "add":
            wanted = wall_choices.folder_named(path, surface.root, surface.config.home)
            surface.add_folder(wanted)
            return f"Added for this conversation: {wanted}"
        wanted = wall_choices.real_folder(path, surface.root)
        if wanted in map(Path.resolve, wall_choices.configured_folders(surface.config)):
            raise CommandError(f"{wanted} stands in terminal.folders: hermes config set ends that.")
        surface.remove_folder(wanted)
    except WallChoiceError as error:
        raise CommandError(f"{error} /folder lists them.") from error
    return f"No longer written to: {wanted}"


def _listed(surface: Surface) -> str:
    added = wall_choices.added_folders(surface.db, surface.session_id)
    configured = wall_choices.configured_folders(surface.config)
    lines = [f"{surface.root} (where this conversation is)"]
    lines += [f"{folder} (terminal.folders)" for folder in configured]
    lines += [f"{folder} (added)" for folder in added]
    lines.append("/folder add PATH lets it write to another one.")
    return "\n".join(lines)
