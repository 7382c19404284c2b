"""The heartbeat of running turns: one thread a process says that they are being worked on.

A turn that ends within a beat costs nothing. One whose lease turns out to be somebody else's is
stopped; it could not write anything more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hermes_state import LEASE_SECONDS, Lease, SessionDB, StoreError

log = logging.getLogger(__name__)

BEAT_SECONDS = LEASE_SECONDS / 4


class Heart:
    """Beats for the turns of one process."""

    def __init__(self, seconds: float = BEAT_SECONDS) -> None:
        self._seconds = seconds
        self._turns: dict[tuple[SessionDB, Lease], Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, db: SessionDB, lease: Lease, lost: Callable[[], object]) -> None:
        """Beat for a turn from now on; `lost` is called if another process has it."""
        with self._changed:
            self._turns[db, lease] = lost
            if self._thread is None or not self._thread.is_alive():  # also after a fork
                self._thread = threading.Thread(
                    target=self._beat_on, name="hermes-heartbeat", daemon=True
                )
                self._thread.start()
            elif len(self._turns) == 1:
                self._changed.notify()

    def end(self, db: SessionDB, lease: Lease) -> None:
        """The turn is not worked on here any more."""
        with self._changed:
            self._turns.pop((db, lease), None)

    def _beat_on(self) -> None:
        pause = threading.Event()  # nobody sets it: a wait of its own, not woken by new turns
        while True:
            with self._changed:
                while not self._turns:
                    self._changed.wait()
            pause.wait(self._seconds)
            self.beat()

    def beat(self) -> None:
        """Beat once, for all of them."""
        with self._changed:
            by_store: dict[SessionDB, list[Lease]] = {}
            for db, lease in self._turns:
                by_store.setdefault(db, []).append(lease)
        for db, leases in by_store.items():
            try:
                lost = db.beat_turns(leases)
            except StoreError as error:
                # A store that takes nothing now lets nobody else take the turns over either.
                log.warning("No heartbeat for %d turns: %s", len(leases), error)
                continue
            for lease in lost:
                with self._changed:
                    tell = self._turns.pop((db, lease), None)
                if tell is not None:
                    log.warning("The turn in %s was taken over", lease.conversation_id)
                    tell()


heart = Heart()
"""The one of this process."""
