"""How far a conversation has been reviewed, in user turns.

The count is a fact of the store, so that it survives a restart and two processes do not review the
same turns. It is stored beside the sessions, not in them: it does not raise a session's version.
"""

from __future__ import annotations

from .dialect import Connection, value
from .lineage import get_compression_lineage
from .sessions import get_meta, set_meta


def review_key(conversation_id: str) -> str:
    """Where it is kept up to which user turn a conversation has been reviewed."""
    return f"review:{conversation_id}"


def count_user_turns(conn: Connection, session_id: str) -> int:
    """What the user has said in the conversation, compressed parts included, each message once."""
    return _count(conn, get_compression_lineage(conn, session_id))


def claim_review(conn: Connection, session_id: str, every: int) -> int:
    """How many user turns are missing until the conversation's next review.

    0 means that a review is due and that it is the caller's to make: the next one is due after
    `every` further turns. An unknown session is never due.
    """
    segments = get_compression_lineage(conn, session_id)
    if not segments or every < 1:
        return max(every, 1)
    turns = _count(conn, segments)
    key = review_key(segments[0])
    kept = get_meta(conn, key) or ""
    mark = int(kept) if kept.isdecimal() else 0
    missing = max(every - max(turns - mark, 0), 0)
    # A mark above the count means that turns were taken back: those to come count from here.
    if missing == 0 or mark > turns:
        set_meta(conn, key, str(turns))
    return missing


def _count(conn: Connection, segments: list[str]) -> int:
    if not segments:
        return 0
    marks = ", ".join("?" * len(segments))
    return int(
        value(
            conn,
            f"SELECT COUNT(*) FROM messages WHERE session_id IN ({marks}) AND role = 'user'"
            " AND (active = 1 OR compacted = 1) AND origin_id IS NULL",
            tuple(segments),
        )
    )
