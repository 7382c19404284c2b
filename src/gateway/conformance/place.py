"""The other side of an adapter: its platform, as a test plays it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ..platforms.base import PlatformAdapter

CONFIG = """\
auxiliary: {title_generation: {enabled: false}}
memory: {review_every: 0}
"""
"""Of a gateway's home, so that its model is asked for answers only."""


class Place(ABC):
    """A platform with one person in one chat, and as much more as it can play."""

    adapter: PlatformAdapter
    chat_id: str
    """A chat in which a person and we are, and nobody else."""
    user_id: str
    knows_when_disconnected = True
    """Whether sending after `disconnect` is refused."""
    redelivers = True
    """Whether what could not be stored is handed in again."""
    keeps_for_later = True
    """Whether a message is handed in later that was written while nobody was connected."""
    converses = True
    """Whether answers are shown in the chat that asked: not where programs call."""
    crowd = 100
    """How many chats write at once; less where each of them is dear to make."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """Methods that make no sense on this platform, and why: their checks pass."""

    # What every place plays

    @abstractmethod
    async def person_says(self, text: str) -> Any:
        """The person writes in the chat; returns something `acknowledged` understands."""

    @abstractmethod
    async def delivered_again(self, said: Any) -> None:
        """The platform delivers the same message another time."""

    @abstractmethod
    def acknowledged(self, said: Any) -> bool:
        """Whether we have told the platform that we have it."""

    @abstractmethod
    async def person_presses(self, label: str) -> None:
        """The person presses a button under our last message."""

    @abstractmethod
    def texts(self) -> list[str]:
        """What our messages in the chat say, as the person sees them."""

    @abstractmethod
    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        """Make the next request to show something fail: for a while, or for good."""

    # What brings more checks

    async def person_edits(self, said: Any, text: str) -> None:
        """The person changes a message."""
        raise NotImplementedError

    async def person_sends(self, name: str, data: bytes) -> None:
        """The person sends a file with this name."""
        raise NotImplementedError

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        """Another person, by their number, writes in a direct chat of their own; returns its id."""
        raise NotImplementedError

    def texts_in(self, chat_id: str) -> list[str]:
        """What our messages in one of those chats say."""
        raise NotImplementedError

    async def chat_is_deleted(self) -> None:
        """The chat is gone, with everything in it."""
        raise NotImplementedError

    async def we_are_removed(self) -> None:
        """We are thrown out of the chat, or may not write in it any more."""
        raise NotImplementedError

    async def go_away(self) -> None:
        """The platform cannot be reached, and its connections are cut."""
        raise NotImplementedError

    async def come_back(self) -> None:
        """It can be reached again."""
        raise NotImplementedError

    async def person_leaves(self, text: str, number: int = 0) -> str:
        """The person, or another by their number, writes so that it is also found by a gateway that
        is not there yet; returns the chat. Only some chats are kept so on some platforms."""
        if number:
            return await self.another_says(number, text)
        await self.person_says(text)
        return self.chat_id

    def is_lost(self, text: str, killed_at: Sequence[float]) -> bool:
        """Whether the platform handed a message out once, and to a gateway that was killed in that
        moment (by `time.monotonic`), so that nobody can have it."""
        return False

    async def forgets(self) -> None:
        """Forget what would be delivered again after a brief absence; histories stay."""
        return

    # How a gateway is put there

    async def prepare(self, home: Path) -> None:
        """Write the home of a gateway that is to have this place."""
        home.mkdir(exist_ok=True)
        (home / "config.yaml").write_text(CONFIG)

    async def adopt(self, adapter: PlatformAdapter) -> None:
        """A gateway runs and has made its adapter: returns when that hears what people say."""
        self.adapter = adapter

    def section(self) -> dict[str, Any]:
        """The platform's section in config.yaml, for a gateway in another process."""
        config = self.adapter.config
        allowed = {"allowed_users": list(config.allowed_users), "allow_all": config.allow_all}
        return {"enabled": True, "token": config.token, **allowed, **config.extra}

    async def is_there(self, home: Path) -> None:
        """Wait until a gateway of another process, with this home, hears what people say."""
        return

    async def is_deserted(self) -> None:
        """Wait until the platform has noticed that a killed gateway is gone, if it matters."""
        return

    def plays(self, *names: str) -> bool:
        """Whether these methods are there; the test is skipped if that is only not written yet."""
        for name in names:
            if name in self.lacks:
                return False
            if getattr(type(self), name) is getattr(Place, name):
                pytest.skip(f"{type(self).__name__} has no {name}(); write it to run this check")
        return True

    def shown_in(self, chat_id: str) -> list[str]:
        """What our messages in any chat say."""
        return self.texts() if chat_id == self.chat_id else self.texts_in(chat_id)


async def until(fits: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not fits():
            await asyncio.sleep(0.002)
