"""Reading messages of the store for the index, however long they are.

A message may have any length, so what is read of one is bounded: a value that is long is not
decoded as JSON, which could take many times its size, and of a very long one only the beginning is
read. `batch` bounds what is indexed of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..opening import FileConnection
from .document import as_text, calls_text, content_text, cut_calls_text, cut_content_text

MOST_BYTES = 1 << 24
"""Bytes of a message's content, and of its tool calls, that are read."""

_DECODED = 1 << 21  # bytes up to which a value is read as a whole and decoded


class SourceMessage(NamedTuple):
    """A message as it is read, with what is known of its session."""

    id: int
    session_id: str
    role: str
    content_size: int
    content: bytes | None
    """None if there is none or if it is long."""
    tool_name: bytes | None
    calls_size: int
    calls: bytes | None
    timestamp: float
    source: str | None
    owner: str | None

    @property
    def size(self) -> int:
        """Bytes that are read of it."""
        return min(self.content_size, MOST_BYTES) + min(self.calls_size, MOST_BYTES)


SOURCE_ROWS = (
    "SELECT m.id, m.session_id, m.role, coalesce(octet_length(m.content), 0),"
    f" CASE WHEN octet_length(m.content) <= {_DECODED} THEN CAST(m.content AS BLOB) END,"
    " CAST(m.tool_name AS BLOB), coalesce(octet_length(m.tool_calls), 0),"
    f" CASE WHEN octet_length(m.tool_calls) <= {_DECODED} THEN CAST(m.tool_calls AS BLOB) END,"
    " CAST(m.timestamp AS REAL), s.source, s.user_id"
    " FROM state.messages AS m LEFT JOIN state.sessions AS s ON s.id = m.session_id"
)
"""Gives the fields of SourceMessage; a condition follows."""


def texts_of(conn: FileConnection, message: SourceMessage) -> Iterable[str]:
    """The texts of a message that can be found: what it says, then what it calls."""
    if message.content_size <= _DECODED:
        yield content_text(as_text(message.content))
    else:
        yield cut_content_text(_beginning(conn, "content", message.id))
    name = as_text(message.tool_name)
    if message.calls_size <= _DECODED:
        yield calls_text(name, as_text(message.calls))
    else:
        yield cut_calls_text(name, _beginning(conn, "tool_calls", message.id))


def _beginning(conn: FileConnection, column: str, message_id: int) -> str:
    with conn.blob_open("state", "messages", column, message_id, False) as blob:
        data = blob.read(MOST_BYTES)
    return data.decode(errors="replace")
