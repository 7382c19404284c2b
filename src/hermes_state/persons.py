"""Persons, and the doors by which they come: chat accounts, API keys, the local user.

A door belongs to one person, a person may have many. Whoever comes by a door that is not known yet
is a new person, whose id is that door ("telegram:42"): so what was stored under that name before
there were persons is theirs. The operator is there without a row, and has one once something is
set for them.

Names are unique, whatever their case, so that people can be called by them.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from .changes import note_session_changed
from .codec import encode_text
from .dialect import Connection, column, row, rows, tuples, value
from .errors import PersonError
from .owners import LOCAL_DOOR, OPERATOR, person_of, stored_owner

ROLES = ("operator", "member", "guest")
LONGEST_NAME = 60

_OWNER_NAME = re.compile(r"[a-z][a-z0-9_]*:.")
_NOT_CHATS = ("cli", "tui", "desktop", "acp", "tool", "cron", "unknown", "delegate")
"""Sources whose rows may carry a name that no platform gave."""


class Person(NamedTuple):
    """Who owns conversations."""

    id: str
    name: str
    role: str
    limits: dict[str, Any]
    workspace: str | None
    created_at: float

    @property
    def is_operator(self) -> bool:
        """Whether they may do everything."""
        return self.role == "operator"


_OPERATOR = Person(OPERATOR, OPERATOR, "operator", {}, None, 0.0)


def find_person(conn: Connection, door: str) -> Person | None:
    """Whose door this is ("telegram:42"); None if nobody has come by it yet."""
    if door == LOCAL_DOOR:
        return get_person(conn, OPERATOR)
    kind, _, identifier = (encode_text(door, "door") or "").partition(":")
    found = row(
        conn,
        "SELECT d.person_id, p.* FROM doors d LEFT JOIN persons p ON p.id = d.person_id"
        " WHERE d.kind = ? AND d.identifier = ?",
        (kind, identifier),
    )
    return None if found is None else person_of_door(found, found["person_id"])


def person_of_door(found: dict[str, Any], person_id: str) -> Person | None:
    """The person of a row that joins a door's `person_id` with their columns."""
    if person_id == OPERATOR and found["id"] is None:
        return _OPERATOR  # who has no row of their own
    return _person(found) if found["id"] is not None else None


def get_person(conn: Connection, person_id: str) -> Person | None:
    """The person of an id."""
    person = _person(row(conn, "SELECT * FROM persons WHERE id = ?", (person_id,)))
    return _OPERATOR if person is None and person_id == OPERATOR else person


def resolve_person(conn: Connection, wanted: str) -> Person | None:
    """The person that is meant by an id, a name or a door."""
    wanted = wanted.strip()
    named = row(
        conn,
        "SELECT * FROM persons WHERE id = ?1 OR lower(name) = lower(?1)"
        " ORDER BY CASE WHEN id = ?1 THEN 0 ELSE 1 END LIMIT 1",
        (encode_text(wanted, "wanted"),),
    )
    if named is not None:
        return _person(named)
    if wanted.lower() == OPERATOR:
        return get_person(conn, OPERATOR)
    return find_person(conn, wanted)


def ensure_person(
    conn: Connection, door: str, name: str | None = None, role: str = "member"
) -> Person:
    """Whose door this is; somebody new if nobody has come by it yet."""
    known = find_person(conn, door)
    if known is not None:
        return known
    kind, identifier = _parts(door)
    person = get_person(conn, door)
    if person is not None and value(conn, "SELECT 1 FROM doors WHERE person_id = ?", (door,)):
        # Somebody else has the name since: their door was given away.
        person = _insert(conn, _free_id(conn, door), name or identifier, role)
    elif person is None:
        person = _insert(conn, door, name or identifier, role)
        _claim_rows(conn, kind, identifier)
    _insert_door(conn, door, person.id, name)
    return person


def add_person(conn: Connection, name: str, role: str = "member") -> Person:
    """Somebody who has no door yet. Raises PersonError if the name or role cannot be had."""
    _require_free(conn, name)
    return _insert(conn, f"person:{os.urandom(6).hex()}", name, role)


def rename_person(conn: Connection, person_id: str, name: str) -> Person:
    """Call a person by another name. Raises PersonError."""
    person = _require(conn, person_id)
    if name.lower() != person.name.lower():
        _require_free(conn, name)
    conn.execute("UPDATE persons SET name = ? WHERE id = ?", (_cleaned(name), person_id))
    return _require(conn, person_id)


def set_person_role(conn: Connection, person_id: str, role: str) -> Person:
    """Say what a person may do: operator, member or guest. Raises PersonError."""
    _require(conn, person_id)
    if person_id == OPERATOR and role != "operator":
        raise PersonError("Whoever sits at this machine is an operator, and stays one.")
    conn.execute("UPDATE persons SET role = ? WHERE id = ?", (_known_role(role), person_id))
    return _require(conn, person_id)


def set_person_limit(conn: Connection, person_id: str, limit: str, amount: float | None) -> Person:
    """Keep a limit of a person, or (None) forget it. Raises PersonError."""
    limits = dict(_require(conn, person_id).limits)
    if amount is None:
        limits.pop(limit, None)
    else:
        limits[limit] = amount
    conn.execute(
        "UPDATE persons SET limits = ? WHERE id = ?",
        (encode_text(json.dumps(limits, sort_keys=True), "limits"), person_id),
    )
    return _require(conn, person_id)


def set_person_workspace(conn: Connection, person_id: str, folder: str | None) -> Person:
    """Say where the agent works for a person, or (None) where it does for everybody. Raises
    PersonError."""
    _require(conn, person_id)
    conn.execute(
        "UPDATE persons SET workspace = ? WHERE id = ?",
        (encode_text(folder, "folder"), person_id),
    )
    return _require(conn, person_id)


def list_workspaces(conn: Connection) -> list[str]:
    """The folders that were chosen for single persons."""
    return column(conn, "SELECT workspace FROM persons WHERE workspace IS NOT NULL ORDER BY 1")


def list_doors(conn: Connection, person_id: str) -> list[str]:
    """The doors of a person, the first one first."""
    here = [LOCAL_DOOR] if person_id == OPERATOR else []
    doors = tuples(
        conn,
        "SELECT kind, identifier FROM doors WHERE person_id = ?"
        " ORDER BY added_at, kind, identifier",
        (person_id,),
    )
    return here + [f"{kind}:{identifier}" for kind, identifier in doors]


def list_persons(conn: Connection) -> list[dict[str, Any]]:
    """Everybody, the operator first: their columns, `doors`, how many `conversations` they have and
    when they last used one (`last_active`)."""
    used = {
        person_of(owner): (int(count), last)
        for owner, count, last in tuples(
            conn,
            "SELECT user_id, COUNT(DISTINCT conversation_id), MAX(last_active) FROM sessions"
            " WHERE source <> 'tool' GROUP BY user_id",
        )
    }
    operator = _OPERATOR._asdict() | {"limits": "{}"}
    kept_people = rows(conn, "SELECT * FROM persons ORDER BY created_at, id")
    others = [kept for kept in kept_people if kept["id"] != OPERATOR]
    operator |= next((kept for kept in kept_people if kept["id"] == OPERATOR), {})
    people = []
    for kept in (operator, *others):
        count, last = used.get(kept["id"], (0, None))
        people.append(
            {
                **kept,
                "limits": _limits(kept["limits"]),
                "doors": list_doors(conn, kept["id"]),
                "conversations": count,
                "last_active": last,
            }
        )
    return people


def adopt_owners(conn: Connection) -> None:
    """Make a person of every owner who is none yet: after an upgrade, an import, or what another
    version wrote. Nothing goes to somebody else."""
    names: dict[str, str] = {
        f"{platform}:{user_id}": name
        for platform, user_id, name in tuples(
            conn, "SELECT platform, user_id, user_name FROM paired_users"
        )
    }
    owners = dict.fromkeys(names)
    for source, owner in tuples(
        conn,
        "SELECT source, user_id FROM sessions WHERE user_id IS NOT NULL AND user_id <> ''"
        " GROUP BY source, user_id ORDER BY MIN(started_at), source, user_id",
    ):
        is_bare = source not in _NOT_CHATS and _OWNER_NAME.match(owner) is None
        owners[f"{source}:{owner}" if is_bare else owner] = None
        if is_bare:
            _claim_rows(conn, source, owner)
    for (owner,) in tuples(conn, "SELECT DISTINCT granted_by FROM approval_grants"):
        if owner:
            owners[owner] = None
    for owner in owners:
        if get_person(conn, owner) is not None:
            continue
        if _OWNER_NAME.match(owner) is None:
            _insert(conn, owner, owner, "member")
        elif find_person(conn, owner) is None:
            ensure_person(conn, owner, names.get(owner) or _shown_name(conn, owner))


def current_owner(conn: Connection, owner: str | None) -> str | None:
    """Whose something is that is written under `owner`, as a column has it.

    A turn that began before its person was merged with another writes under a name that nobody has
    any more: that is who they were merged into.
    """
    owner = stored_owner(owner)
    while owner is not None and get_person(conn, owner) is None:
        into = _merged_into(conn, owner)
        if into is None:
            break  # nobody's yet
        owner = stored_owner(into)
    return owner


def _merged_into(conn: Connection, person_id: str) -> str | None:
    merges = tuples(
        conn,
        "SELECT person_id, merged FROM person_merges WHERE undone_at IS NULL ORDER BY made_at DESC",
    )
    return next(
        (into for into, moved in merges if json.loads(moved)["person"]["id"] == person_id), None
    )


def insert_person(conn: Connection, fields: dict[str, Any]) -> Person:
    """Put a person back as they were, under a name that is free."""
    person = _insert(conn, fields["id"], fields["name"], fields["role"])
    conn.execute(
        "UPDATE persons SET limits = ?, workspace = ?, created_at = ? WHERE id = ?",
        (fields["limits"], fields["workspace"], fields["created_at"], person.id),
    )
    return _require(conn, person.id)


def add_door(conn: Connection, door: str, person_id: str, name: str | None = None) -> None:
    """Give a person a door that nobody has."""
    _require(conn, person_id)
    _insert_door(conn, door, person_id, name)


def _claim_rows(conn: Connection, kind: str, identifier: str) -> None:
    """Give rows that the public system wrote, with the bare name a platform gave, their owner."""
    if kind in _NOT_CHATS:
        return
    given = (kind, identifier)
    for (session_id,) in tuples(
        conn, "SELECT id FROM sessions WHERE source = ? AND user_id = ?", given
    ):
        from .titles import make_room_for_title

        owner = f"{kind}:{identifier}"
        make_room_for_title(conn, session_id, owner)
        conn.execute("UPDATE sessions SET user_id = ? WHERE id = ?", (owner, session_id))
        note_session_changed(conn, session_id)


def _shown_name(conn: Connection, owner: str) -> str | None:
    name = value(
        conn,
        "SELECT display_name FROM sessions WHERE user_id = ? AND chat_type = 'dm'"
        " AND display_name IS NOT NULL ORDER BY started_at DESC LIMIT 1",
        (stored_owner(owner),),
    )
    return None if name is None else str(name)


def _insert(conn: Connection, person_id: str, name: str, role: str) -> Person:
    conn.execute(
        "INSERT INTO persons (id, name, role, limits, created_at) VALUES (?, ?, ?, '{}', ?)",
        (
            encode_text(person_id, "person_id"),
            OPERATOR if person_id == OPERATOR else _free_name(conn, _cleaned(name)),
            _known_role(role),
            conn.now(),
        ),
    )
    from .memory_spaces import ensure_memory_space

    ensure_memory_space(conn, person_id)
    return _require(conn, person_id)


def _insert_door(conn: Connection, door: str, person_id: str, name: str | None) -> None:
    kind, identifier = _parts(door)
    conn.execute(
        "INSERT INTO doors (kind, identifier, person_id, name, added_at) VALUES (?, ?, ?, ?, ?)",
        (kind, identifier, person_id, encode_text(name, "name"), conn.now()),
    )


def _parts(door: str) -> tuple[str, str]:
    kind, _, identifier = (encode_text(door, "door") or "").partition(":")
    if not kind or not identifier:
        raise PersonError(f"{door!r} is no door; one is written like telegram:42.")
    return kind, identifier


def _require(conn: Connection, person_id: str) -> Person:
    """A person who has a row, to be changed."""
    person = _person(row(conn, "SELECT * FROM persons WHERE id = ?", (person_id,)))
    if person is None and person_id == OPERATOR:
        return _insert(conn, OPERATOR, OPERATOR, "operator")
    if person is None:
        raise PersonError(f"There is no person {person_id!r}. See: hermes people list")
    return person


def _known_role(role: str) -> str:
    if role not in ROLES:
        raise PersonError(f"A role is one of {', '.join(ROLES)}, not {role!r}.")
    return role


def _cleaned(name: str) -> str:
    """A name on one line; PersonError if nothing is left of it."""
    printed = "".join(char if char.isprintable() else " " for char in encode_text(name, "") or "")
    cleaned = " ".join(printed.split())[:LONGEST_NAME].strip()
    if not cleaned:
        raise PersonError("A person needs a name with letters or digits in it.")
    return cleaned


def _require_free(conn: Connection, name: str) -> None:
    if _is_taken(conn, _cleaned(name)):
        raise PersonError(f"There is somebody called {_cleaned(name)!r} already.")


def _is_taken(conn: Connection, name: str) -> bool:
    if name.lower() == OPERATOR:
        return True
    return value(conn, "SELECT 1 FROM persons WHERE lower(name) = lower(?)", (name,)) is not None


def _free_name(conn: Connection, name: str) -> str:
    """The name, with a number if somebody else has it."""
    free, number = name, 1
    while _is_taken(conn, free):
        number += 1
        free = f"{name} {number}"
    return free


def _free_id(conn: Connection, door: str) -> str:
    number = 2
    while get_person(conn, f"{door}~{number}") is not None:
        number += 1
    return f"{door}~{number}"


def _limits(kept: str | None) -> dict[str, Any]:
    limits = json.loads(kept or "{}")
    return limits if isinstance(limits, dict) else {}


def _person(kept: dict[str, Any] | None) -> Person | None:
    if kept is None:
        return None
    return Person(
        kept["id"],
        kept["name"],
        kept["role"],
        _limits(kept["limits"]),
        kept["workspace"],
        kept["created_at"],
    )
