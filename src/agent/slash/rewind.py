"""Commands that take back: messages of the conversation, and what a turn did to files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tools import checkpoints
from tools.base import Workspace
from tools.checkpoints import Checkpoint, list_checkpoints

from .results import Content, Prefill, Send
from .surface import CommandError, Surface, require_idle
from .table import command

CATEGORY = "Taking back"


def _said_by_person(surface: Surface) -> list[dict[str, Any]]:
    """The live messages that the person wrote, oldest first.

    What compression or background work put in as a user's message has a finish reason.
    """
    tip = surface.here.tip(surface.session_id)
    return [
        message
        for message in surface.here.messages(tip)
        if message["role"] == "user" and not message["finish_reason"]
    ]


def _take_back(surface: Surface, turns: int) -> tuple[Content, int]:
    """Take the last `turns` messages of the person back, with all that followed."""
    surface.require_own()
    require_idle(surface)
    said = _said_by_person(surface)
    if not said:
        raise CommandError("There is nothing to take back.")
    if turns > len(said):
        raise CommandError(f"Only {len(said)} of your messages can still be taken back.")
    target = said[-turns]
    done = surface.here.rewind(target["session_id"], target["id"])
    return target["content"], done["rewound_count"]


@command("undo", category=CATEGORY, args="[number]")
def undo(surface: Surface, args: str) -> Prefill:
    """Take back your last message (or several) and all that followed."""
    if args and (not args.isdigit() or int(args) < 1):
        raise CommandError("How many of your messages? For instance: /undo 2")
    message, count = _take_back(surface, int(args or 1))
    return Prefill(message, f"Took back {count} messages. /rollback undoes changes to files.")


@command("retry", category=CATEGORY)
def retry(surface: Surface, args: str) -> Send:
    """Ask your last message again."""
    message, _ = _take_back(surface, 1)
    return Send(message, "Asking again.")


def _numbers(surface: Surface, typed: str) -> list[tuple[str, str]]:
    questions = _checkpoints(surface)[2]
    return [
        (str(number), _checkpoint_line(question))
        for number, question in enumerate(questions, 1)
        if str(number).startswith(typed)
    ]


@command(
    "rollback",
    category=CATEGORY,
    args="[number [file] | diff number] [--force]",
    slow=True,
    complete=_numbers,
)
def rollback(surface: Surface, args: str) -> str:
    """List what turns did to files, show one as a diff, or undo it."""
    words = args.split()
    force = "--force" in words
    words = [word for word in words if word != "--force"]
    workspace, conversation, questions = _checkpoints(surface)
    if not words:
        if not questions:
            return "No turn of this conversation has changed files."
        lines = [
            f"{number:>3}. {_checkpoint_line(question)}"
            for number, question in enumerate(questions, 1)
        ]
        return "\n".join([*lines, "/rollback NUMBER undoes one, /rollback diff NUMBER shows it."])
    show = words[0] == "diff"
    wanted = words[1:] if show else words
    if not wanted or not wanted[0].isdigit() or not 0 < int(wanted[0]) <= len(questions):
        raise CommandError(f"Which one? /rollback lists them; there are {len(questions)}.")
    chosen = questions[int(wanted[0]) - 1]
    file = str(workspace.cwd / wanted[1]) if len(wanted) > 1 else None
    if show:
        return checkpoints.diff(workspace, conversation, chosen.id, file) or "Nothing differs."
    surface.require_own()
    require_idle(surface)
    done = checkpoints.restore(workspace, conversation, chosen.id, file, force=force)
    lines = [f"Put back: {path}" for path in done.files] or ["All was as before already."]
    lines += [f"Left as it is, it was too large to be kept: {path}" for path in done.not_kept]
    return "\n".join(lines)


def _checkpoints(surface: Surface) -> tuple[Workspace, str, list[Checkpoint]]:
    if surface.agent is not None:
        workspace = surface.agent.workspace
    else:
        workspace = Workspace(surface.config.home, Path.cwd())
    conversation = surface.here.root(surface.session_id)
    return workspace, conversation, list_checkpoints(workspace, conversation)


def _checkpoint_line(checkpoint: Checkpoint) -> str:
    names = ", ".join(f"{file.path.name} {file.change}" for file in checkpoint.files[:4])
    more = f" and {len(checkpoint.files) - 4} more" if len(checkpoint.files) > 4 else ""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(checkpoint.at))
    return f"{when}  {names}{more}"
