"""One row per model call: when, for whom, with what, what it took and what it cost.

A row is inserted in the transaction that stores what the call led to, so it costs no commit of its
own. It outlives its conversation: once that is deleted the row names neither it nor its session any
more, and what was spent stays spent. Ids sort by the time at which they were made.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from .codec import encode_text
from .dialect import Connection, rows
from .errors import InvalidMessageError
from .persons import current_owner

Outcome = Literal["complete", "interrupted", "error"]

COMPLETE = "complete"
RESERVED = "reserved"
LOST = "lost"
"""Reserved by a process that is gone: nobody knows what became of the call."""

TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
_MEASURES = (*TOKENS, "cost_usd", "assumed_cost_usd", "first_token_seconds", "seconds")
_TEXTS = ("task", "model", "provider", "outcome")
_EXPORTED = ("id", "made_at", "job", *_TEXTS, *_MEASURES)


class ModelCall(NamedTuple):
    """What is known of a call when it has ended."""

    task: str
    """What it was for: turn, delegation, compression, title_generation, review, …"""
    model: str
    provider: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """None if the model's price is not known."""
    assumed_cost_usd: float | None = None
    """What limits count instead."""
    first_token_seconds: float | None = None
    seconds: float | None = None
    outcome: Outcome = "complete"
    session_key: str | None = None
    """The chat it is for, if not that of its session: several may share a conversation."""
    source: str | None = None
    """Where it is for, if not where its session comes from: a sub-agent works for a chat."""
    job: str | None = None
    """The scheduled job it is for."""
    id: str | None = None
    """Of its reservation, if it was reserved."""


def new_call_id(conn: Connection) -> str:
    """An id that sorts behind those made before."""
    return f"{int(conn.now() * 1000):012x}{os.urandom(5).hex()}"


def insert_call(
    conn: Connection, session_id: str | None, call: ModelCall, owner: str | None = None
) -> None:
    """Insert a call of a session, in the place of its reservation if it has one; nothing if there
    is no such session. Without a session it is one of `owner`'s, outside of any conversation."""
    values = [_storable(name, given) for name, given in zip(_KEPT, _kept(call), strict=True)]
    if call.id is not None:
        conn.execute(_SETTLE, (*values, session_id, call.id))
        if conn.changes():
            return
    if session_id is None:
        person = encode_text(current_owner(conn, owner), "owner")
        conn.execute(
            _INSERT_LOOSE, (call.id or new_call_id(conn), conn.now(), person, call.source, *values)
        )
        return
    conn.execute(
        _INSERT,
        (
            call.id or new_call_id(conn),
            conn.now(),
            call.session_key,
            call.source,
            *values,
            session_id,
        ),
    )


_KEPT = ("task", "model", "provider", *_MEASURES, "outcome", "job")
_kept = operator.attrgetter(*_KEPT)
# Every model call is stored by one of these, so they are put together once.
_SETTLE = (
    f"UPDATE model_calls SET {', '.join(f'{name} = ?' for name in _KEPT)}, process = NULL,"
    " fence = NULL, expires_at = NULL,"
    " session_id = COALESCE((SELECT id FROM sessions WHERE id = ?), session_id) WHERE id = ?"
)
_INSERT = (
    "INSERT INTO model_calls (id, made_at, conversation_id, session_id, session_key, user_id,"
    f" source, {', '.join(_KEPT)})"
    " SELECT ?, ?, COALESCE(conversation_id, id), id, COALESCE(?, session_key), user_id,"
    f" COALESCE(?, source), {', '.join('?' * len(_KEPT))} FROM sessions WHERE id = ?"
)
_INSERT_LOOSE = (
    f"INSERT INTO model_calls (id, made_at, user_id, source, {', '.join(_KEPT)})"
    f" VALUES (?, ?, ?, ?, {', '.join('?' * len(_KEPT))})"
)


def _storable(name: str, value: Any) -> Any:
    return encode_text(value, name) if isinstance(value, str) else value


FORGET_IDS = "UPDATE model_calls SET session_id = NULL, conversation_id = NULL WHERE session_id = ?"


def forget_call_ids(conn: Connection, session_id: str) -> None:
    """A session is gone: its calls stay, and name neither it nor its conversation any more."""
    conn.execute(FORGET_IDS, (session_id,))


def export_calls(conn: Connection, session_id: str) -> list[dict[str, Any]]:
    """The calls of a session that have ended, oldest first."""
    return rows(
        conn,
        f"SELECT {', '.join(_EXPORTED)} FROM model_calls"
        f" WHERE session_id = ? AND outcome <> '{RESERVED}' ORDER BY made_at, id",
        (session_id,),
    )


def check_exported_call(call: Any) -> None:
    """Raise InvalidMessageError for what cannot be a call of an export."""
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
        raise InvalidMessageError("a model call needs an id")
    for name in ("id", "job", *_TEXTS):
        if not isinstance(encode_text(call.get(name), name), type(call.get(name))):
            raise InvalidMessageError(f"{name} of a model call must be text")
    for name in ("made_at", *_MEASURES):
        number = call.get(name)
        is_number = isinstance(number, int | float | None) and not isinstance(number, bool)
        # Nothing that is brought in may take away from what was spent.
        if not is_number or not math.isfinite(number or 0) or (number or 0) < 0:
            raise InvalidMessageError(f"{name} of a model call must be a number, 0 or more")
        if name in TOKENS and not isinstance(number, int | None):
            raise InvalidMessageError(f"{name} of a model call must be a whole number")


def import_calls(conn: Connection, session_id: str, calls: list[Mapping[str, Any]]) -> None:
    """Insert exported calls for a session; one that outlived its session here gets it back."""
    for call in calls:
        given = {name: call.get(name) for name in _EXPORTED}
        given["made_at"] = float(given["made_at"] or 0)
        given["task"] = given["task"] or "turn"
        given["model"] = given["model"] or "unknown"
        given["provider"] = given["provider"] or ""
        given["outcome"] = given["outcome"] or COMPLETE
        if given["outcome"] == RESERVED:
            continue
        given |= {name: given[name] or 0 for name in TOKENS}
        conn.execute(
            f"INSERT INTO model_calls ({', '.join(given)}, conversation_id, session_id, user_id,"
            f" source) SELECT {', '.join('?' * len(given))}, COALESCE(conversation_id, id), id,"
            " user_id, source FROM sessions WHERE id = ?"
            " ON CONFLICT (id) DO UPDATE SET session_id = excluded.session_id,"
            " conversation_id = excluded.conversation_id WHERE model_calls.session_id IS NULL"
            " AND COALESCE(model_calls.user_id, '') = COALESCE(excluded.user_id, '')",
            (*(_storable(name, value) for name, value in given.items()), session_id),
        )


def follow_conversation(conn: Connection, session_id: str) -> None:
    """A session belongs to another conversation now, and so do its calls."""
    conn.execute(
        "UPDATE model_calls SET conversation_id ="
        " (SELECT conversation_id FROM sessions WHERE id = ?1) WHERE session_id = ?1",
        (session_id,),
    )
