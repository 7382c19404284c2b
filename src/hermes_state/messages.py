"""Messages: append and load.

`messages` is append-only: what a model sees is the view `active = 1`, in the order of the ids. The
session's counters, its version and its `last_active` change in the same transaction as the row.
`message_count` counts the active rows, `tool_call_count` the tool calls in them.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .codec import (
    decode_content,
    decode_json,
    encode_content,
    encode_json,
    encode_text,
)
from .dialect import Connection, at_most, insert_row, rows, value
from .errors import InvalidMessageError, StoreError, UnknownSessionError

TEXT_COLUMNS = ("content", "reasoning", "reasoning_content", "api_content")
JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")


@functools.cache
def _insert_of(names: tuple[str, ...]) -> str:
    """A statement for the columns that have a value: most of them have none most of the time."""
    columns, marks = ", ".join(names), ", ".join("?" * len(names))
    return f"INSERT INTO messages ({columns}) VALUES ({marks})"


_COUNT = (
    "UPDATE sessions SET message_count = message_count + ?1,"
    " tool_call_count = tool_call_count + ?2, version = version + 1,"
    " last_active = CASE WHEN last_active > ?3 THEN last_active ELSE ?3 END WHERE id = ?4"
)


def seconds(timestamp: Any) -> float:
    """Seconds since 1970 for a number, a datetime or an ISO text; now for None."""
    if timestamp is None:
        return time.time()
    try:
        if isinstance(timestamp, (int, float)) and not isinstance(timestamp, bool):
            at = float(timestamp)
        else:
            from datetime import datetime  # rarely needed

            if not isinstance(timestamp, datetime):
                timestamp = datetime.fromisoformat(timestamp)
            at = timestamp.timestamp()
        if math.isfinite(at):
            return at
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_time(timestamp) from error
    raise _no_time(timestamp)


def _no_time(timestamp: Any) -> InvalidMessageError:
    return InvalidMessageError(
        f"timestamp must be seconds, a datetime or ISO text, not {timestamp!r:.100}"
    )


def count_tool_calls(tool_calls: Any) -> int:
    """How many calls a `tool_calls` value holds, given as a list or as JSON."""
    if not tool_calls:
        return 0
    if isinstance(tool_calls, str):
        tool_calls = decode_json(tool_calls)
    return len(tool_calls) if isinstance(tool_calls, list) else 1


def insert_message(
    conn: Connection,
    session_id: str,
    role: str,
    content: Any = None,
    tool_name: str | None = None,
    tool_calls: Any = None,
    tool_call_id: str | None = None,
    token_count: int | None = None,
    finish_reason: str | None = None,
    reasoning: str | None = None,
    reasoning_content: str | None = None,
    reasoning_details: Any = None,
    codex_reasoning_items: Any = None,
    codex_message_items: Any = None,
    platform_message_id: str | None = None,
    observed: bool = False,
    effect_disposition: str | None = None,
    timestamp: Any = None,
    api_content: str | None = None,
    origin_id: int | None = None,
) -> tuple[int, float]:
    """Insert one row without touching the session's counters; returns its id and time."""
    if not isinstance(role, str) or not role:
        raise InvalidMessageError(f"A message needs a role such as 'user', not {role!r}")
    if token_count is not None and not isinstance(token_count, int):
        raise InvalidMessageError(f"token_count must be a whole number, not {token_count!r}")
    at = conn.now() if timestamp is None else seconds(timestamp)
    # The hottest path of the store.
    columns: dict[str, Any] = {
        "session_id": session_id,
        "role": encode_text(role, "role"),
        "content": encode_content(content),
        "timestamp": at,
    }
    if tool_call_id is not None:
        columns["tool_call_id"] = encode_text(tool_call_id, "tool_call_id")
    if tool_calls:
        columns["tool_calls"] = encode_json(tool_calls, "tool_calls")
    if tool_name is not None:
        columns["tool_name"] = encode_text(tool_name, "tool_name")
    if effect_disposition is not None:
        columns["effect_disposition"] = encode_text(effect_disposition, "effect_disposition")
    if token_count is not None:
        columns["token_count"] = token_count
    if finish_reason is not None:
        columns["finish_reason"] = encode_text(finish_reason, "finish_reason")
    if reasoning is not None:
        columns["reasoning"] = encode_content(reasoning, "reasoning")
    if reasoning_content is not None:
        columns["reasoning_content"] = encode_content(reasoning_content, "reasoning_content")
    if reasoning_details is not None:
        columns["reasoning_details"] = encode_json(reasoning_details, "reasoning_details")
    if codex_reasoning_items is not None:
        columns["codex_reasoning_items"] = encode_json(
            codex_reasoning_items, "codex_reasoning_items"
        )
    if codex_message_items is not None:
        columns["codex_message_items"] = encode_json(codex_message_items, "codex_message_items")
    if platform_message_id is not None:
        columns["platform_message_id"] = encode_text(platform_message_id, "platform_message_id")
    if observed:
        columns["observed"] = 1
    if api_content is not None:
        columns["api_content"] = encode_content(api_content, "api_content")
    if origin_id is not None:
        columns["origin_id"] = origin_id
    message_id = insert_row(conn, _insert_of(tuple(columns)), tuple(columns.values()))
    if message_id is None:
        raise StoreError(
            "The database did not keep a message, and says nothing of why: somebody has given its"
            " tables a trigger or a rule (`hermes store check`). Nothing was written."
        )
    return message_id, at


def append_message(
    conn: Connection,
    session_id: str,
    role: str,
    content: Any = None,
    tool_name: str | None = None,
    tool_calls: Any = None,
    tool_call_id: str | None = None,
    token_count: int | None = None,
    finish_reason: str | None = None,
    reasoning: str | None = None,
    reasoning_content: str | None = None,
    reasoning_details: Any = None,
    codex_reasoning_items: Any = None,
    codex_message_items: Any = None,
    platform_message_id: str | None = None,
    observed: bool = False,
    effect_disposition: str | None = None,
    timestamp: Any = None,
    api_content: str | None = None,
) -> int:
    """Append a message to a session and return its id; it is on disk when this returns.

    `content` is text or a list of parts (text, images); `tool_calls` a list of calls.
    """
    at = conn.now() if timestamp is None else seconds(timestamp)
    # The counters come first: the transaction that has changed them holds the session's row to its
    # end. So within a session the order of ids is the order of commits, also where several write at
    # once; `load_live`, `covers_until` and going back rely on it.
    conn.execute(_COUNT, (1, count_tool_calls(tool_calls), at, session_id))
    if not conn.changes():
        raise UnknownSessionError(session_id)
    message_id, _ = insert_message(
        conn,
        session_id,
        role,
        content,
        tool_name,
        tool_calls,
        tool_call_id,
        token_count,
        finish_reason,
        reasoning,
        reasoning_content,
        reasoning_details,
        codex_reasoning_items,
        codex_message_items,
        platform_message_id,
        observed,
        effect_disposition,
        at,
        api_content,
    )
    return message_id


_FIELDS = append_message.__annotations__.keys() - {"conn", "session_id", "return"}


def message_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a conversation dict that the store keeps.

    A tool's `name` is its tool_name; `message_id` is the platform's id, as in a loaded one.
    """
    if not isinstance(message, Mapping):
        raise InvalidMessageError(f"A message must be a mapping, not {type(message).__name__}")
    fields = {name: given for name, given in message.items() if name in _FIELDS}
    if "role" not in fields:
        raise InvalidMessageError(f"A message needs a role: {sorted(message)!r}")
    if "tool_name" not in fields and message.get("name") and fields["role"] == "tool":
        fields["tool_name"] = message["name"]
    if "platform_message_id" not in fields and message.get("message_id"):
        fields["platform_message_id"] = message["message_id"]
    return fields


def append_messages(
    conn: Connection, session_id: str, messages: Iterable[Mapping[str, Any]]
) -> list[int]:
    """Append several messages in one transaction; returns their ids in order."""
    batch = [message_fields(message) for message in messages]
    if not batch:
        return []
    calls = sum(count_tool_calls(fields.get("tool_calls")) for fields in batch)
    now = conn.now()
    for fields in batch:
        given = fields.get("timestamp")
        fields["timestamp"] = now if given is None else seconds(given)
    newest = max(fields["timestamp"] for fields in batch)
    conn.execute(_COUNT, (len(batch), calls, newest, session_id))
    if not conn.changes():
        raise UnknownSessionError(session_id)
    return [insert_message(conn, session_id, **fields)[0] for fields in batch]


def recount(conn: Connection, session_id: str) -> None:
    """Set the counters to what the active rows say, and raise the version."""
    count = calls = 0
    newest = None
    for raw_calls, at in conn.execute(
        "SELECT tool_calls, timestamp FROM messages WHERE session_id = ? AND active = 1",
        (session_id,),
    ):
        count += 1
        calls += count_tool_calls(raw_calls)
        newest = at if newest is None else max(newest, at)
    conn.execute(
        "UPDATE sessions SET message_count = ?, tool_call_count = ?,"
        " last_active = COALESCE(?, last_active), version = version + 1 WHERE id = ?",
        (count, calls, newest, session_id),
    )


def decode_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `messages` with its encoded columns decoded, in place."""
    for name in TEXT_COLUMNS:
        raw = row[name]
        if raw is not None and raw.startswith("\x00"):
            row[name] = decode_content(raw)
    for name in JSON_COLUMNS:
        if row[name] is not None:
            row[name] = decode_json(row[name])
    return row


def get_messages(
    conn: Connection,
    session_id: str,
    include_inactive: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[dict[str, Any]]:
    """A session's rows in order: the active ones, or all with `include_inactive`."""
    stored = rows(
        conn,
        "SELECT * FROM messages WHERE session_id = ? AND active >= ? ORDER BY id LIMIT ? OFFSET ?",
        (session_id, 0 if include_inactive else 1, at_most(limit), offset),
    )
    return [decode_row(row) for row in stored]


CONVERSATION_SQL = (
    "SELECT role, content, timestamp, tool_calls, tool_call_id, tool_name, finish_reason,"
    " reasoning, reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items,"
    " api_content, platform_message_id, effect_disposition, NULLIF(observed, 0)"
    " FROM messages WHERE session_id = ? AND active >= ? ORDER BY id"
)
# Columns that few messages have; the others are named in read_conversation, which is quicker.
_RARE: tuple[tuple[str, Callable[[Any], Any] | None], ...] = (
    ("reasoning", decode_content),
    ("reasoning_content", decode_content),
    ("reasoning_details", decode_json),
    ("codex_reasoning_items", decode_json),
    ("codex_message_items", decode_json),
    ("api_content", decode_content),
    ("message_id", None),  # what scripts know the platform's id as
    ("effect_disposition", None),
    ("observed", bool),
)
_ALSO_EMPTY = "reasoning_content"
"""Some providers want it back even when it is empty; any other empty text is as good as none."""
_NOTHING = (None,) * len(_RARE)


def load_conversation(
    conn: Connection, session_id: str, include_inactive: bool = False
) -> list[dict[str, Any]]:
    """One session's messages as conversation dicts."""
    return read_conversation(conn, CONVERSATION_SQL, (session_id, 0 if include_inactive else 1))


def read_conversation(conn: Connection, sql: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    conversation = []
    for fields in conn.execute(sql, values):
        role, content, at, tool_calls, tool_call_id, tool_name, finish_reason = fields[:7]
        if content is not None and content[:1] == "\x00":
            content = decode_content(content)
        message: dict[str, Any] = {"role": role, "content": content, "timestamp": at}
        if tool_calls is not None:
            message["tool_calls"] = decode_json(tool_calls)
        if tool_call_id:
            message["tool_call_id"] = tool_call_id
        if tool_name:
            message["tool_name"] = tool_name
        if finish_reason:
            message["finish_reason"] = finish_reason
        if fields[7:] != _NOTHING:
            for (name, decode), raw in zip(_RARE, fields[7:], strict=True):
                if raw or (raw is not None and name == _ALSO_EMPTY):
                    message[name] = raw if decode is None else decode(raw)
        conversation.append(message)
    return conversation


def message_count(conn: Connection, session_id: str | None = None) -> int:
    """How many messages are stored, in one session or in all, taken back and compacted included."""
    if session_id is None:
        return int(value(conn, "SELECT COUNT(*) FROM messages"))
    return int(value(conn, "SELECT COUNT(*) FROM messages WHERE session_id = ?", (session_id,)))


def has_platform_message_id(conn: Connection, session_id: str, platform_message_id: str) -> bool:
    """Whether this platform message is already in the session."""
    return (
        value(
            conn,
            "SELECT 1 FROM messages WHERE session_id = ? AND platform_message_id = ?",
            (session_id, platform_message_id),
        )
        is not None
    )


def has_archived_messages(conn: Connection, session_id: str) -> bool:
    """Whether the session holds rows outside the live view (compacted or taken back)."""
    return (
        value(
            conn,
            "SELECT 1 FROM messages WHERE session_id = ? AND active = 0 LIMIT 1",
            (session_id,),
        )
        is not None
    )


def set_latest_user_api_content(
    conn: Connection, session_id: str, content: Any, api_content: str
) -> int:
    """Record what was sent to the provider for the newest user message, if it still is `content`.

    Returns the number of rows changed (0 or 1).
    """
    newest = conn.execute(
        "SELECT id, content FROM messages WHERE session_id = ? AND active = 1 AND role = 'user'"
        " ORDER BY id DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if newest is None or newest[1] != encode_content(content):
        return 0
    conn.execute(
        "UPDATE messages SET api_content = ? WHERE id = ?",
        (encode_content(api_content, "api_content"), newest[0]),
    )
    conn.execute("UPDATE sessions SET version = version + 1 WHERE id = ?", (session_id,))
    return 1
