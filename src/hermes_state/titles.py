"""Titles: cleaned, unique among the sessions of an owner, numbered along a lineage ("Plan #2", …).

Two owners may have the same title, and neither hears of the other. Whoever looks without an owner
is the operator, who sees all of them, the last used first. (None is the operator's own.)
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from .changes import note_title_changed
from .codec import without_surrogates
from .dialect import Connection, row, value
from .owners import OPERATOR, owned

MAX_TITLE_LENGTH = 100
ANYONE: Any = object()
"""In the place of an owner: whoever it is."""

_NUMBERED = re.compile(r"^(?P<base>.*?) #(?P<number>\d{1,9})$", re.DOTALL)


def sanitize_title(title: str | None) -> str | None:
    """The title as it will be stored, or None if nothing is left; ValueError if it is too long.

    Control, zero-width and text-direction characters are dropped, runs of white space become one
    space, and U+FFFD stands for a lone surrogate.
    """
    if title is None:
        return None
    if not isinstance(title, str):
        raise ValueError(f"A title must be text, not {type(title).__name__}.")
    cleaned = _cleaned(title)
    if len(cleaned) > MAX_TITLE_LENGTH:
        raise ValueError(
            f"The title has {len(cleaned)} characters; at most {MAX_TITLE_LENGTH} are allowed."
        )
    return cleaned or None


def _cleaned(title: str) -> str:
    # Characters this Python does not know yet stay: they may be next year's emoji.
    visible = "".join(
        " " if char.isspace() else char
        for char in without_surrogates(title)
        if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf")
    )
    return " ".join(visible.split())


def set_session_title(conn: Connection, session_id: str, title: str) -> bool:
    """Set (or, with an empty text, clear) the title; False if there is no such session.

    Raises ValueError if the title is invalid or another session has it.
    """
    return _set_title(conn, session_id, title, only_if_empty=False)


def set_auto_title_if_empty(conn: Connection, session_id: str, title: str) -> bool:
    """Give a title only to a session that has none; True if it was set."""
    return _set_title(conn, session_id, title, only_if_empty=True)


def _set_title(conn: Connection, session_id: str, title: str, *, only_if_empty: bool) -> bool:
    cleaned = sanitize_title(title)
    session = row(conn, "SELECT title, user_id FROM sessions WHERE id = ?", (session_id,))
    if session is None or (only_if_empty and (session["title"] is not None or cleaned is None)):
        return False
    holder = value(
        conn,
        "SELECT id FROM sessions WHERE title = ? AND id <> ? AND user_id IS NOT DISTINCT FROM ?",
        (cleaned, session_id, session["user_id"]),
    )
    if holder is not None:
        free = get_next_title_in_lineage(conn, str(cleaned), session["user_id"])
        raise ValueError(
            f"The title {cleaned!r} is already in use by session {holder}. "
            f"Choose another, for instance {free!r}."
        )
    conn.execute(
        "UPDATE sessions SET title = ?, version = version + 1 WHERE id = ?", (cleaned, session_id)
    )
    note_title_changed(conn, session_id)
    return True


def get_session_title(conn: Connection, session_id: str) -> str | None:
    """The session's title, or None."""
    return value(conn, "SELECT title FROM sessions WHERE id = ?", (session_id,))


def get_session_by_title(
    conn: Connection, title: str, user_id: str | None = ANYONE
) -> dict[str, Any] | None:
    """The session with exactly this title, or None; `user_id` keeps to one owner's."""
    where, values = _of(user_id)
    return row(
        conn, f"SELECT * FROM sessions WHERE title = ?{where}{_LAST_USED} LIMIT 1", (title, *values)
    )


def resolve_session_by_title(
    conn: Connection, title: str, user_id: str | None = ANYONE
) -> str | None:
    """The id for a title; where "title #N" exist too, the one with the highest number.

    `user_id` keeps to one owner's.
    """
    numbered = _numbered_titles(conn, title, user_id)
    if numbered:
        return max(numbered)[1]
    session = get_session_by_title(conn, title, user_id)
    return None if session is None else session["id"]


def get_next_title_in_lineage(
    conn: Connection, base_title: str, user_id: str | None = ANYONE
) -> str:
    """The next free title: "Plan" → "Plan #2"; the base itself while nobody has it.

    The result is always a valid title: the base is cleaned, and shortened where it or the number
    would make the title too long. `user_id` says among whose titles it must be free.
    """
    where, values = _of(user_id)

    def is_taken(title: str) -> bool:
        sql = f"SELECT 1 FROM sessions WHERE title = ?{where}"
        return value(conn, sql, (title, *values)) is not None

    cleaned = _cleaned(base_title)
    match = _NUMBERED.match(cleaned)
    base = (match["base"] if match else cleaned)[:MAX_TITLE_LENGTH].rstrip()
    taken = _numbered_titles(conn, base, user_id)
    if not taken and not is_taken(base):
        return base
    number = max((number for number, _ in taken), default=1)
    while True:
        number += 1
        suffix = f" #{number}"
        candidate = base[: MAX_TITLE_LENGTH - len(suffix)].rstrip() + suffix
        if not is_taken(candidate):
            return candidate


def make_room_for_title(conn: Connection, session_id: str, user_id: str | None) -> None:
    """Before a session goes to another owner: number its title if the owner has that already."""
    title = get_session_title(conn, session_id)
    if title is None:
        return
    holder = get_session_by_title(conn, title, user_id)
    if holder is None or holder["id"] == session_id:
        return
    free = get_next_title_in_lineage(conn, title, user_id)
    # It is still its first owner's, who may have that one.
    while value(
        conn,
        "SELECT 1 FROM sessions WHERE title = ?1 AND id <> ?2 AND user_id IS NOT DISTINCT FROM"
        " (SELECT user_id FROM sessions WHERE id = ?2)",
        (free, session_id),
    ) or (get_session_by_title(conn, free, user_id) is not None):
        free = _successor(free)
    conn.execute("UPDATE sessions SET title = ? WHERE id = ?", (free, session_id))
    note_title_changed(conn, session_id)


def _successor(title: str) -> str:
    """The title with the next number."""
    match = _NUMBERED.match(title)
    base, number = (match["base"], int(match["number"])) if match else (title, 1)
    suffix = f" #{number + 1}"
    return base[: MAX_TITLE_LENGTH - len(suffix)].rstrip() + suffix


_LAST_USED = " ORDER BY COALESCE(last_active, started_at) DESC, id DESC"


def _of(user_id: Any) -> tuple[str, tuple[Any, ...]]:
    """A condition for the sessions of an owner, and its values."""
    if user_id is ANYONE:
        return "", ()
    return owned("user_id", OPERATOR if user_id is None else user_id)


def _numbered_titles(conn: Connection, base: str, user_id: Any) -> list[tuple[int, str]]:
    prefix = f"{base} #"
    numbered = []
    where, values = _of(user_id)
    # The range uses the title index; '\U0010ffff' sorts after every digit.
    for title, session_id in conn.execute(
        f"SELECT title, id FROM sessions WHERE title >= ? AND title < ?{where}",
        (prefix, prefix + "\U0010ffff", *values),
    ):
        match = _NUMBERED.match(title)
        if match and match["base"] == base:
            numbered.append((int(match["number"]), session_id))
    return numbered
