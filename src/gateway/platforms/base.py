"""What every platform adapter is: connect, hand messages in, send answers out.

An adapter knows its platform and nothing of sessions. It hands every message it gets to
`on_message` and acknowledges it to its platform only when that has returned: by then the message
is stored. Sending either returns the id under which the platform shows the text, or raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ..config import Platform, PlatformConfig
from ..session import SessionSource
from .host import AdapterHost, StandaloneHost
from .manifest import Capabilities, Formatter, Manifest

__all__ = [
    "AdapterHost", "Button", "Capabilities", "Manifest", "MessageEvent", "OnMessage",
    "PlatformAdapter", "SendError",
]  # fmt: skip


@dataclass(slots=True)
class MessageEvent:
    """A message as it came in."""

    text: str
    source: SessionSource
    message_id: str | None = None
    """The platform's id; a message with an id that was seen is not a new one."""
    media: list[str] = field(default_factory=list)
    """Files that came with it, kept on disk."""
    unread: list[str] = field(default_factory=list)
    """What came with it and could not be kept, and why: its sender is told. `text` says it too."""
    reply_to: str | None = None
    timestamp: datetime | None = None
    is_edit: bool = False
    button: str | None = None
    """What a pressed button says, for approvals and questions."""
    album: str | None = None
    """The platform's id of the album it is part of: its parts are one message."""
    split_with: str | None = None
    """Where its client may have split a longer message and sends the rest next: what stood between
    the two, as far as that can be known. None for a message that is whole."""
    order: int | None = None
    """Its place among the messages of its chat, where the platform tells it."""
    raw: Any = field(default=None, repr=False)


class SendError(Exception):
    """A platform did not take a message. `retry_after` is its own wish in seconds."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        permanent: bool = False,
        unsure: bool = False,
        held: bool = False,
    ) -> None:
        super().__init__(message)
        self.unsure = unsure
        """Whether it may have been shown all the same: the connection broke before the reply."""
        self.retry_after = retry_after
        self.permanent = permanent
        """Whether trying again is useless: the chat is gone, or we were thrown out."""
        self.held = held
        """Whether it can be shown only after the person has written: until `host.release`."""


@dataclass(frozen=True, slots=True)
class Button:
    """A choice under a message."""

    label: str
    data: str


OnMessage = Callable[[MessageEvent], Awaitable[None]]


class PlatformAdapter(ABC):
    """One connected platform."""

    platform: Platform
    capabilities = Capabilities()
    manifest: Manifest | None = None
    """What its package or plugin says of its platform."""
    is_exclusive = True
    """Whether one gateway at a time may be connected. Else any number take requests, and one of
    them goes on with those."""

    @property
    def account(self) -> str:
        """Which of several accounts of the platform it is; "" where there can be only one."""
        return ""

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        """`host` is the gateway; a function that takes messages stands for one in programs."""
        self.config = config
        self.host: AdapterHost = StandaloneHost(config, host) if callable(host) else host
        self.on_message: OnMessage = self.host.accept

    def describe(self, manifest: Manifest) -> None:
        """Take over what the class does not say itself of its platform."""
        if self.manifest is None:
            self.manifest = manifest
        if type(self).capabilities is PlatformAdapter.capabilities:
            self.capabilities = manifest.capabilities

    @abstractmethod
    async def connect(self) -> None:
        """Be ready to receive and send; raises if the platform cannot be reached."""

    @abstractmethod
    async def run(self) -> None:
        """Receive until cancelled; raises when the connection breaks (it is made again)."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Stop receiving, and free connections."""

    @abstractmethod
    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Show a text in a chat; returns the platform's id for it. Raises SendError.

        `text` is as `format` made it, and so it is for `edit` and for the caption of a file.
        Where the platform knows such a thing, `key` keeps a repeated request from showing twice.
        """

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours; only where `capabilities.edits`."""
        raise NotImplementedError

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made; nothing where the platform has no such sign."""
        return

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Acknowledge a message; nothing where the platform has no reactions."""
        return

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a file; where the platform cannot, its name is sent."""
        return await self.send(chat_id, f"{caption}\n[{path}]".strip(), thread_id=thread_id)

    async def send_with_files(
        self,
        chat_id: str,
        text: str,
        files: Sequence[Path],
        *,
        thread_id: str | None = None,
        key: str | None = None,
    ) -> str | None:
        """Show a text with files as one message; only where `capabilities.attaches`."""
        raise NotImplementedError

    def format(self, markdown: str) -> str:
        """Markdown as the platform takes it, by its manifest's formatter."""
        return self._formatter(markdown)

    @cached_property
    def _formatter(self) -> Formatter:
        return str if self.manifest is None else self.manifest.find_formatter()

    def measure(self, markdown: str, /) -> int:
        """How long the platform takes a text to be; never less than its characters."""
        return len(markdown)
