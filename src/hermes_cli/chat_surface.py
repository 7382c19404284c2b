"""Slash commands in `hermes chat`: what the plain terminal offers them.

Imported with the first line that begins with a slash, so that it costs the start nothing.
"""

from __future__ import annotations

import base64
import mimetypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.agent import AIAgent
from agent.slash import (
    Alias,
    CommandError,
    Prefill,
    Send,
    Skill,
    Surface,
    complete,
    is_command,
    run,
)
from agent.slash.results import Content
from hermes_cli.terminal_guard import unguarded
from hermes_state import StoreError, person_of

if TYPE_CHECKING:
    from hermes_cli.chat import Chat

__all__ = ["ChatSurface", "carry_out", "complete_line", "is_command", "with_images"]

LARGEST_IMAGE = 20_000_000


class ChatSurface(Surface):
    """The conversation of one `hermes chat`."""

    reads_while_busy = False

    def __init__(self, chat: Chat) -> None:
        super().__init__(chat.db, chat.config)
        self._chat = chat
        self.images: list[Path] = []
        """Pictures that go along with the next message."""
        self.pending_title: str | None = None
        """A title that waits for the session's row."""
        self.leaving = False

    @property
    def session_id(self) -> str:
        """The session that the agent is in."""
        return self._chat.agent.session_id

    @property
    def agent(self) -> AIAgent:
        """The agent; here it is built with the program."""
        return self._chat.agent

    def new_session(self, title: str | None) -> None:
        """End the conversation and begin another."""
        self._go(None, "new_session")
        self.pending_title = title

    def switch_session(self, session_id: str) -> None:
        """Resume another conversation."""
        self._go(session_id, "session_switch")

    def _go(self, session_id: str | None, reason: str) -> None:
        self._chat.switch(session_id, reason)
        self.options, self.images, self.pending_title = {}, [], None

    def set_title(self, title: str) -> bool:
        """Name the conversation, now or with its first message."""
        if super().set_title(title):
            return True
        cleaned = self.db.sanitize_title(title)
        if cleaned and self.db.view(person_of(self.user_id)).find_title(cleaned) is not None:
            raise ValueError(f"The title {cleaned!r} is taken.")
        self.pending_title = cleaned
        return False

    def give_title(self) -> str | None:
        """Store the pending title of the session; returns what is wrong with it, if anything."""
        title, self.pending_title = self.pending_title, None
        if title is None:
            return None
        try:
            if not super().set_title(title):
                self.pending_title = title
        except ValueError as error:
            return str(error)
        except StoreError as error:
            self.pending_title = title  # the answer was shown already: retry with the next one
            return f"The title {title!r} is not stored yet: {error}"
        return None

    def set_model(self, name: str) -> str:
        """Switch to another model."""
        return self._chat.switch_model(name)

    def say(self, text: str) -> None:
        """Show a line."""
        show(text)

    def attach_image(self, path: Path) -> None:
        """Keep a picture for the next message."""
        if not (mimetypes.guess_type(path.name)[0] or "").startswith("image/"):
            raise CommandError(f"{path.name} does not look like a picture.")
        if path.stat().st_size > LARGEST_IMAGE:
            raise CommandError(f"{path.name} is larger than {LARGEST_IMAGE // 1_000_000} MB.")
        self.images.append(path)

    def copy(self, text: str) -> None:
        """Have the terminal put text on the clipboard, also from a machine far away."""
        if not sys.stderr.isatty():
            raise CommandError("There is no terminal with a clipboard here.")
        encoded = base64.b64encode(text.encode(errors="replace")).decode()
        unguarded(sys.stderr).write(f"\033]52;c;{encoded}\a")
        sys.stderr.flush()

    def clear_screen(self) -> None:
        """Clear the terminal."""
        unguarded(sys.stderr).write("\033[2J\033[H")
        sys.stderr.flush()

    def leave(self) -> None:
        """End the program after this command."""
        self.leaving = True


def carry_out(
    surface: ChatSurface,
    line: str,
    send: Callable[[Content], object],
    prefill: Callable[[str], None],
) -> None:
    """Run a command and do what it comes to: show, `send` a message, or offer one for editing."""
    try:
        result = run(surface, line)
        if isinstance(result, Alias):
            result = run(surface, f"/{result.target}")
    except KeyboardInterrupt:
        show("[interrupted]")
        return
    if isinstance(result, Send | Skill):
        notice = result.notice if isinstance(result, Send) else f"Using the skill {result.name}."
        if notice:
            show(notice)
        send(result.message)
    elif isinstance(result, Prefill):
        show(result.notice)
        if isinstance(result.message, str):
            prefill(result.message)
    elif not isinstance(result, Alias) and result.output:
        show(result.output)


def complete_line(surface: ChatSurface, line: str) -> list[str]:
    """The whole lines that a line being typed could become."""
    completions = complete(surface, line)
    return [line[: completions.replace_from] + item.text for item in completions.items]


def with_images(text: str, images: list[Path]) -> Content:
    """A message with pictures in it; just the text without any."""
    if not images:
        return text
    parts = [
        {
            "type": "image_url",
            "image_url": {
                "url": f"data:{mimetypes.guess_type(path.name)[0]};base64,"
                + base64.b64encode(path.read_bytes()).decode()
            },
        }
        for path in images
    ]
    return [{"type": "text", "text": text}, *parts]


def show(text: str) -> None:
    """A line for the person, apart from the answer."""
    print(text, file=sys.stderr, flush=True)
