"""Two persons who turn out to be one: what one has goes to the other, and back if it was wrong.

One transaction moves the doors, the conversations with their approvals, the memories, and what was
allowed for good. What was moved is kept by its names, so that an undoing moves exactly that back,
also what was spent this month outside of conversations: nobody gets a new limit by it. What was
begun or learnt after the merge stays with the person who was left, and so does the cost of
conversations that were deleted since. Chats that are then in a conversation which is another's
begin anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from . import persons
from .codec import encode_text
from .dialect import Connection, column, row, rows, tuples
from .errors import PersonError
from .memory_spaces import move_memories, return_memories
from .owners import OPERATOR, owner_key, stored_owner
from .person_rest import release_chats, rest_parted, rest_person
from .persons import Person
from .reservations import period_of
from .titles import make_room_for_title

_FOLLOWING = ("approvals", "model_calls")
"""Tables whose rows have the owner of the conversation that they name."""
_AT_ONCE = 400
"""Names in one statement."""


class Merge(NamedTuple):
    """A merge that can be undone."""

    id: str
    person: Person
    """Who is left."""
    merged: str
    """The name of whom they were merged with."""
    doors: list[str]
    """What was their door."""
    conversations: int
    made_at: float


def merge_persons(conn: Connection, merged_id: str, into_id: str) -> Merge:
    """Give everything of one person to another; the first is gone then. Raises PersonError."""
    merged, person = _require(conn, merged_id), _require(conn, into_id)
    if merged.id == person.id:
        raise PersonError(f"{person.name} is that person already.")
    if merged.id == OPERATOR:
        raise PersonError(
            f"Whoever sits at this machine stays. Merge {person.name} into {merged.name} instead."
        )
    kept = row(conn, "SELECT * FROM persons WHERE id = ?", (merged.id,))
    doors = persons.list_doors(conn, merged.id)
    conversations = column(
        conn,
        "SELECT DISTINCT conversation_id FROM sessions WHERE user_id = ? ORDER BY 1",
        (merged.id,),
    )
    grants = tuples(
        conn,
        "SELECT pattern_key, granted_at FROM approval_grants WHERE granted_by = ?",
        (merged.id,),
    )
    jobs = column(conn, "SELECT id FROM jobs WHERE user_id = ? ORDER BY id", (merged.id,))
    loose = column(
        conn,
        "SELECT id FROM model_calls WHERE user_id = ? AND session_id IS NULL AND made_at >= ?"
        " ORDER BY id",
        (merged.id, period_of("month", conn.now())[0]),
    )
    _move_sessions(conn, merged.id, person.id, None)
    _move_jobs(conn, jobs, merged.id, person.id)
    for table in _FOLLOWING:
        conn.execute(
            f"UPDATE {table} SET user_id = ? WHERE user_id = ?",
            (stored_owner(person.id), merged.id),
        )
    new_grants = _move_grants(conn, [list(grant) for grant in grants], merged.id, person.id)
    conn.execute("UPDATE doors SET person_id = ? WHERE person_id = ?", (person.id, merged.id))
    conn.execute("DELETE FROM link_codes WHERE owner = ?", (merged.id,))
    memories = move_memories(conn, merged.id, person.id)
    limits = _keep_limits(conn, merged, person)
    conn.execute("DELETE FROM persons WHERE id = ?", (merged.id,))
    merge_id = os.urandom(6).hex()
    moved = {
        "person": kept,
        "doors": doors,
        "jobs": jobs,
        "conversations": conversations,
        "grants": new_grants,
        "memories": memories,
        "limits": limits,
        "loose_calls": loose,
    }
    conn.execute(
        "INSERT INTO person_merges (id, person_id, merged, made_at) VALUES (?, ?, ?, ?)",
        (merge_id, person.id, encode_text(json.dumps(moved), "merged"), conn.now()),
    )
    return _merge(conn, _kept(conn, merge_id))


def list_merges(conn: Connection, person_id: str | None = None) -> list[Merge]:
    """The merges that can be undone, the newest first; into one person, if given."""
    kept = rows(
        conn,
        "SELECT * FROM person_merges"
        " WHERE undone_at IS NULL AND (CAST(?1 AS TEXT) IS NULL OR person_id = ?1)"
        " ORDER BY made_at DESC, id",
        (person_id,),
    )
    # What was merged into somebody who was merged since can only be undone once that is.
    return [
        _merge(conn, merge)
        for merge in kept
        if persons.get_person(conn, merge["person_id"]) is not None
    ]


def find_merge(conn: Connection, door: str) -> Merge | None:
    """The newest merge that brought a door to its person; None if none did."""
    person = persons.find_person(conn, door)
    if person is None:
        return None
    return next((merge for merge in list_merges(conn, person.id) if door in merge.doors), None)


def unmerge_persons(conn: Connection, merge_id: str) -> Person:
    """Undo a merge: what was moved goes back, unless it has gone on to somebody else since.

    Returns the person who is there again. Raises PersonError if it was undone, or what they were
    merged into was itself merged into another since.
    """
    kept = _kept(conn, merge_id)
    if kept["undone_at"] is not None:
        raise PersonError("That merge was undone already.")
    person, moved = persons.get_person(conn, kept["person_id"]), json.loads(kept["merged"])
    if person is None:
        raise PersonError("Undo the later merge first: whom they were merged into was merged too.")
    conn.execute("UPDATE person_merges SET undone_at = ? WHERE id = ?", (conn.now(), merge_id))
    if persons.get_person(conn, moved["person"]["id"]) is not None:
        raise PersonError(f"{moved['person']['name']} is there again already.")
    return_memories(conn, moved.get("memories", []), person.id, moved["person"]["id"])
    back = persons.insert_person(conn, moved["person"])
    for limit, (before, kept_since) in moved.get("limits", {}).items():
        if person.limits.get(limit) == kept_since:  # nobody has set another one
            persons.set_person_limit(conn, person.id, limit, before)
    for door in moved["doors"]:
        kind, _, identifier = door.partition(":")
        conn.execute(
            "UPDATE doors SET person_id = ? WHERE kind = ? AND identifier = ? AND person_id = ?",
            (back.id, kind, identifier, person.id),
        )
    for conversations in _slices(moved["conversations"]):
        _move_sessions(conn, person.id, back.id, conversations)
        marks = ", ".join("?" * len(conversations))
        for table in _FOLLOWING:
            conn.execute(
                f"UPDATE {table} SET user_id = ? WHERE user_id IS NOT DISTINCT FROM ?"
                f" AND session_id IN (SELECT id FROM sessions WHERE conversation_id IN ({marks}))",
                (stored_owner(back.id), stored_owner(person.id), *conversations),
            )
    conn.executemany(
        "UPDATE model_calls SET user_id = ? WHERE id = ? AND user_id IS NOT DISTINCT FROM ?",
        [
            (stored_owner(back.id), call_id, stored_owner(person.id))
            for call_id in moved.get("loose_calls", ())
        ],
    )
    _move_grants(conn, moved["grants"], person.id, back.id)
    _move_jobs(conn, moved.get("jobs") or (), person.id, back.id)
    conn.execute("DELETE FROM link_codes WHERE owner IN (?, ?)", (person.id, back.id))
    rest_parted(conn, person.id, back.id, moved["doors"], kept["made_at"])
    release_chats(conn, [*moved["doors"], *persons.list_doors(conn, person.id)])
    return back


def _keep_limits(conn: Connection, merged: Person, person: Person) -> dict[str, list[Any]]:
    """Let the narrower of two limits hold for both: nobody has more by being merged. What is kept
    with an operator is nobody else's. Returns what was changed: before, and since."""
    changed = {
        limit: [person.limits.get(limit), most]
        for limit, most in merged.limits.items()
        if not person.is_operator and most < person.limits.get(limit, float("inf"))
    }
    for limit, (_, most) in changed.items():
        persons.set_person_limit(conn, person.id, limit, most)
    return changed


def _move_jobs(conn: Connection, jobs: Iterable[str], before: str, person_id: str) -> None:
    conn.executemany(
        "UPDATE jobs SET user_id = ? WHERE id = ? AND user_id IS NOT DISTINCT FROM ?",
        [(stored_owner(person_id), job_id, stored_owner(before)) for job_id in jobs],
    )


def remove_person(conn: Connection, person_id: str) -> list[str]:
    """Forget a person and let their chat accounts in no longer; returns their doors.

    Their conversations stay, and their jobs and goals, paused; nobody else's: whoever comes by the
    same door again finds them. What runs for them is stopped. Raises PersonError for the operator.
    """
    if person_id == OPERATOR:
        raise PersonError("Whoever sits at this machine cannot be removed.")
    _require(conn, person_id)
    doors = persons.list_doors(conn, person_id)
    for door in doors:
        kind, _, identifier = door.partition(":")
        conn.execute(
            "DELETE FROM paired_users WHERE platform = ? AND user_id = ?", (kind, identifier)
        )
    conn.execute(
        "DELETE FROM web_devices WHERE id IN"
        " (SELECT identifier FROM doors WHERE kind = 'web' AND person_id = ?)",
        (person_id,),
    )
    conn.execute("DELETE FROM doors WHERE person_id = ?", (person_id,))
    conn.execute("DELETE FROM person_merges WHERE person_id = ?", (person_id,))
    conn.execute("DELETE FROM link_codes WHERE owner = ?", (person_id,))
    conn.execute("DELETE FROM persons WHERE id = ?", (person_id,))
    rest_person(conn, person_id, doors)
    release_chats(conn, doors)
    return doors


def join_door(conn: Connection, door: str, person_id: str, name: str | None = None) -> Merge | None:
    """Let a door lead to a person; whoever came by it until now is merged into them.

    Returns that merge; None if nobody had come by it, or it is their door already.
    """
    _require(conn, person_id)
    known = persons.find_person(conn, door)
    if known is None and persons.get_person(conn, door) is None:
        persons.add_door(conn, door, person_id, name)
        return None
    known = known or persons.ensure_person(conn, door, name)
    return None if known.id == person_id else merge_persons(conn, known.id, person_id)


def join_persons(conn: Connection, offered_id: str, taken_id: str) -> Merge | None:
    """Two who proved to be one: the operator stays if one of them is, else who offered.

    None if they are one already.
    """
    if offered_id == taken_id:
        return None
    if taken_id == OPERATOR:
        return merge_persons(conn, offered_id, taken_id)
    return merge_persons(conn, taken_id, offered_id)


def _move_sessions(
    conn: Connection, from_id: str, to_id: str, conversations: list[str] | None
) -> None:
    """Move sessions, of some conversations or all, with titles that are free there."""
    owner, new_owner = stored_owner(from_id), stored_owner(to_id)
    where, values = "user_id IS NOT DISTINCT FROM ?", [owner]
    if conversations is not None:
        where += f" AND conversation_id IN ({', '.join('?' * len(conversations))})"
        values += conversations
    for session_id in column(
        conn,
        f"SELECT id FROM sessions WHERE {where} AND title IS NOT NULL AND title IN"
        " (SELECT title FROM sessions WHERE user_id IS NOT DISTINCT FROM ?) ORDER BY started_at",
        (*values, new_owner),
    ):
        make_room_for_title(conn, session_id, new_owner)
    conn.execute(
        "INSERT INTO search_changes (session_id, kind)"
        f" SELECT id, 'session' FROM sessions WHERE {where}",
        tuple(values),
    )
    conn.execute(
        f"UPDATE sessions SET user_id = ?, version = version + 1 WHERE {where}",
        (new_owner, *values),
    )


def _move_grants(
    conn: Connection, grants: list[list[Any]], from_id: str, to_id: str
) -> list[list[Any]]:
    """Move what was allowed for good; returns what the other had not allowed themselves."""
    new = []
    for pattern, granted_at in grants:
        conn.execute(
            "DELETE FROM approval_grants WHERE granted_by = ? AND pattern_key = ?",
            (owner_key(from_id), pattern),
        )
        if not conn.changes():
            continue  # taken back since
        conn.execute(
            "INSERT INTO approval_grants (pattern_key, granted_at, granted_by) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (pattern, granted_at, owner_key(to_id)),
        )
        if conn.changes():
            new.append([pattern, granted_at])
    return new


def _kept(conn: Connection, merge_id: str) -> dict[str, Any]:
    kept = row(conn, "SELECT * FROM person_merges WHERE id = ?", (merge_id,))
    if kept is None:
        raise PersonError(f"There is no merge {merge_id!r} that could be undone.")
    return kept


def _merge(conn: Connection, kept: dict[str, Any]) -> Merge:
    moved = json.loads(kept["merged"])
    return Merge(
        kept["id"],
        _require(conn, kept["person_id"]),
        moved["person"]["name"],
        moved["doors"],
        len(moved["conversations"]),
        kept["made_at"],
    )


def _require(conn: Connection, person_id: str) -> Person:
    person = persons.get_person(conn, person_id)
    if person is None:
        raise PersonError(f"There is no person {person_id!r}. See: hermes people list")
    return person


def _slices(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]
