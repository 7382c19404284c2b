"""Showing turns of this process to viewers on other machines, through the store.

Only what is watched is stored, in batches a few times a second. A viewer that comes later first
gets, for itself, what had happened by then. When the turn has ended, its events stay for a moment,
so that everybody can read the last ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent.events import TurnFinished
from hermes_state import EVERYBODY, EventBatch, StoreClosedError, StoreError

from .wire import encode

if TYPE_CHECKING:
    from hermes_state import SessionDB

    from .events import ConversationLog, Logs, Numbered

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.1
"""Between two batches."""
RETRY_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""For viewers to read the last events; afterwards they are deleted."""
MAX_WAITING = 10_000
"""Events that wait for the store; with more, viewers begin anew."""


class Broadcast:
    """One conversation that is watched from elsewhere."""

    def __init__(self, db: SessionDB, conversation_id: str, events: ConversationLog) -> None:
        self._db, self._conversation_id, self._log = db, conversation_id, events
        self._changed = threading.Condition()
        self._waiting: list[Numbered] = []
        self._newcomers: dict[str, int] = {}
        self._served: set[str] = set()
        self._last = 0
        """The number of the last batch that was stored."""
        self._is_urgent = False
        self._is_over = False
        self._stop = events.subscribe(events.number, self._put)
        threading.Thread(target=self._run, name="hermes-broadcast", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is shown."""
        return self._is_over

    def _put(self, numbered: Numbered) -> None:
        with self._changed:
            self._waiting.append(numbered)
            # The end is shown at once: viewers hear of it from the store too.
            self._is_urgent = self._is_urgent or isinstance(numbered.event, TurnFinished)
            is_beyond = len(self._waiting) > MAX_WAITING
            self._changed.notify()
        if is_beyond:
            # Not from within the log, which holds its lock: the thread unsubscribes.
            self.end()

    def serve(self, viewers: Mapping[str, int]) -> None:
        """Replace the viewers by these, each with the number of the last event it has seen."""
        with self._changed:
            self._served &= viewers.keys()
            for viewer, since in viewers.items():
                if viewer not in self._served:
                    self._served.add(viewer)
                    self._newcomers[viewer] = since
            self._changed.notify()

    def end(self) -> None:
        """Show what is left, and then nothing more."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._await_work():
                if not self._write():
                    return
            if self._write():
                last = self._last
                time.sleep(GRACE_SECONDS)
                self._db.drop_events(self._conversation_id, last)
        except StoreError as error:
            # The next viewer deletes old events.
            log.info("The events of %s are left in the store: %s", self._conversation_id, error)
        finally:
            self._is_over = True
            self._stop()

    def _await_work(self) -> bool:
        """Wait until a batch is due; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._newcomers or self._is_over)
            self._changed.wait_for(lambda: self._is_urgent or self._is_over, BATCH_SECONDS)
            self._is_urgent = False
            return not self._is_over

    def _write(self) -> bool:
        """Store the waiting events; False if the store failed too long: viewers begin anew."""
        with self._changed:
            events, self._waiting = self._waiting, []
            newcomers, self._newcomers = self._newcomers, {}
        batches = [self._catch_up(viewer, since) for viewer, since in newcomers.items()]
        if events:
            batches.append(_batch(EVERYBODY, events, 0))
        while batches:
            try:
                self._db.add_events(self._conversation_id, batches)
                self._last = max(self._last, *(batch.number for batch in batches))
                return True
            except StoreClosedError:
                return False
            except StoreError as error:
                log.info("The events of %s wait: %s", self._conversation_id, error)
            with self._changed:
                if self._changed.wait_for(lambda: self._is_over, RETRY_SECONDS):
                    return False
        return True

    def _catch_up(self, viewer: str, since: int) -> EventBatch:
        """What a newcomer has not seen; what comes after it is in the batches for everybody."""
        missed: list[Numbered] = []
        number = self._log.number
        stop = self._log.subscribe(since, missed.append)
        stop()
        return _batch(viewer, missed, number)


class Broadcasts:
    """The conversations of a process that are watched from elsewhere."""

    def __init__(self, db: SessionDB, logs: Logs) -> None:
        self._db, self._logs = db, logs
        self._lock = threading.Lock()
        self._running: dict[str, Broadcast] = {}

    @property
    def is_used(self) -> bool:
        """Whether anybody watches."""
        return bool(self._running)

    def follow(self, watches: Iterable[Mapping[str, Any]]) -> None:
        """Show the conversations of these watches to their viewers, and no others."""
        wanted: dict[str, dict[str, int]] = {}
        for watch in watches:
            viewers = wanted.setdefault(str(watch["conversation_id"]), {})
            viewers[str(watch["viewer"])] = int(watch["since"])
        with self._lock:
            for name in [name for name in self._running if name not in wanted]:
                self._running.pop(name).end()
            for name, viewers in wanted.items():
                running = self._running.get(name)
                if running is None or running.is_over:
                    running = Broadcast(self._db, name, self._logs.log(name))
                    self._running[name] = running
                running.serve(viewers)

    def turn_ended(self, conversation_id: str) -> None:
        """The turn runs here no more."""
        with self._lock:
            running = self._running.pop(conversation_id, None)
        if running is not None:
            running.end()


def _batch(viewer: str, events: list[Numbered], at_least: int) -> EventBatch:
    lines = b"".join(encode(*numbered) for numbered in events).decode()
    return EventBatch(max([at_least, *(event.number for event in events)]), viewer, lines)
