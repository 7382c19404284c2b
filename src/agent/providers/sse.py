"""Server-sent events: bytes in, the data of each complete event out.

However the bytes are split, the events are the same. An event counts once the blank line after it
has arrived; what follows the last blank line is never handed out, so a cut stream cannot pass off
half an event as a whole one. Lines end in LF or CRLF; only `data` fields are kept, because every
provider repeats the event's name inside its JSON.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""No event of any provider is near this; more is a server that never ends its line."""


class SseDecoder:
    """Feed it what arrives; it remembers what is not complete yet."""

    __slots__ = ("_data", "_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The beginning of a line whose end has not arrived."""
        self._data: list[bytes] = []
        """The data lines of the event that has not ended."""
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return the data of every event they complete.

        Raises ValueError if an event grows beyond all reason.
        """
        self._size += len(chunk)
        if b"\n" not in chunk:
            # Joined only when the line ends: appending to one growing string would be quadratic.
            self._pieces.append(chunk)
            self._check_size()
            return []
        if self._pieces:
            self._pieces.append(chunk)
            chunk = b"".join(self._pieces)
            self._pieces.clear()
        events = []
        lines = chunk.split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line:
                if self._data:
                    events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                    self._data.clear()
                self._size = 0
        if rest:
            self._pieces.append(rest)
        self._size = max(self._size, len(rest))
        self._check_size()
        return events

    def _check_size(self) -> None:
        if self._size > MAX_EVENT_BYTES:
            raise ValueError(f"an event of more than {MAX_EVENT_BYTES} bytes")
