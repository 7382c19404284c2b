"""What an adapter may ask of the gateway that it belongs to: little, and the same for plugins.

An adapter knows its platform and its host, nothing else of the gateway. Without a gateway (in a
test, in a program of one's own) the host is a `StandaloneHost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.home import hermes_home
from conversation.tasks import Tasks
from hermes_base.files import write_private

from ..media import keep

if TYPE_CHECKING:
    from ..config import Platform, PlatformConfig
    from ..session import SessionSource
    from .base import MessageEvent
    from .request_host import RequestHost

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdapterLimits:
    """What the configuration allows an adapter."""

    media_bytes: int = 128 * 1024 * 1024
    """The largest file that is fetched."""
    gives_pairing_codes: bool = False
    """Whether a stranger who writes in a direct chat gets a pairing code."""


class Shelf(Protocol):
    """What an adapter keeps in the store for whichever gateway is connected next; for threads."""

    def read(self) -> dict[str, Any]:
        """Everything that was kept."""
        ...

    def write(self, kept: Mapping[str, Any]) -> None:
        """Keep facts by name; LeaseLostError if another gateway has the platform by now."""
        ...


class Records(Protocol):
    """Many small values that an adapter keeps by name, such as keys; for threads."""

    def read(self, prefix: str = "") -> dict[str, str]:
        """The values of all names that begin with `prefix`."""
        ...

    def write(self, changes: Mapping[str, str | None]) -> None:
        """Write values by name, all or none; None deletes. LeaseLostError if another gateway has
        the platform by now."""
        ...


class AdapterHost(Protocol):
    """The gateway, as one adapter sees it."""

    @property
    def shelf(self) -> Shelf | None:
        """Where an adapter keeps its place and its login; None if in files below the home."""

    @property
    def records(self) -> Records:
        """Where an adapter keeps what changes piece by piece."""

    @property
    def home(self) -> Path:
        """The Hermes home: an adapter keeps its state below it."""

    @property
    def limits(self) -> AdapterLimits:
        """What the configuration allows."""

    async def accept(self, event: MessageEvent, /) -> None:
        """Take a message in; returns when it is stored. Raises StoreError if it cannot be."""

    async def is_allowed(self, source: SessionSource) -> bool:
        """Whether a person is listed or has paired: nobody else's files are fetched."""

    def expects(self, event: MessageEvent) -> bool:
        """Whether an earlier message waits for this one, as a part of it."""

    def expecting(self, source: SessionSource) -> AbstractContextManager[None]:
        """While the files of a message are fetched: earlier parts of that message wait."""

    async def keep_file(self, chat_id: str, name: str, data: AsyncGenerator[bytes, None]) -> Path:
        """Keep a file that came with a message, privately; MediaTooLargeError beyond the limit."""

    def serves(self, platform: Platform) -> bool:
        """Whether another platform is enabled, so that its chats can be sent to."""

    async def deliver(self, to: SessionSource, text: str, key: str) -> None:
        """Enqueue a text for a chat of any platform, once per `key`; it is sent until delivered."""

    async def release(self, source: SessionSource) -> int:
        """Somebody has written: have sent what was held for their chat. For how many
        conversations that is."""

    async def not_shown(self, key: str, reason: str, *, held: bool) -> None:
        """The platform says, after it took the text of this key, that nobody was shown it: it is
        held until `release`, or else counts as failed."""

    def spawn(self, work: Coroutine[Any, Any, object], /) -> asyncio.Task[Any]:
        """Run a coroutine until the gateway stops; a failure is logged."""

    @property
    def requests(self) -> RequestHost:
        """For adapters that answer within a request, as the API does: turns, and the store."""


class FileRecords:
    """Records in one private file: for programs, which have few of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, prefix: str = "") -> dict[str, str]:
        """The values of all names that begin with `prefix`."""
        try:
            kept: dict[str, str] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return {name: value for name, value in kept.items() if name.startswith(prefix)}

    def write(self, changes: Mapping[str, str | None]) -> None:
        """Write values by name; None deletes."""
        merged = {**self.read(), **changes}
        kept = {name: value for name, value in merged.items() if value is not None}
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, json.dumps(kept))


class StandaloneHost:
    """A host without a gateway: messages go to a function, and only the section's list talks."""

    def __init__(
        self,
        config: PlatformConfig,
        on_message: Callable[[MessageEvent], Awaitable[None]],
        home: Path | None = None,
        limits: AdapterLimits | None = None,
    ) -> None:
        self._config = config
        self._on_message = on_message
        self._tasks = Tasks("an adapter")
        self._home = home
        self.limits = limits or AdapterLimits()
        self.shelf: Shelf | None = None

    @property
    def records(self) -> Records:
        """A file below the home."""
        return FileRecords(self.home / "gateway" / "records.json")

    @property
    def home(self) -> Path:
        """The folder that was given, or the Hermes home of the environment."""
        if self._home is None:
            self._home = hermes_home()
        return self._home

    async def accept(self, event: MessageEvent) -> None:
        """Hand a message over."""
        await self._on_message(event)

    async def is_allowed(self, source: SessionSource) -> bool:
        """Whether the section lists somebody, or everybody."""
        return self._config.allow_all or source.user_id in self._config.allowed_users

    def expects(self, event: MessageEvent) -> bool:
        """Nothing waits for its parts."""
        return False

    def expecting(self, source: SessionSource) -> AbstractContextManager[None]:
        """Nothing waits for its parts."""
        return contextlib.nullcontext()

    async def keep_file(self, chat_id: str, name: str, data: AsyncGenerator[bytes, None]) -> Path:
        """Keep a file below the home."""
        return await keep(self.home, "standalone", chat_id, name, data, self.limits.media_bytes)

    def serves(self, platform: Platform) -> bool:
        """No other platform is there."""
        return False

    async def deliver(self, to: SessionSource, text: str, key: str) -> None:
        """There is no queue to deliver from."""
        raise RuntimeError("This adapter has no gateway: nothing can be delivered elsewhere.")

    async def release(self, source: SessionSource) -> int:
        """Nothing is held."""
        return 0

    async def not_shown(self, key: str, reason: str, *, held: bool) -> None:
        """Nobody keeps what was sent."""
        log.warning("%s was not shown: %s", key, reason)

    def spawn(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a coroutine beside everything else."""
        return self._tasks.spawn(work)

    @property
    def requests(self) -> RequestHost:
        """There are no turns to run."""
        raise RuntimeError("This adapter has no gateway: no turn can be run.")
