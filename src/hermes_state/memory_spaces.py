"""Whose memories are whose: which spaces a person reads, and in which groups they let them be read.

A space is a person's memories and skills, under the id that the person had when it was begun. While
nothing was merged, a person has the space of their own id and there is no row. A merge gives the
spaces of one person to the other by rows of `memory_spaces`, in its transaction, and its undoing
gives them back: nothing is copied, so nothing is lost or left behind. What is learnt after a merge
goes into the first space of the person who is left.

That a memory may be read in a group (`memory_shown`) is said for each space that the person has in
that moment: a merge later shows nothing that was not meant.
"""

from __future__ import annotations

from typing import NamedTuple

from .codec import encode_text
from .dialect import Connection, column, tuples, value
from .owners import OPERATOR, owner_key, person_of
from .persons import current_owner


class PersonMemories(NamedTuple):
    """Who somebody is by now, and what is theirs."""

    person_id: str
    """Another id than was asked for, if they were merged since."""
    spaces: list[str]
    """The one that is written first."""


def list_memory_spaces(conn: Connection, person_id: str) -> PersonMemories:
    """The spaces of a person, or of whom they were merged into; the one that is written first."""
    asked = str(encode_text(person_id, "person_id"))
    found, spaces = _spaces_of(conn, asked)  # all that is asked, but of who was merged
    if not found and (current := person_of(current_owner(conn, asked))) != asked:
        asked, (_, spaces) = current, _spaces_of(conn, current)
    is_own = all(holder == asked for space, holder in spaces if space == asked)
    further = [space for space, holder in spaces if holder == asked and space != asked]
    return PersonMemories(asked, [*([asked] if is_own else []), *further])


def _spaces_of(conn: Connection, person_id: str) -> tuple[bool, list[tuple[str, str]]]:
    """Whether there is this person, and the spaces that are theirs or were, each with its holder;
    in one statement."""
    given = tuples(
        conn,
        "SELECT (SELECT id FROM persons WHERE id = ?1), m.space, m.person_id"
        " FROM (SELECT 1) AS once LEFT JOIN memory_spaces m ON m.person_id = ?1 OR m.space = ?1"
        " ORDER BY m.added_at, m.space",
        (person_id,),
    )
    is_known = person_id == OPERATOR or given[0][0] is not None
    return is_known, [(space, holder) for _, space, holder in given if space is not None]


def move_memories(conn: Connection, from_id: str, to_id: str) -> list[str]:
    """Give all spaces of one person to another; returns them."""
    spaces = list_memory_spaces(conn, from_id).spaces
    for space in spaces:
        _give(conn, space, to_id)
    return spaces


def return_memories(conn: Connection, spaces: list[str], from_id: str, to_id: str) -> None:
    """Give spaces back, those that have not gone on to somebody else since.

    Prompts that were made meanwhile tell the memories of both: they are made again.
    """
    for space in spaces:
        if _holder_of(conn, space) == from_id:
            _give(conn, space, to_id)
    conn.execute(
        "UPDATE sessions SET system_prompt = NULL, memory_of = NULL, version = version + 1"
        " WHERE COALESCE(user_id, '') IN (?, ?) AND memory_of LIKE ?",
        (owner_key(from_id), owner_key(to_id), '%"person:%"person:%'),
    )


def ensure_memory_space(conn: Connection, person_id: str) -> None:
    """Give a person who is new a space, where the one of their id is somebody else's by now."""
    if list_memory_spaces(conn, person_id).spaces:
        return
    number = 2
    while _holder_of(conn, f"{person_id}~{number}") is not None:
        number += 1
    _give(conn, f"{person_id}~{number}", person_id)


def show_memory(conn: Connection, person_id: str, chat: str, shown: bool) -> None:
    """Say whether a person's memories, as they are now, may be read in a group."""
    for space in list_memory_spaces(conn, person_id).spaces:
        if shown:
            conn.execute(
                "INSERT INTO memory_shown (space, chat, since) VALUES (?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (space, encode_text(chat, "chat"), conn.now()),
            )
        else:
            conn.execute("DELETE FROM memory_shown WHERE space = ? AND chat = ?", (space, chat))


def list_shown_spaces(conn: Connection, person_id: str, chat: str) -> list[str]:
    """The spaces of a person that may be read in a group."""
    shown = set(
        column(conn, "SELECT space FROM memory_shown WHERE chat = ?", (encode_text(chat, "chat"),))
    )
    if not shown:
        return []
    spaces = list_memory_spaces(conn, person_id).spaces
    return [space for space in spaces if space in shown]


def _holder_of(conn: Connection, space: str) -> str | None:
    """Who has a space that was given to somebody; None if it is its own person's."""
    holder = value(conn, "SELECT person_id FROM memory_spaces WHERE space = ?", (space,))
    return None if holder is None else str(holder)


def _give(conn: Connection, space: str, person_id: str) -> None:
    if space == person_id:
        conn.execute("DELETE FROM memory_spaces WHERE space = ?", (space,))
        return
    conn.execute(
        "INSERT INTO memory_spaces (space, person_id, added_at) VALUES (?, ?, ?)"
        " ON CONFLICT (space) DO UPDATE SET person_id = excluded.person_id,"
        " added_at = excluded.added_at",
        (encode_text(space, "space"), person_id, conn.now()),
    )
