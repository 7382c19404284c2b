"""Watches: viewers on other machines of a streaming turn, and the events they are shown.

A watch is a lease that the viewer renews. While one counts, the turn's owner stores the events of
the turn in batches; without one it stores nothing. A batch goes by the number of its last event.
One for a single viewer is what had happened when it came; the others are for all.

Events are gone soon: they are no part of the history, which has every message by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hermes_base.process import this_process

from .codec import encode_text
from .dialect import Connection, rows

WATCH_SECONDS = 15.0
"""For so long a watch counts without being renewed."""

EVENT_SECONDS = 30.0
"""For so long a batch can be read."""

EVERYBODY = ""
"""The viewer of a batch that is for all."""


class EventBatch(NamedTuple):
    """Events of a turn, one after the other, as lines."""

    number: int
    """Of the last one."""
    viewer: str
    lines: str


def watch_turn(conn: Connection, conversation_id: str, viewer: str, since: int) -> None:
    """Watch the turns of a conversation, for WATCH_SECONDS; what came after `since` is wanted.

    Nothing is watched where there never was a turn.
    """
    now = conn.now()
    conn.execute("DELETE FROM watches WHERE until < ?", (now,))
    conn.execute("DELETE FROM watched_events WHERE made_at < ?", (now - EVENT_SECONDS,))
    conn.execute(
        "INSERT INTO watches (conversation_id, viewer, since, until)"
        " SELECT conversation_id, ?2, ?3, ?4 FROM turns WHERE conversation_id = ?1"
        " ON CONFLICT (conversation_id, viewer) DO UPDATE SET since = ?3, until = ?4",
        (
            encode_text(conversation_id, "conversation_id"),
            encode_text(viewer, "viewer"),
            since,
            now + WATCH_SECONDS,
        ),
    )


def end_watch(conn: Connection, conversation_id: str, viewer: str) -> None:
    """Watch no more."""
    for table in ("watches", "watched_events"):
        conn.execute(
            f"DELETE FROM {table} WHERE conversation_id = ? AND viewer = ?",
            (conversation_id, viewer),
        )


def list_watches(conn: Connection) -> list[dict[str, Any]]:
    """The watches of turns that this process runs."""
    return rows(
        conn,
        "SELECT w.* FROM watches w JOIN turns t ON t.conversation_id = w.conversation_id"
        " WHERE t.owner = ? AND t.state = 'running' AND w.until >= ?"
        " ORDER BY w.conversation_id, w.viewer",
        (this_process(), conn.now()),
    )


def add_events(conn: Connection, conversation_id: str, batches: Iterable[EventBatch]) -> None:
    """Insert a batch of events for a conversation's viewers; older batches are deleted.

    A process whose turn was taken over inserts nothing.
    """
    now = conn.now()
    for batch in batches:
        conn.execute(
            "INSERT INTO watched_events (conversation_id, number, viewer, lines, made_at)"
            " SELECT conversation_id, ?2, ?3, ?4, ?5 FROM turns"
            " WHERE conversation_id = ?1 AND owner = ?6"
            " ON CONFLICT (conversation_id, number, viewer) DO NOTHING",
            (
                encode_text(conversation_id, "conversation_id"),
                batch.number,
                encode_text(batch.viewer, "viewer"),
                encode_text(batch.lines, "lines"),
                now,
                this_process(),
            ),
        )
    conn.execute(
        "DELETE FROM watched_events WHERE conversation_id = ? AND made_at < ?",
        (conversation_id, now - EVENT_SECONDS),
    )


def list_events(
    conn: Connection, conversation_id: str, viewer: str, since: int
) -> list[EventBatch]:
    """What a viewer is shown after a number, in order."""
    batches = rows(
        conn,
        "SELECT number, viewer, lines FROM watched_events WHERE conversation_id = ?"
        " AND number > ? AND viewer IN ('', ?) ORDER BY number, viewer DESC",
        (conversation_id, since, viewer),
    )
    return [EventBatch(**batch) for batch in batches]


def drop_events(conn: Connection, conversation_id: str, until: int) -> None:
    """Delete a turn's events, up to a number, after everybody has had time to read the last ones;
    those of the next turn, wherever that runs, have higher numbers."""
    conn.execute(
        "DELETE FROM watched_events WHERE conversation_id = ? AND number <= ?",
        (conversation_id, until),
    )
