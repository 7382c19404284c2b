"""The inbox: accepted messages that no turn has begun with; stored before they are acknowledged.

A row is waiting until a turn takes it. Taking happens in the transaction that stores the message in
its conversation (`turn_log`), so whatever is killed, a message is waiting or stored, never both and
never neither. A row that was taken stays for a while without its text, so that a duplicate delivery
is recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hermes_base.process import this_process

from .codec import decode_content, decode_json, encode_content, encode_json, encode_text
from .dialect import Connection, at_most, row, rows
from .errors import AlreadyTakenError
from .formats import names_in, needed, understands, understood
from .lineage import get_compression_lineage
from .newer import highest_format
from .replicas import filter_abandoned
from .turns import Lease, raise_format

INBOX_ID = "_inbox"
"""Key under which a message says which row of the inbox it comes from, or which rows: the parts of
a message are taken together."""

NOTES = "('note', 'quiet-note', 'steered-note')"
"""Sources of rows that `notes` keeps here: told to a conversation, no messages of a front end."""

KEPT_SECONDS = 30 * 86_400
"""How long a taken row is remembered."""


def accept_message(
    conn: Connection,
    inbox_id: str,
    session_id: str,
    content: Any,
    *,
    source: str = "",
    session_key: str | None = None,
    user_id: str | None = None,
    platform_message_id: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> bool:
    """Insert a message into the inbox; False if `inbox_id` is a duplicate.

    `facts` is whatever the front end needs to process it after a restart.
    """
    now = conn.now()
    conn.execute(
        "INSERT INTO inbox (id, session_id, source, session_key, user_id, platform_message_id,"
        " content, facts, state, received_at, updated_at, owner, needs_format)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (
            encode_text(inbox_id, "inbox_id"),
            encode_text(session_id, "session_id"),
            encode_text(source, "source"),
            encode_text(session_key, "session_key"),
            encode_text(user_id, "user_id"),
            encode_text(platform_message_id, "platform_message_id"),
            encode_content(content),
            encode_json(dict(facts), "facts") if facts else None,
            now,
            now,
            this_process(),
            needed("inbox", names_in(facts)),
        ),
    )
    return conn.changes() > 0


def list_waiting(
    conn: Connection,
    session_id: str | None = None,
    source: str | None = None,
    session_key: str | None = None,
    limit: int = -1,
    with_held: bool = False,
) -> list[dict[str, Any]]:
    """The waiting messages, oldest first: of a conversation, of a front end, of a chat, or all.

    Without those that only a newer release understands, and, as long as a gateway of such a release
    lives, without those behind them in their chat; `with_held` with them, and `is_held` says so.
    """
    where, given = [f"state = 'waiting' AND source NOT IN {NOTES}"], []
    if session_key is not None:
        where.append("session_key = ?")
        given.append(session_key)
    if session_id is not None:
        segments = get_compression_lineage(conn, session_id) or [session_id]
        where.append(f"session_id IN ({', '.join('?' * len(segments))})")
        given += segments
    if source is not None:
        where.append("source = ?")
        given.append(source)
    messages = _messages(
        conn, f"{' AND '.join(where)} ORDER BY received_at, rowid LIMIT ?", *given, at_most(limit)
    )
    if not all(understands(message["needs_format"]) for message in messages):
        _hold_back(conn, messages)
    if with_held:
        return messages
    return [message for message in messages if not message["is_held"]]


def _hold_back(conn: Connection, messages: list[dict[str, Any]]) -> None:
    """Mark the messages that are not this release's to begin with."""
    highest, chats = highest_format(conn), set()
    for message in messages:
        chat = message["session_key"] or message["session_id"]
        if not understands(message["needs_format"]):
            message["is_held"] = True
            if message["needs_format"] <= highest:
                chats.add(chat)
        elif chat in chats:
            message["is_held"] = True


def _messages(conn: Connection, where: str, *values: Any) -> list[dict[str, Any]]:
    messages = rows(conn, f"SELECT * FROM inbox WHERE {where}", values)
    for message in messages:
        message["content"] = decode_content(message["content"])
        message["facts"] = decode_json(message["facts"]) or {}
        message["is_held"] = False
    return messages


def begin_command(conn: Connection, inbox_id: str) -> bool:
    """Mark a waiting message as a command that is being run; False if it was begun before.

    It is never run again: whether an abandoned command took effect is unknown. Its `owner` is the
    process that runs it; the owner of a waiting message is the process that accepted it.
    """
    conn.execute(
        "UPDATE inbox SET state = 'begun', updated_at = ?, owner = ?"
        f" WHERE id = ? AND state = 'waiting' AND {understood()}",
        (conn.now(), this_process(), inbox_id),
    )
    return conn.changes() > 0


def claim_message(conn: Connection, inbox_id: str, owner: str | None) -> bool:
    """Claim a waiting message that `owner`, now gone, had accepted; False if another was first."""
    conn.execute(
        "UPDATE inbox SET owner = ?, updated_at = ? WHERE id = ? AND state = 'waiting'"
        f" AND owner IS NOT DISTINCT FROM ? AND {understood()}",
        (this_process(), conn.now(), inbox_id, owner),
    )
    return conn.changes() > 0


def list_begun(conn: Connection) -> list[dict[str, Any]]:
    """The commands that were begun and not finished, oldest first."""
    return _messages(conn, f"state = 'begun' AND {understood()} ORDER BY received_at, rowid")


def list_abandoned_commands(conn: Connection, with_own: bool = False) -> list[dict[str, Any]]:
    """Abandoned commands, whose process is gone; `with_own` as in `list_others`."""
    return filter_abandoned(conn, list_begun(conn), with_own)


def drop_message(conn: Connection, inbox_id: str) -> bool:
    """Withdraw a waiting message; False if a turn has taken it or it is unknown."""
    return _settle(conn, inbox_id, "dropped") is not None


def mark_taken(
    conn: Connection,
    messages: Iterable[Mapping[str, Any]],
    lease: Lease | None = None,
    left_out: list[Any] | None = None,
) -> list[Mapping[str, Any]]:
    """Mark the inbox rows of messages as taken; returns the messages without their ids.

    For the transaction that stores them. The turn of `lease` takes as new a release as they do.

    Raises AlreadyTakenError if another turn, here or in another process, was first, or its sender
    took one back; with `left_out` the message is left out instead, and what it has under INBOX_ID
    is added there.
    """
    done: list[Mapping[str, Any]] = []
    for message in messages:
        inbox_id = message.get(INBOX_ID)
        if inbox_id is None:
            done.append(message)
            continue
        plain = {key: value for key, value in message.items() if key != INBOX_ID}
        parts = (inbox_id,) if isinstance(inbox_id, str) else tuple(inbox_id)
        taken = [_settle(conn, part_id, "taken") for part_id in parts]
        if left_out is not None and not any(taken):
            left_out.append(inbox_id)
            continue
        for part_id, known in zip(parts, taken, strict=True):
            if known is None:
                raise AlreadyTakenError(part_id)
            if known["needs_format"] is not None and lease is not None:
                raise_format(conn, lease, known["needs_format"])
            if known["platform_message_id"] is not None:
                plain.setdefault("platform_message_id", known["platform_message_id"])
        done.append(plain)
    return done


def forget_taken(conn: Connection) -> None:
    """Delete rows that were settled long ago."""
    conn.execute(
        "DELETE FROM inbox WHERE state <> 'waiting' AND updated_at < ?",
        (conn.now() - KEPT_SECONDS,),
    )


def _settle(conn: Connection, inbox_id: str, state: str) -> dict[str, Any] | None:
    return row(
        conn,
        "UPDATE inbox SET state = ?, content = NULL, facts = NULL, updated_at = ?"
        " WHERE id = ? AND state IN ('waiting', 'begun')"
        " RETURNING platform_message_id, needs_format",
        (state, conn.now(), inbox_id),
    )
