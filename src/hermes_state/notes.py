"""Notes: messages to a conversation that no person sent.

The end of a background process, a line it was watched for, a message added to a running turn, the
result of background work. A note is a row of the inbox (the last kind: a row of
`async_delegations`) before anybody relies on it. It becomes a message in the transaction that takes
it: between two steps of a running turn, with the next message of the conversation, or with a turn
of its own (`turn_log.begin_noted_turn`). So it is delivered exactly once, whatever is killed
meanwhile.

A quiet note begins no turn of its own: it waits for the next message.
"""

from __future__ import annotations

from typing import Any

from . import delegations
from .codec import decode_content, encode_content, encode_text
from .dialect import Connection, column, rows, tuples, value
from .formats import needed, understood
from .inbox import NOTES
from .owners import stored_owner
from .persons import current_owner

WAKING = "note"
QUIET = "quiet-note"
STEERED = "steered-note"
"""Sources of the inbox's rows that are notes; the last is a person's or a plugin's own message."""

LONGEST_SECONDS = 7 * 86_400

_WAKING = f"('{WAKING}', '{STEERED}')"

# A conversation that has no row yet is known by its session's id alone.
_OF_CONVERSATION = (
    "(i.session_id = ?1 OR i.session_id IN (SELECT o.id FROM sessions o"
    " JOIN sessions s ON s.conversation_id = o.conversation_id WHERE s.id = ?1))"
)


def add_note(
    conn: Connection,
    note_id: str,
    session_id: str,
    text: str,
    source: str = WAKING,
    user_id: str | None = None,
) -> bool:
    """Insert a note for a session's conversation; False if that id is a duplicate.

    `user_id` is for whom it was made: a turn that begins with it is theirs, also where several
    share the conversation.
    """
    if source not in (WAKING, QUIET, STEERED):
        raise ValueError(f"{source!r} is no kind of note")
    now = conn.now()
    conn.execute(
        "INSERT INTO inbox (id, session_id, source, content, state, received_at, updated_at,"
        " needs_format, user_id) VALUES (?1, ?2, ?3, ?4, 'waiting', ?5, ?5, ?6, ?7)"
        " ON CONFLICT (id) DO NOTHING",
        (
            encode_text(note_id, "note_id"),
            encode_text(session_id, "session_id"),
            source,
            encode_content(text),
            now,
            needed("note", (source,)),
            encode_text(stored_owner(user_id), "user_id"),
        ),
    )
    return conn.changes() > 0


def take_notes(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """Take the waiting notes of a conversation as messages, each exactly once.

    To be stored by the caller in the same transaction.
    """
    messages = delegations.take_results(conn, session_id)
    waiting = rows(
        conn,
        "SELECT i.id, i.source, i.content FROM inbox i WHERE i.state = 'waiting'"
        f" AND i.source IN {NOTES} AND {understood('i.needs_format')} AND {_OF_CONVERSATION}"
        " ORDER BY i.received_at, i.rowid",
        (session_id,),
    )
    for note in waiting:
        conn.execute(
            "UPDATE inbox SET state = 'taken', content = NULL, updated_at = ?"
            " WHERE id = ? AND state = 'waiting'",
            (conn.now(), note["id"]),
        )
        if not conn.changes():
            continue  # another turn has taken it
        message = {"role": "user", "content": decode_content(note["content"])}
        if note["source"] != STEERED:
            message["finish_reason"] = delegations.NOTE
        messages.append(message)
    return messages


def drop_notes(conn: Connection, session_id: str) -> int:
    """Drop the waiting notes of a conversation that has ended; returns how many."""
    conn.execute(
        "UPDATE inbox AS i SET state = 'dropped', content = NULL, updated_at = ?2"
        f" WHERE i.state = 'waiting' AND i.source IN {NOTES} AND {_OF_CONVERSATION}",
        (session_id, conn.now()),
    )
    return conn.changes()


def has_notes(conn: Connection, session_id: str) -> bool:
    """Whether a conversation has waiting notes that begin a turn of their own."""
    return bool(
        value(
            conn,
            "SELECT EXISTS (SELECT 1 FROM inbox i WHERE i.state = 'waiting'"
            f" AND i.source IN {_WAKING} AND {understood('i.needs_format')}"
            f" AND {_OF_CONVERSATION})",
            (session_id,),
        )
    ) or delegations.has_results(conn, session_id)


def note_owners(conn: Connection, session_id: str) -> set[str]:
    """For whom the waiting notes of a conversation were made that begin a turn of their own; the
    operator is left out, and so is everybody of whom it is not known."""
    noted = column(
        conn,
        "SELECT DISTINCT i.user_id FROM inbox i WHERE i.state = 'waiting'"
        f" AND i.user_id IS NOT NULL AND i.source IN {_WAKING} AND {_OF_CONVERSATION}",
        (session_id,),
    )
    asked = [current_owner(conn, str(user_id)) for user_id in noted]
    asked += delegations.result_owners(conn, session_id)
    return {owner for owner in asked if owner is not None}


def list_noted(conn: Connection) -> list[str]:
    """Sessions whose conversations have waiting notes that begin a turn of their own.

    Notes older than a week wait for the conversation's next message.
    """
    oldest = conn.now() - LONGEST_SECONDS
    noted = tuples(
        conn,
        "SELECT DISTINCT session_id FROM inbox WHERE state = 'waiting'"
        f" AND source IN {_WAKING} AND {understood()} AND received_at > ?",
        (oldest,),
    )
    sessions = [str(session_id) for (session_id,) in noted]
    return list(dict.fromkeys([*sessions, *delegations.sessions_with_results(conn, oldest)]))
