"""What a person and a model are told about the wall: its kind, or that there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base import Mode, ToolContext
from .kinds import means

_STATE = "told_of_no_wall"
_SHOWN_FOLDERS = 5


def wall_line(
    terminal: Mapping[str, Any], mode: Mode, root: Path, folders: Iterable[Path] = ()
) -> str:
    """One line on a conversation's wall: its kind, where may be written, the mode.

    `terminal` is that section of the settings, `root` where the person put the conversation.
    """
    if mode == "full":
        return "Wall: none, and nothing is asked (mode full)"
    backend = terminal.get("backend") or "local"
    if backend != "local":
        return f"Wall: none of ours; commands run over {backend} (mode {mode})"
    if terminal.get("sandbox") == "off":
        return f"Wall: none, terminal.sandbox is off (mode {mode})"
    available = means()
    if available.kind == "none":
        return f"Wall: none ({available.why}); what is dangerous is asked (mode {mode})"
    where = "nowhere" if mode == "plan" else f"in {_listed([root, *folders])}"
    return f"Wall: {available}; writes {where} (mode {mode})"


def _listed(folders: list[Path]) -> str:
    shown = [str(folder) for folder in folders if folder != Path("/")] or ["its own /tmp only"]
    more = len(shown) - _SHOWN_FOLDERS
    return ", ".join(shown[:_SHOWN_FOLDERS]) + (f" and {more} more" if more > 0 else "")


def is_chosen() -> bool:
    """Whether a person said which kinds of wall may be tried here."""
    return bool(os.environ.get("HERMES_WALL"))


def remark_of_none(context: ToolContext) -> str:
    """At a conversation's first command: that no wall is around it, unless that was chosen."""
    workspace = context.workspace
    if not workspace.is_local or workspace.mode == "full":
        return ""
    if (
        workspace.section("terminal").get("sandbox") == "off"
        or is_chosen()
        or means().kind != "none"
    ):
        return ""
    with workspace.lock:
        if workspace.state.get(_STATE):
            return ""
        workspace.state[_STATE] = True
    return (
        f"[no wall is around commands here ({means().why}): they may do what this account may, and"
        " what is dangerous is asked. `hermes doctor` says more.]"
    )
