"""The events of one session: numbered, kept, and never with a gap.

Each event gets the next number under the lock that also hands it out, so everybody sees the same
order. The newest are kept within bounds; a client that asks for older ones is told that they are
gone and takes a snapshot instead. Pieces of streamed text that follow each other within
milliseconds are joined. The text of the answer that is being streamed is kept beside them, so that
a snapshot has it exactly as far as its number says.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .peers import encode

Frame = dict[str, Any]

JOIN_SECONDS = 0.033
MAX_EVENTS = 2_000
MAX_BYTES = 1_000_000

_ENDS_TEXT = ("message.start", "message.interim", "message.complete")
"""Events before which the streamed text is over, or begins anew."""

EPOCH = os.urandom(6).hex()
"""Changes with every start: numbers of another epoch mean nothing here."""


class Missed(NamedTuple):
    """What a client has not seen."""

    events: list[Frame]
    latest_seq: int
    truncated: bool
    """Whether some are gone: a snapshot is needed."""


class EventLog:
    """Numbers, keeps and hands out the events of one session."""

    def __init__(self, sid: str, deliver: Callable[[bytes], None]) -> None:
        """`deliver(line)` must only put the encoded event into queues."""
        self._sid = sid
        self._deliver = deliver
        self._lock = threading.RLock()
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self._seq = 0
        self._joining: tuple[str, list[str]] | None = None
        self._last_flush = 0.0
        self._said: list[str] = []

    def now(self) -> tuple[int, str]:
        """The number of the newest event, and the answer's text up to it."""
        with self._lock:
            self._flush()
            self._said = ["".join(self._said)]
            return self._seq, self._said[0]

    def add(self, kind: str, payload: Mapping[str, Any] | None = None) -> None:
        """An event; what was being joined goes first."""
        with self._lock:
            self._flush()
            self._hand_out(kind, payload)

    def add_text(self, kind: str, text: str) -> None:
        """A piece of streamed text: handed out at once if the last one is a while ago."""
        with self._lock:
            if self._joining is not None and self._joining[0] != kind:
                self._flush()
            if self._joining is None:
                self._joining = (kind, [])
            self._joining[1].append(text)
            if time.monotonic() - self._last_flush >= JOIN_SECONDS:
                self._flush()
                return
        _FLUSHER.wants(self)

    def flush(self) -> None:
        """Hand out what is being joined."""
        with self._lock:
            self._flush()

    def since(self, last_seen: int) -> Missed:
        """The events after number `last_seen`."""
        with self._lock:
            self._flush()
            unseen = self._seq - last_seen
            if not 0 <= unseen <= len(self._kept):
                return Missed([], self._seq, True)
            lines = list(self._kept)[len(self._kept) - unseen :]
            return Missed([json.loads(line) for line in lines], self._seq, False)

    def _flush(self) -> None:
        if self._joining is None:
            return
        (kind, pieces), self._joining = self._joining, None
        self._last_flush = time.monotonic()
        self._hand_out(kind, {"text": "".join(pieces)})

    def _hand_out(self, kind: str, payload: Mapping[str, Any] | None) -> None:
        if kind == "message.delta":
            self._said.append((payload or {}).get("text", ""))
        elif kind in _ENDS_TEXT:
            self._said.clear()
        self._seq += 1
        params: dict[str, Any] = {"type": kind, "session_id": self._sid, "seq": self._seq}
        if payload is not None:
            params["payload"] = payload
        frame = {"jsonrpc": "2.0", "method": "event", "params": params}
        line = encode(frame)
        self._kept.append(line)
        self._bytes += len(line)
        while len(self._kept) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft())
        self._deliver(line)


class _Flusher:
    """One thread that hands out what was joined, for all sessions; it sleeps while all is quiet."""

    def __init__(self) -> None:
        self._waiting: set[EventLog] = set()
        self._changed = threading.Condition()
        self._started = False

    def wants(self, log: EventLog) -> None:
        with self._changed:
            self._waiting.add(log)
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="hermes-events", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
            time.sleep(JOIN_SECONDS)
            with self._changed:
                due, self._waiting = self._waiting, set()
            for log in due:
                log.flush()


_FLUSHER = _Flusher()
