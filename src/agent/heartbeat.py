"""The heartbeat of running turns, and of a gateway: one thread renews their leases.

A turn that ends within a beat costs nothing. A turn whose lease another process has taken is
stopped; it could not write anything more.

While a file cannot be written, no other process can take the turns over either. A server may be
unreachable for this process alone: then others take its turns over when the leases have expired, so
this process stops its turns before that and no turn runs twice at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import NamedTuple, Protocol

from hermes_base.clock import elapsed
from hermes_state import LEASE_SECONDS, Beat, Lease, PlatformLease, SessionDB, StoreError

log = logging.getLogger(__name__)

BEAT_SECONDS = LEASE_SECONDS / 4
UNHEARD_SECONDS = LEASE_SECONDS * 3 / 4
"""After so long without a beat on a server, by its own clock, a process stops its turns."""


class Beating(Protocol):
    """A gateway that shares its store with others."""

    def leases(self) -> list[PlatformLease]:
        """What it holds."""
        ...

    def wants(self) -> list[str]:
        """Leases that it would take if they were free."""
        ...

    def heard(self, begun: float, leases: list[PlatformLease], beat: Beat) -> None:
        """A beat for these leases, begun at that moment, succeeded; from another thread."""
        ...


class _Turn(NamedTuple):
    lost: Callable[[], object]
    begun: float
    """When its lease was known to count, by the clock of this process."""


class Heart:
    """Beats for the turns of one process."""

    def __init__(
        self,
        seconds: float = BEAT_SECONDS,
        unheard_seconds: float = UNHEARD_SECONDS,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._seconds = seconds
        self._unheard_seconds = unheard_seconds
        self._clock = clock
        self._turns: dict[tuple[SessionDB, Lease], _Turn] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._beats: dict[SessionDB, tuple[Future[list[Lease]], float]] = {}
        """By server: the running beat, and when it was begun."""
        self._heard: dict[SessionDB, float] = {}
        """By server: when the last successful beat was begun."""
        self._given_up: set[Lease] = set()
        self._replicas: dict[SessionDB, Beating] = {}

    def join(self, db: SessionDB, replica: Beating) -> None:
        """Beat for a gateway from now on."""
        with self._changed:
            self._replicas[db] = replica
            self._start()

    def leave(self, db: SessionDB) -> None:
        """The gateway has ended."""
        with self._changed:
            self._replicas.pop(db, None)

    def begin(
        self,
        db: SessionDB,
        lease: Lease,
        lost: Callable[[], object],
        since: float | None = None,
    ) -> None:
        """Beat for a turn from now on; `lost` is called if this process must stop it.

        `since` is a moment (`hermes_base.clock.elapsed`) at which its lease had not been taken yet.
        """
        with self._changed:
            self._turns[db, lease] = _Turn(lost, self._clock() if since is None else since)
            self._start()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # also after a fork
            self._thread = threading.Thread(
                target=self._beat_on, name="hermes-heartbeat", daemon=True
            )
            self._thread.start()
        elif len(self._turns) + len(self._replicas) == 1:
            self._changed.notify()

    def end(self, db: SessionDB, lease: Lease) -> None:
        """Stop beating for a turn that has ended here."""
        with self._changed:
            self._turns.pop((db, lease), None)

    def give_up(self, db: SessionDB, lease: Lease) -> None:
        """Abandon a turn that has not ended: any process may take it over."""
        with self._changed:
            self._given_up.add(lease)
            self._turns.pop((db, lease), None)

    def beats_for(self, lease: Lease) -> bool:
        """Whether this process beats for a turn."""
        with self._changed:
            return any(known == lease for _, known in self._turns)

    def has_given_up(self, lease: Lease) -> bool:
        """Whether a turn was stopped here because its server could not be reached, or had not been
        for too long."""
        return lease in self._given_up

    def is_sure(self, db: SessionDB, lease: Lease) -> bool:
        """Whether this process surely holds a turn: its lease was confirmed a short while ago.

        A process that was suspended or disconnected checks this before it acts again.
        """
        turn = self._turns.get((db, lease))
        if turn is None:
            return False
        confirmed = max(turn.begun, self._heard.get(db, 0.0))
        return self._clock() - confirmed < self._unheard_seconds

    def _beat_on(self) -> None:
        pause = threading.Event()  # never set: a plain wait, not woken by new turns
        while True:
            with self._changed:
                while not self._turns and not self._replicas:
                    self._changed.wait()
            # A server that does not answer is retried more often: its leases expire meanwhile.
            pause.wait(self._seconds / 5 if self._beats else self._seconds)
            self.beat()

    def beat(self) -> None:
        """Beat once, for all of them."""
        with self._changed:
            by_store: dict[SessionDB, list[Lease]] = {db: [] for db in self._replicas}
            for db, lease in self._turns:
                by_store.setdefault(db, []).append(lease)
        for db, leases in by_store.items():
            is_server = db.is_on_server
            begun = self._clock()
            try:
                if is_server:
                    lost = self._beat_apart(db, leases)
                else:
                    lost = db.beat_turns(leases)
                    self._heard[db] = begun
            except StoreError as error:
                log.warning("No heartbeat for %d turns: %s", len(leases), error)
                lost = []
            for lease in lost:
                self._lose(db, lease, "was taken over")
            if is_server:
                self._give_up_unheard(db)

    def _beat_apart(self, db: SessionDB, leases: list[Lease]) -> list[Lease]:
        """Beat in a thread of its own; this thread waits only a moment for it."""
        if db not in self._beats:
            begun = self._clock()
            self._beats[db] = _in_thread(lambda: self._beat_once(db, leases, begun)), begun
        beat, begun = self._beats[db]
        if not wait([beat], timeout=self._seconds / 5).done:
            return []
        del self._beats[db]
        lost = beat.result()
        self._heard[db] = begun
        return lost

    def _beat_once(self, db: SessionDB, leases: list[Lease], begun: float) -> list[Lease]:
        replica = self._replicas.get(db)
        if replica is None:
            return db.beat_turns(leases)
        held = replica.leases()
        beat = db.beat_replica(held, leases, replica.wants())
        replica.heard(begun, held, beat)
        return beat.lost_turns

    def _give_up_unheard(self, db: SessionDB) -> None:
        edge = self._clock() - self._unheard_seconds
        if self._heard.get(db, 0.0) >= edge:
            return
        with self._changed:
            unheard = [
                lease for (of, lease), turn in self._turns.items() if of is db and turn.begun < edge
            ]
        for lease in unheard:
            self._given_up.add(lease)
            self._lose(db, lease, "is stopped here: its server has not been reached for too long")

    def _lose(self, db: SessionDB, lease: Lease, what: str) -> None:
        with self._changed:
            turn = self._turns.pop((db, lease), None)
        if turn is not None:
            log.warning("The turn in %s %s", lease.conversation_id, what)
            turn.lost()


def _in_thread(work: Callable[[], list[Lease]]) -> Future[list[Lease]]:
    """Begun in a thread that does not keep the process from ending."""
    future: Future[list[Lease]] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name="hermes-beat", daemon=True).start()
    return future


heart = Heart()
"""The one of this process."""
