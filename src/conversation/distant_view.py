"""A turn that runs on another machine, watched through the store.

The view is a watch that is renewed as long as it is open. The machine that runs the turn is told of
it, and stores what happens; notifications say when to read, and without them it is read once a
second.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.events import TurnFinished
from hermes_state import (
    EVENTS,
    EVERYBODY,
    WATCH_SECONDS,
    EventBatch,
    StoreClosedError,
    StoreError,
)

from .events import Numbered
from .wire import decode

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
RENEW_SECONDS = WATCH_SECONDS / 3
PACE_SECONDS = 0.02


class DistantView:
    """A conversation in which another machine runs a turn, watched until `close` is called."""

    def __init__(self, db: SessionDB, conversation_id: str, since: int = 0) -> None:
        """Raises StoreError if the store cannot take the watch."""
        self._db, self._conversation_id = db, conversation_id
        self._viewer = os.urandom(8).hex()
        self._topic = db.wake.topic(EVENTS)
        self._seen = since
        self._is_served = False
        """Whether it was shown what had happened before it came."""
        self._is_closed = False
        self.turn_ended = threading.Event()
        """Set when the end of a turn was shown, or nothing more is."""
        db.watch_turn(conversation_id, self._viewer, since)
        self._renewed = time.monotonic()

    def __iter__(self) -> Iterator[Numbered]:
        """The events as they happen."""
        woken = -1
        try:
            while not self._is_closed:
                woken = self._topic.wait(woken, LOOK_SECONDS, PACE_SECONDS)
                try:
                    yield from self._read()
                    self._renew()
                except StoreClosedError:
                    return
                except StoreError as error:
                    log.info("%s cannot be watched now: %s", self._conversation_id, error)
        finally:
            self.turn_ended.set()
            self._leave()

    def close(self) -> None:
        """Watch no more; from any thread."""
        self._is_closed = True
        self._topic.ring()

    def _read(self) -> Iterator[Numbered]:
        after = self._seen if self._is_served else self._seen - 1
        batches = self._db.list_events(self._conversation_id, self._viewer, after)
        for batch in batches:
            if batch.viewer == EVERYBODY and not self._is_served:
                continue  # it is among what comes first
            self._is_served = True
            yield from self._unpack(batch)

    def _unpack(self, batch: EventBatch) -> Iterator[Numbered]:
        for line in batch.lines.splitlines():
            number, event = decode(line.encode())
            if event is not None and number > self._seen and not self._is_closed:
                yield Numbered(number, event)
                if isinstance(event, TurnFinished):
                    self.turn_ended.set()
        self._seen = max(self._seen, batch.number)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed > RENEW_SECONDS:
            self._db.renew_watch(self._conversation_id, self._viewer, self._seen)
            self._renewed = time.monotonic()

    def _leave(self) -> None:
        try:
            self._db.end_watch(self._conversation_id, self._viewer)
        except StoreError as error:
            # The watch lapses by itself.
            log.info("The watch of %s is left to lapse: %s", self._conversation_id, error)


def follow_distant(
    db: SessionDB, conversation_id: str, show: Callable[[Numbered], None], since: int = 0
) -> DistantView | None:
    """Watch in a thread; None if that is not possible now."""
    try:
        view = DistantView(db, conversation_id, since)
    except StoreError as error:
        log.info("The turn in %s cannot be watched: %s", conversation_id, error)
        return None

    def run() -> None:
        for numbered in view:
            show(numbered)

    threading.Thread(target=run, name="hermes-watch", daemon=True).start()
    return view
