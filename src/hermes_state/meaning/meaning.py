"""Search by meaning: which messages are like a question, beside the words they have.

The vectors are fed in the background, at most a tenth of the time, and never wait for or hold up
anything else. A search takes what is there: without vectors it goes by words, with half of them by
both where there are both.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import apsw

from ..dialect import tuples
from ..errors import StoreError
from ..search.index import IndexConnection, IndexFile
from .coarse import Allowed, Bits, fine_of, read_bits
from .embedder import Embedder, EmbedderError
from .feed import ANEW, BATCH, ask, place_of, read_round, start_over, sweep, write_round
from .vectors import Array, normalized, to_bits

log = logging.getLogger(__name__)

LOOKED_AT = 400
"""Messages whose bits are most like a question's, which are compared well."""
QUICK_CATCH_UP = 256
"""So many new messages a search waits for, if the model is quick."""
SHARE = 0.1
"""The share of the time that feeding in the background takes at most."""
LET_GO_AFTER = 60.0
"""Seconds without a question after which the bits are no longer held in memory."""
RETRY_AFTER = 60.0
"""Seconds after which a model that could not be asked is asked again."""
_LOST_RACES = 100
_FIRST = 0.25  # seconds that whoever asked is left alone
_QUICK_STEPS = 4  # beginning, changes, new messages, deletions


class Status(NamedTuple):
    """How far the vectors are."""

    model: str
    done: int
    """Messages that were looked at."""
    total: int
    stored: int
    """Messages that have a vector."""
    size: int
    """Bytes on the disk."""


class Likeness:
    """One question: how like it messages are, in units of how much that varies."""

    def __init__(self, file: IndexFile, bits: Bits, question: Array) -> None:
        self._file, self._bits, self._question = file, bits, question
        self._mean, self._spread = bits.usual(question)
        self._known: dict[int, float] = {}

    def of(self, ids: Iterable[int]) -> dict[int, float]:
        """By message, those that have vectors."""
        ids = list(ids)
        missing = [number for number in ids if number not in self._known]
        if missing:
            try:
                known, vectors = self._file.run(lambda conn: fine_of(conn, missing, self._bits))
            except StoreError as error:
                log.warning("A search goes on by words only: %s", error)
                return {}
            scores = (vectors @ self._question - self._mean) / self._spread
            self._known |= zip(known, scores.tolist(), strict=True)
        return {number: self._known[number] for number in ids if number in self._known}

    def nearest(self, allowed: Allowed, count: int) -> list[int]:
        """The messages most like it, best first."""
        bits = to_bits(self._question[None, :])[0]
        scores = self.of(self._bits.nearest(bits, allowed, max(count, LOOKED_AT)))
        return sorted(scores, key=lambda number: (-scores[number], -number))[:count]


class Meaning:
    """The vectors of one store; usable by threads."""

    def __init__(
        self, state_path: Path, path: Path, embedder: Callable[[], Embedder | None]
    ) -> None:
        """`embedder` gives the model, or None if there is none; asked at every use."""
        self.path = path
        self._file = IndexFile(state_path, path)
        self._embedder = embedder
        self._bits: Bits | None = None
        self._reading = threading.Lock()
        """Held by the thread that reads the bits."""
        self._feeder: threading.Thread | None = None
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._failed_at: float | None = None
        self._letting_go: threading.Timer | None = None
        self._asked_at = 0.0

    # Asking

    def question(self, text: str) -> Likeness | None:
        """How like a question messages are; None if there is no model or there are no vectors."""
        embedder = self._usable()
        if embedder is None:
            return None
        try:
            return self._likeness(embedder, text)
        except (EmbedderError, StoreError, ValueError) as error:
            self._failed(error)
            return None

    def _likeness(self, embedder: Embedder, text: str) -> Likeness | None:
        self._refresh(embedder)
        vector = normalized(embedder.embed([text], is_question=True))[0]
        if not vector.any():
            return None

        def read(conn: IndexConnection) -> Bits | None:
            place = place_of(conn)
            if place is None or place.invalid(embedder.name) or place.width != len(vector):
                return None
            with self._reading:
                self._bits = read_bits(conn, self._bits)
                return self._bits

        bits = self._file.run(read)
        self._let_go_later()
        return Likeness(self._file, bits, vector) if bits is not None and bits.size else None

    @property
    def is_usable(self) -> bool:
        """Whether there is a model that can be asked."""
        return self._usable() is not None

    def _usable(self) -> Embedder | None:
        if self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_AFTER:
            return None
        return self._embedder()

    def _failed(self, error: Exception) -> None:
        if self._failed_at is None:
            log.warning("Search goes by words only for now: %s", error)
        self._failed_at = time.monotonic()

    def _refresh(self, embedder: Embedder) -> None:
        """Catch up with what is new: a little of it at once, more in the background."""
        for _ in range(_QUICK_STEPS):
            behind = self._file.run(lambda conn: self._behind(conn, embedder))
            if not behind:
                return
            if not embedder.is_quick or behind > QUICK_CATCH_UP:
                break
            self._file.run(lambda conn: self._step(conn, embedder))
        self.feed_in_background()

    def _behind(self, conn: IndexConnection, embedder: Embedder) -> int:
        place = place_of(conn)
        if place is None or place.invalid(embedder.name):
            total = tuples(conn, "SELECT coalesce(max(id), 0) FROM state.messages")[0][0]
            return int(total)
        if place.is_current:
            return 0
        return place.now_message_seq - place.message_seq or 1

    def _let_go_later(self) -> None:
        self._asked_at = time.monotonic()
        if self._letting_go is None:
            with self._guard:
                self._wait_to_let_go(LET_GO_AFTER)

    def _wait_to_let_go(self, seconds: float) -> None:
        self._letting_go = threading.Timer(seconds, self._let_go)
        self._letting_go.daemon = True
        self._letting_go.start()

    def _let_go(self) -> None:
        """Let go of the bits, unless there was a question meanwhile."""
        with self._guard:
            left = self._asked_at + LET_GO_AFTER - time.monotonic()
            if left > 0.0 and not self._stop.is_set():
                self._wait_to_let_go(left)
                return
            self._letting_go = None
        with self._reading:
            self._bits = None

    # Feeding

    def status(self) -> Status | None:
        """How far the vectors are; None if there is no model."""
        embedder = self._embedder()
        if embedder is None:
            return None

        def read(conn: IndexConnection) -> Status:
            place = place_of(conn)
            total = int(tuples(conn, "SELECT coalesce(max(id), 0) FROM state.messages")[0][0])
            size = self.path.stat().st_size
            if place is None or place.invalid(embedder.name):
                return Status(embedder.name, 0, total, 0, size)
            return Status(embedder.name, min(place.message_seq, total), total, _count(conn), size)

        return self._file.run(read)

    def catch_up(
        self, progress: Callable[[int, int], None] | None = None, *, anew: bool = False
    ) -> int:
        """Make the vectors of what was stored since the last time; returns how many were made.

        Raises EmbedderError if the model cannot be asked.
        """
        embedder = self._embedder()
        if embedder is None:
            return 0

        def work(conn: IndexConnection) -> int:
            if anew:
                start_over(conn, embedder, ANEW)
            made, lost = 0, 0
            while not self._stop.is_set():
                step = self._step(conn, embedder)
                if step is None:
                    lost += 1
                    if lost > _LOST_RACES:
                        break
                    continue
                lost = 0
                made += step
                place = place_of(conn)
                if place is None or place.is_current:
                    break
                if progress is not None:
                    progress(place.message_seq, place.now_message_seq)
            if made > BATCH:
                with contextlib.suppress(apsw.BusyError):  # somebody reads: the next time
                    conn.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchall()
            return made

        return self._file.run(work)

    def _step(self, conn: IndexConnection, embedder: Embedder) -> int | None:
        """One round; how many vectors it made, or None if another process was quicker."""
        place = place_of(conn)
        reason = place.invalid(embedder.name) if place else "there were none"
        if place is None or reason:
            start_over(conn, embedder, reason or "")
            return 0
        if place.message_seq >= place.now_message_seq and place.change_seq >= place.now_change_seq:
            sweep(conn)
            return 0
        read = read_round(self._file, conn, place)
        vectors = ask(embedder, [entry.text for entry in read.entries], place.width)
        return len(read.entries) if write_round(conn, read, vectors) else None

    def feed_in_background(self) -> threading.Thread:
        """Catch up in a thread that leaves nine tenths of the time to others."""
        with self._guard:
            if self._feeder is None or not self._feeder.is_alive():
                self._feeder = threading.Thread(
                    target=self._feed, name="hermes-meaning", daemon=True
                )
                self._feeder.start()
            return self._feeder

    def _feed(self) -> None:
        self._stop.wait(_FIRST)
        while not self._stop.is_set():
            embedder = self._usable()
            if embedder is None:
                return
            began, worked = time.perf_counter(), time.thread_time()
            try:
                self._file.run(functools.partial(self._step, embedder=embedder))
                if not self._file.run(functools.partial(self._behind, embedder=embedder)):
                    return
            except EmbedderError as error:
                self._failed(error)
                return
            except StoreError as error:
                if not self._stop.is_set():
                    log.warning("Vectors for search by meaning are not made: %s", error)
                return
            took = max(
                time.thread_time() - worked, (time.perf_counter() - began) * embedder.is_quick
            )
            self._stop.wait(took * (1.0 / SHARE - 1.0))

    def close(self) -> None:
        """Stop feeding and close the file; closing twice is fine."""
        self._stop.set()
        with self._guard:
            if self._letting_go is not None:
                self._letting_go.cancel()
            feeder = self._feeder
        if feeder is not None and feeder is not threading.current_thread():
            feeder.join(5.0)
        self._file.close()


def _count(conn: IndexConnection) -> int:
    return int(tuples(conn, "SELECT count(*) FROM fine")[0][0])
