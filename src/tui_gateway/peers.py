"""Connected clients, each with an outgoing queue, so that none waits for another.

Every client has a queue of its own and a thread that empties it. A client that does not read fills
its queue; then its events are left out (it is told once it reads again, and asks for what it
missed), and responses are kept up to a hard limit, beyond which it is disconnected.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from hermes_state import LOCAL_DOOR

log = logging.getLogger(__name__)

EVENT_LIMIT = 4_000_000
"""Characters in the queue above which events are left out."""
HARD_LIMIT = 64_000_000
"""Characters in the queue above which the client is disconnected."""


class Peer:
    """One connected client."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        name: str = "client",
        on_given_up: Callable[[], None] = lambda: None,
        door: str = LOCAL_DOOR,
    ) -> None:
        """`write(line)` may block; it raises OSError when the client is gone.

        `on_given_up` is called when the client is dropped because it does not read; it must make a
        `write` that blocks return. `door` says who it is (`clients`): whoever sits at the machine,
        or a web device ("web:ID") whose key whoever made this has checked.
        """
        self.door = door
        self._write = write
        self._on_given_up = on_given_up
        self.name = name
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._missed: set[str] = set()
        self.gone = False
        self._thread: threading.Thread | None = None

    @property
    def queued(self) -> int:
        """Bytes that wait to be written."""
        return self._size

    def send(self, frame: dict[str, Any]) -> None:
        """Put a frame into the queue; never blocks."""
        self._enqueue(encode(frame))

    def send_event(self, line: bytes, sid: str) -> None:
        """Put an encoded event of a session into the queue; left out if the queue is too long."""
        with self._changed:
            # One that is too large on its own goes out when there is nothing before it.
            if self._size and self._size + len(line) > EVENT_LIMIT:
                self._missed.add(sid)
                return
        self._enqueue(line)

    def _enqueue(self, line: bytes) -> None:
        with self._changed:
            if self.gone:
                return
            if self._size + len(line) > HARD_LIMIT:
                log.warning("%s does not read its answers; it is disconnected", self.name)
                self._give_up()
                self._on_given_up()
                return
            self._queue.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"hermes-{self.name}", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is written; False if it is not within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.gone or self._size == 0, timeout=seconds)

    def drop(self) -> None:
        """Disconnect the client."""
        self.close()
        self._on_given_up()

    def close(self) -> None:
        """Write nothing more."""
        with self._changed:
            self._give_up()

    def _give_up(self) -> None:
        self.gone = True
        self._queue.clear()
        self._size = 0
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self.gone:
                    self._changed.wait()
                if self.gone:
                    return
                line = self._queue[0]
            try:
                self._write(line)
            except (OSError, ValueError):  # ValueError: its file was closed
                log.info("%s is gone", self.name)
                with self._changed:
                    self._give_up()
                return
            with self._changed:
                if self.gone:
                    return
                self._queue.popleft()
                self._size -= len(line)
                missed = self._missed if self._size < EVENT_LIMIT // 2 else set()
                if missed:
                    self._missed = set()
                self._changed.notify_all()
            for sid in sorted(missed):
                self.send(
                    {
                        "jsonrpc": "2.0",
                        "method": "event",
                        "params": {"type": "events.missed", "session_id": sid},
                    }
                )


def encode(frame: dict[str, Any]) -> bytes:
    """A frame as one line. Half surrogate pairs, which UTF-8 cannot hold, stay escaped."""
    try:
        text = json.dumps(frame, default=str, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(frame), default=str, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def _finite(value: Any) -> Any:
    """`value` with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
