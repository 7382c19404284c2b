"""The routing table: which session each session key is bound to, and what is known about the key.

An entry is a JSON object of fields. Several processes change it: a change names the fields it sets,
and what must still be so for it to apply, so that no process overwrites another's change. Every
change has a number that only grows (`version`), and a cache of entries asks for what changed since
the last one seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .codec import encode_text
from .dialect import Connection, tuples, value
from .sessions import end_session, get_meta, promote_to_session_reset, set_meta

_VERSION = "gateway_routing_version"
_DELETED = "gateway_routing_deleted"
"""The version of the newest deletion, since deleted rows have no version."""


@dataclass(frozen=True, slots=True)
class Binding:
    """An entry as it is stored."""

    entry_json: str
    version: int


@dataclass(frozen=True, slots=True)
class BindingChanges:
    """What happened to the entries of a scope since a version."""

    version: int
    changed: dict[str, Binding]
    keys: frozenset[str] | None
    """All keys there are, if any was deleted since; else None."""


def get_binding_version(conn: Connection) -> int:
    """The version of the newest change."""
    return _number(conn, _VERSION)


def list_binding_changes(
    conn: Connection, since: int | None = None, *, scope: str = ""
) -> BindingChanges | None:
    """What changed after version `since`, or everything; None if nothing did."""
    version = get_binding_version(conn)
    if version == since:
        return None
    # A store that was put back from a backup may have a lower number: everything counts as changed.
    after = since if since is not None and since < version else -1
    changed = {
        key: Binding(text, number)
        for key, text, number in tuples(
            conn,
            "SELECT session_key, entry_json, version FROM gateway_routing"
            " WHERE scope = ? AND version > ?",
            (scope, after),
        )
    }
    if after < 0:
        return BindingChanges(version, changed, frozenset(changed))
    keys = None
    if _number(conn, _DELETED) > after:
        bound = tuples(conn, "SELECT session_key FROM gateway_routing WHERE scope = ?", (scope,))
        keys = frozenset(key for (key,) in bound)
    return BindingChanges(version, changed, keys)


def create_bindings(
    conn: Connection, entries: Mapping[str, Mapping[str, Any]], *, scope: str = ""
) -> dict[str, int]:
    """Add the entries whose keys have none yet; returns the versions of those that were added."""
    return {
        session_key: _save_fields(conn, session_key, fields, scope)
        for session_key, fields in entries.items()
        if _text(conn, session_key, scope) is None
    }


def update_binding(
    conn: Connection,
    session_key: str,
    changes: Mapping[str, Any],
    *,
    removed: Iterable[str] = (),
    expected: Mapping[str, Any] | None = None,
    scope: str = "",
) -> int | None:
    """Set some fields of an entry and remove others; the rest stays. Returns its new version.

    None, and nothing is changed, if there is no such entry or a field in `expected` has another
    value by now.
    """
    entry = _entry(conn, session_key, scope)
    if entry is None or any(entry.get(name) != fact for name, fact in (expected or {}).items()):
        return None
    entry.update(changes)
    for name in removed:
        entry.pop(name, None)
    return _save_fields(conn, session_key, entry, scope)


def rebind_key(
    conn: Connection,
    session_key: str,
    fields: Mapping[str, Any],
    *,
    instead_of: str,
    along: Iterable[str] = (),
    end_reason: str | None = None,
    scope: str = "",
) -> bool:
    """Replace the entry of a key that is bound to the session `instead_of`, as one change.

    The keys in `along` that are bound to that session too go with it. With an `end_reason` the
    session they leave is ended, unless other keys stay in it. False, and nothing is changed, if the
    key is bound to another session by now.
    """
    entry = _entry(conn, session_key, scope)
    if entry is None or entry.get("session_id") != instead_of:
        return False
    _save_fields(conn, session_key, fields, scope)
    moved = {"session_id": fields["session_id"], "expiry_finalized": False}
    for other in along:
        update_binding(conn, other, moved, expected={"session_id": instead_of}, scope=scope)
    is_left = value(conn, "SELECT 1 FROM gateway_routing WHERE session_id = ?", (instead_of,))
    if end_reason is not None and is_left is None:
        end_session(conn, instead_of, end_reason)
        promote_to_session_reset(conn, instead_of)
    return True


def move_bindings(conn: Connection, old_session_id: str, new_session_id: str) -> None:
    """Bind every key that is bound to the old session to the new one."""
    for scope, key in tuples(
        conn, "SELECT scope, session_key FROM gateway_routing WHERE session_id = ?",
        (old_session_id,),
    ):  # fmt: skip
        moved = {"session_id": new_session_id}
        update_binding(conn, key, moved, expected={"session_id": old_session_id}, scope=scope)


def forget_bindings(conn: Connection, seen: Mapping[str, int], *, scope: str = "") -> list[str]:
    """Remove entries that are still at the version at which they were seen; returns their keys."""
    unchanged = [
        key
        for key, version in seen.items()
        if value(
            conn,
            "SELECT version FROM gateway_routing WHERE scope = ? AND session_key = ?",
            (scope, encode_text(key, "session_key")),
        )
        == version
    ]
    delete_gateway_routing_entries(conn, unchanged, scope=scope)
    return unchanged


def save_gateway_routing_entry(
    conn: Connection, session_key: str, entry_json: str, *, scope: str = ""
) -> None:
    """Set one entry of the routing table, whatever it was."""
    text = encode_text(entry_json, "entry_json")
    _save(conn, session_key, text, session_of(text), scope)


def _save_fields(conn: Connection, session_key: str, fields: Mapping[str, Any], scope: str) -> int:
    return _save(conn, session_key, json.dumps(fields), _session_in(fields), scope)


def _save(
    conn: Connection, session_key: str, text: str | None, session_id: str | None, scope: str
) -> int:
    version = _next_version(conn)
    conn.execute(
        "INSERT INTO gateway_routing"
        " (scope, session_key, entry_json, updated_at, session_id, version)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (scope, session_key) DO UPDATE SET"
        " entry_json = excluded.entry_json, updated_at = excluded.updated_at,"
        " session_id = excluded.session_id, version = excluded.version",
        (
            scope,
            encode_text(session_key, "session_key"),
            text,
            conn.now(),
            session_id,
            version,
        ),
    )
    return version


def replace_gateway_routing_entries(
    conn: Connection, entries: dict[str, str], *, scope: str = ""
) -> None:
    """Make the routing table of a scope equal to `entries`, as one change."""
    conn.execute("DELETE FROM gateway_routing WHERE scope = ?", (scope,))
    _note_deleted(conn)
    for session_key, entry_json in entries.items():
        save_gateway_routing_entry(conn, session_key, entry_json, scope=scope)


def load_gateway_routing_entries(conn: Connection, *, scope: str = "") -> dict[str, str]:
    """The routing table of a scope: session key → entry."""
    return dict(
        tuples(
            conn, "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ?", (scope,)
        )
    )


def delete_gateway_routing_entries(
    conn: Connection, session_keys: list[str], *, scope: str = ""
) -> None:
    """Remove entries of a scope."""
    deleted = 0
    for key in session_keys:
        conn.execute(
            "DELETE FROM gateway_routing WHERE scope = ? AND session_key = ?", (scope, key)
        )
        deleted += conn.changes()
    if deleted:
        _note_deleted(conn)


def session_of(entry_json: str | None) -> str | None:
    """The session an entry names; None if it names none or is no JSON object."""
    return _session_in(_fields(entry_json) or {})


def _session_in(fields: Mapping[str, Any]) -> str | None:
    session_id = fields.get("session_id")
    return encode_text(session_id, "session_id") if isinstance(session_id, str) else None


def _fields(entry_json: str | None) -> dict[str, Any] | None:
    try:
        fields = json.loads(entry_json or "")
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _text(conn: Connection, session_key: str, scope: str) -> str | None:
    text = value(
        conn,
        "SELECT entry_json FROM gateway_routing WHERE scope = ? AND session_key = ?"
        + conn.lock_row,
        (scope, encode_text(session_key, "session_key")),
    )
    return None if text is None else str(text)


def _entry(conn: Connection, session_key: str, scope: str) -> dict[str, Any] | None:
    return _fields(_text(conn, session_key, scope))


def _number(conn: Connection, key: str) -> int:
    return int(get_meta(conn, key) or 0)


def _next_version(conn: Connection) -> int:
    return int(
        value(
            conn,
            "INSERT INTO state_meta (key, value) VALUES (?, '1') ON CONFLICT (key)"
            " DO UPDATE SET value = CAST(CAST(state_meta.value AS BIGINT) + 1 AS TEXT)"
            " RETURNING value",
            (_VERSION,),
        )
    )


def _note_deleted(conn: Connection) -> None:
    set_meta(conn, _DELETED, str(_next_version(conn)))
