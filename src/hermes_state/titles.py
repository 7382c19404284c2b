"""Titles: cleaned, unique over all sessions, numbered along a lineage ("Plan", "Plan #2", …)."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from .changes import note_title_changed
from .codec import without_surrogates
from .connection import Connection, row, value

MAX_TITLE_LENGTH = 100

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
    found = row(conn, "SELECT title FROM sessions WHERE id = ?", (session_id,))
    if found is None or (only_if_empty and (found["title"] is not None or cleaned is None)):
        return False
    holder = value(
        conn, "SELECT id FROM sessions WHERE title = ? AND id <> ?", (cleaned, session_id)
    )
    if holder is not None:
        raise ValueError(
            f"The title {cleaned!r} is already in use by session {holder}. "
            f"Choose another, for instance {get_next_title_in_lineage(conn, str(cleaned))!r}."
        )
    conn.execute(
        "UPDATE sessions SET title = ?, version = version + 1 WHERE id = ?", (cleaned, session_id)
    )
    note_title_changed(conn, session_id)
    return True


def get_session_title(conn: Connection, session_id: str) -> str | None:
    """The session's title, or None."""
    return value(conn, "SELECT title FROM sessions WHERE id = ?", (session_id,))


def get_session_by_title(conn: Connection, title: str) -> dict[str, Any] | None:
    """The session with exactly this title, or None."""
    return row(conn, "SELECT * FROM sessions WHERE title = ?", (title,))


def resolve_session_by_title(conn: Connection, title: str) -> str | None:
    """The id for a title; where "title #N" exist too, the one with the highest number."""
    numbered = _numbered_titles(conn, title)
    if numbered:
        return max(numbered)[1]
    return value(conn, "SELECT id FROM sessions WHERE title = ?", (title,))


def get_next_title_in_lineage(conn: Connection, base_title: str) -> str:
    """The next free title: "Plan" → "Plan #2"; the base itself while nobody has it.

    The result is always a valid title: the base is cleaned, and shortened where it or the number
    would make the title too long.
    """
    cleaned = _cleaned(base_title)
    match = _NUMBERED.match(cleaned)
    base = (match["base"] if match else cleaned)[:MAX_TITLE_LENGTH].rstrip()
    taken = _numbered_titles(conn, base)
    if not taken and value(conn, "SELECT 1 FROM sessions WHERE title = ?", (base,)) is None:
        return base
    number = max((number for number, _ in taken), default=1)
    while True:
        number += 1
        suffix = f" #{number}"
        candidate = base[: MAX_TITLE_LENGTH - len(suffix)].rstrip() + suffix
        if value(conn, "SELECT 1 FROM sessions WHERE title = ?", (candidate,)) is None:
            return candidate


def _numbered_titles(conn: Connection, base: str) -> list[tuple[int, str]]:
    prefix = f"{base} #"
    found = []
    # The range uses the title index; '\U0010ffff' sorts after every digit.
    for title, session_id in conn.execute(
        "SELECT title, id FROM sessions WHERE title >= ? AND title < ?",
        (prefix, prefix + "\U0010ffff"),
    ):
        match = _NUMBERED.match(title)
        if match and match["base"] == base:
            found.append((int(match["number"]), session_id))
    return found
