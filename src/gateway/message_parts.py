"""Messages that a client sends as several: an album, or a long text that it split.

Each part is stored in the inbox under its own platform id. A turn waits a moment for further parts,
and takes all of them at once; in which order they arrive does not matter. What belongs together can
be told from the parts alone, so it is found again after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from .platforms.base import MessageEvent

if TYPE_CHECKING:
    from .pipeline import Inbound

LONGEST_WAIT = 60.0
"""Seconds after which a message begins without the parts that are still being fetched."""

REMEMBERED_CHATS = 1024
"""Chats whose latest message is remembered, so that its further parts are known."""

K = TypeVar("K")
V = TypeVar("V")


def goes_on_in(earlier: MessageEvent, later: MessageEvent, seconds: float) -> bool:
    """Whether one message is continued by another: of the same album, or split at its end.

    `seconds` is how far apart the parts of a split text may have been sent.
    """
    if _sender(earlier) != _sender(later):
        return False
    if any(event.is_edit or event.button is not None for event in (earlier, later)):
        return False
    if earlier.album is not None or later.album is not None:
        return earlier.album == later.album
    if earlier.split_with is None:
        return False
    if earlier.timestamp is None or later.timestamp is None:
        return True
    apart = (later.timestamp - earlier.timestamp).total_seconds()
    return abs(apart) <= seconds + 1  # platforms tell whole seconds


def select_parts(first: Inbound, waiting: Sequence[Inbound], seconds: float) -> list[Inbound]:
    """`first` and those of the waiting messages that are one message with it, in their order."""
    known = {first.inbox_id: first}
    for inbound in waiting:
        known.setdefault(inbound.inbox_id, inbound)
    ordered = list(known.values())
    if all(inbound.event.order is not None for inbound in ordered):
        ordered.sort(key=lambda inbound: inbound.event.order or 0)
    if first.event.album is not None:
        return [part for part in ordered if goes_on_in(first.event, part.event, seconds)]
    begin = end = ordered.index(first)
    while begin > 0 and goes_on_in(ordered[begin - 1].event, ordered[begin].event, seconds):
        begin -= 1
    while end + 1 < len(ordered) and goes_on_in(
        ordered[end].event, ordered[end + 1].event, seconds
    ):
        end += 1
    return ordered[begin : end + 1]


def may_have_more(parts: Sequence[Inbound]) -> bool:
    """Whether further parts of a message may come."""
    return parts[-1].event.album is not None or parts[-1].event.split_with is not None


def merge_parts(parts: Sequence[Inbound]) -> Inbound:
    """Several parts as the one message that was meant; it names the inbox rows of all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    text = first.event.text
    for earlier, later in itertools.pairwise(parts):
        between = "\n" if earlier.event.split_with is None else earlier.event.split_with
        text += (between if text and later.event.text else "") + later.event.text
    media = [path for part in parts for path in part.event.media]
    event = dataclasses.replace(first.event, text=text, media=media)
    rest = tuple(part.inbox_id for part in parts[1:])
    return dataclasses.replace(first, event=event, further_ids=rest)


class PartsExpected:
    """Which chats have a message of which more may come, and since when."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._latest: OrderedDict[tuple[object, ...], MessageEvent] = OrderedDict()
        self._arrived: OrderedDict[str, float] = OrderedDict()
        self._fetching: dict[str, int] = {}
        self._changed = asyncio.Event()

    def note(self, event: MessageEvent) -> None:
        """A message was accepted: what is a further part of it is expected."""
        if not self._seconds or (event.album is None and event.split_with is None):
            return
        _remember(self._latest, _sender(event), event)

    def arrived(self, key: str) -> None:
        """A message of a chat is there: the wait for further parts begins anew."""
        if self._seconds:
            _remember(self._arrived, key, time.monotonic())
            self._changed.set()

    def forget(self, key: str) -> None:
        """The chat's message has begun."""
        self._arrived.pop(key, None)

    def expects(self, event: MessageEvent) -> bool:
        """Whether a message is a further part of one that was accepted."""
        latest = self._latest.get(_sender(event))
        return latest is not None and goes_on_in(latest, event, self._seconds)

    @contextlib.contextmanager
    def fetching(self, key: str) -> Iterator[None]:
        """A part has arrived, and its files are being fetched: its message waits for it."""
        self._fetching[key] = self._fetching.get(key, 0) + 1
        try:
            yield
        finally:
            self._fetching[key] -= 1
            if not self._fetching[key]:
                del self._fetching[key]
            self.arrived(key)

    def of(self, inbound: Inbound, waiting: Iterable[Inbound]) -> list[Inbound]:
        """A message with those of the waiting ones that are parts of it, in their order."""
        if inbound.is_noted or not self._seconds:
            return [inbound]
        return select_parts(inbound, list(waiting), self._seconds)

    async def complete(self, inbound: Inbound, waiting: Iterable[Inbound]) -> bool:
        """Wait until a message has all its parts, as far as that can be known; True if that took
        a wait. `waiting` is looked at anew whenever something arrives."""
        key, waited = inbound.session_key, False
        if not self._seconds:
            return waited
        give_up = time.monotonic() + LONGEST_WAIT
        begun = time.monotonic()
        while may_have_more(self.of(inbound, waiting)) and (now := time.monotonic()) < give_up:
            until = give_up
            if key not in self._fetching:
                until = min(give_up, self._arrived.get(key, begun) + self._seconds)
            if now >= until:
                break
            waited = True
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - now):
                    await self._changed.wait()
        return waited


def _remember(latest: OrderedDict[K, V], key: K, value: V) -> None:
    latest[key] = value
    latest.move_to_end(key)
    while len(latest) > REMEMBERED_CHATS:
        latest.popitem(last=False)


def _sender(event: MessageEvent) -> tuple[object, ...]:
    source = event.source
    return source.platform, source.chat_id, source.thread_id, source.user_id
