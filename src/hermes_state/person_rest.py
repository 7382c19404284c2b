"""What goes on by itself for somebody, stopped when they are let in no longer, or when two who were
one are parted: running turns, jobs, goals, browsers, and chats in a conversation of the other's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from . import persons
from .bindings import delete_gateway_routing_entries
from .dialect import Connection, column, row, tuples, value
from .goals import list_active_goals, pause_goal
from .owners import is_owned, stored_owner
from .signals import send_signal
from .turns import TURN_RUNNING

STOP = "stop"
"""The signal that stops a turn."""
CRON = "cron"
"""`source` of the sessions that jobs begin."""


def rest_person(conn: Connection, person_id: str, doors: list[str]) -> None:
    """Let nothing go on for somebody who is let in no longer: their jobs and goals are paused, and
    what runs is stopped."""
    conn.execute(
        "UPDATE jobs SET state = 'paused', version = version + 1"
        " WHERE user_id = ? AND state = 'active'",
        (person_id,),
    )
    _pause_goals(conn, person_id)
    _stop_turns(conn, (person_id,), doors)


def rest_parted(
    conn: Connection, person_id: str, back_id: str, doors: list[str], since: float
) -> None:
    """Let nothing of a person's go on for somebody who was one with them `since` then, and has
    these doors back."""
    _stop_turns(conn, (person_id, back_id), doors)
    _pause_jobs_of_chats(conn, person_id, doors)
    _drop_devices_since(conn, person_id, since)


def _pause_goals(conn: Connection, person_id: str) -> None:
    """Let no goal go on by itself that somebody wanted, or whose conversation is theirs."""
    for goal in list_active_goals(conn):
        owner = value(conn, "SELECT user_id FROM sessions WHERE id = ?", (goal["session_id"],))
        if person_id in (goal["by"], owner):
            pause_goal(conn, goal["session_id"], "whoever wanted it may talk here no longer")


def _pause_jobs_of_chats(conn: Connection, person_id: str, doors: list[str]) -> None:
    """Pause the jobs of a person that answer in chats of these doors: what is that person's would
    be told there."""
    keys = _keys_of(conn, doors)
    for job_id, text in tuples(
        conn,
        "SELECT id, settings FROM jobs WHERE user_id IS NOT DISTINCT FROM ? AND state = 'active'",
        (stored_owner(person_id),),
    ):
        settings = _object(text)
        target = settings.get("to")
        named = {settings.get("session_key"), (target or {}).get("session_key")}
        if named & keys:
            conn.execute(
                "UPDATE jobs SET state = 'paused', version = version + 1 WHERE id = ?", (job_id,)
            )


def _drop_devices_since(conn: Connection, person_id: str, made_at: float) -> None:
    """Revoke the web devices of a person that were made since a moment: nobody knows by whom of
    two who were one then."""
    made = column(
        conn,
        "SELECT v.id FROM web_devices v JOIN doors d ON d.kind = 'web' AND d.identifier = v.id"
        " WHERE d.person_id = ? AND v.made_at > ?",
        (person_id, made_at),
    )
    for device_id in made:
        conn.execute("DELETE FROM web_devices WHERE id = ?", (device_id,))
        conn.execute("DELETE FROM doors WHERE kind = 'web' AND identifier = ?", (device_id,))


def _stop_turns(conn: Connection, people: Iterable[str], doors: list[str]) -> None:
    """Stop the turns that run for some persons, or in a chat of one of these doors: they read and
    do what these may no longer. A job is nobody's door, and goes on."""
    keys = _keys_of(conn, doors)
    stored = {stored_owner(person_id) for person_id in people}
    for conversation_id, target, owner, source in tuples(
        conn,
        "SELECT t.conversation_id, t.deliver_to, s.user_id, s.source FROM turns t"
        f" LEFT JOIN sessions s ON s.id = t.session_id WHERE t.state = '{TURN_RUNNING}'",
    ):
        is_theirs = (owner or None) in stored and source != CRON
        if is_theirs or _object(target).get("session_key") in keys:
            send_signal(conn, str(conversation_id), STOP)


def release_chats(conn: Connection, doors: list[str]) -> None:
    """Let chats of these doors begin anew that are in a conversation which is not their person's.

    Not those that were linked to it with a code, nor groups that share one.
    """
    for scope, key, text in tuples(
        conn, "SELECT scope, session_key, entry_json FROM gateway_routing ORDER BY scope"
    ):
        entry = _object(text)
        door = _personal_door(key, entry)
        if door not in doors or entry.get("linked"):
            continue
        session = row(
            conn, "SELECT user_id FROM sessions WHERE id = ?", (str(entry.get("session_id")),)
        )
        person = persons.find_person(conn, door)
        if session is not None and not is_owned(session, door if person is None else person.id):
            delete_gateway_routing_entries(conn, [key], scope=scope)


def _keys_of(conn: Connection, doors: list[str]) -> set[str]:
    """The keys of the chats of some doors that one person uses alone."""
    return {
        str(key)
        for key, text in tuples(conn, "SELECT session_key, entry_json FROM gateway_routing")
        if _personal_door(key, _object(text)) in doors
    }


def _personal_door(session_key: str, entry: dict[str, Any]) -> str:
    """The door of a chat that only one person uses; empty for others."""
    origin = entry.get("origin")
    if not isinstance(origin, dict):
        return ""
    account = origin.get("user_id_alt") or origin.get("user_id")
    is_own = origin.get("chat_type", "dm") == "dm" or session_key.endswith(f":{account}")
    return f"{origin.get('platform')}:{account}" if account and is_own else ""


def _object(text: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(text or "")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
