"""What waits in the store for a newer release than this one, and whether one runs that takes it."""

from __future__ import annotations

from typing import Any

from . import formats
from .dialect import Connection, rows
from .replicas import list_alive
from .turns import is_ownerless

_WAITING = {
    "message": (
        "SELECT needs_format, received_at AS since, source AS platform, session_key, id AS name"
        # Each state has an index of its own; a list of both would be looked for row by row.
        " FROM inbox WHERE (state = 'waiting' OR state = 'begun') AND needs_format > ?"
        " AND session_key IS NOT NULL"
    ),
    "note": (
        "SELECT i.needs_format, i.received_at AS since, s.source AS platform, s.session_key,"
        " i.id AS name FROM inbox i LEFT JOIN sessions s ON s.id = i.session_id"
        " WHERE i.state = 'waiting' AND i.needs_format > ? AND i.session_key IS NULL"
    ),
    "turn": (
        "SELECT t.needs_format, t.started_at AS since, s.source AS platform, s.session_key,"
        " t.conversation_id AS name, t.state, t.owner, t.heartbeat_at, t.session_id"
        " FROM turns t JOIN sessions s ON s.id = t.session_id"
        " WHERE t.state = 'running' AND t.needs_format > ?"
    ),
    "delivery": (
        "SELECT needs_format, created_at AS since, platform, session_key, obligation_id AS name"
        " FROM delivery_obligations WHERE state IN ('pending', 'sending') AND needs_format > ?"
    ),
    "hand-off": (
        "SELECT handoff_needs_format AS needs_format, COALESCE(last_active, started_at) AS since,"
        " handoff_platform AS platform, session_key, id AS name FROM sessions"
        " WHERE handoff_state IN ('pending', 'running') AND handoff_needs_format > ?"
    ),
}


def list_for_newer(conn: Connection) -> list[dict[str, Any]]:
    """What waits for a newer release than this one, oldest first.

    Each with its `kind`, its `name`, the `needs_format` it takes, `since` when it waits (of a
    hand-off: when its conversation was last used) and where it belongs, as far as that is known:
    `platform` and `session_key`. `is_taken` says whether a gateway lives that understands it.
    A turn that a newer release runs does not wait.
    """
    requests = [
        {"kind": kind, **each}
        for kind, sql in _WAITING.items()
        for each in rows(conn, sql, (formats.UNDERSTOOD,))
    ]
    if not requests:
        return []  # as nearly always
    now, highest = conn.now(), highest_format(conn)
    waiting = [each for each in requests if each["kind"] != "turn" or is_ownerless(each, now)]
    for each in waiting:
        each["is_taken"] = each["needs_format"] <= highest
    return sorted(waiting, key=lambda each: each["since"])


def highest_format(conn: Connection) -> int:
    """The highest format of requests that a gateway understands which lives and does not end."""
    alive = list_alive(conn)
    known = rows(conn, "SELECT owner, format FROM replicas WHERE draining = 0")
    return max(
        (each["format"] or formats.FIRST for each in known if each["owner"] in alive),
        default=formats.FIRST,
    )
