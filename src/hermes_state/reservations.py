"""Limits that hold: a model call is reserved before it is made, and counts from then on.

One transaction adds up what was spent and what is reserved, and inserts the reservation, with what
the call can cost at most, only if every limit has something left. So of all calls that run at once,
in any number of processes, at most the one that met the limit goes beyond it. The step that stores
the call puts its real cost in the reservation's place.

A reservation lives as long as the lease of its turn; that of a call beside turns has a time of its
own. If its process is gone, nobody knows whether the call was made. It is lost, and stays counted
as what it could have cost: a process that is killed again and again must not get calls for nothing.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hermes_base.process import is_gone, this_process

from .dialect import Connection, row, rows, value
from .lineage import SUB_AGENT
from .model_calls import LOST, RESERVED, ModelCall, insert_call, new_call_id
from .owners import owned, person_of
from .turns import TURN_RUNNING, Lease, is_ownerless, require_lease

Subject = Literal["person", "chat", "job"]
Unit = Literal["dollars", "tokens"]
Period = Literal["day", "month"]

WARN_AT = 0.8
"""The share of a limit at which is warned."""
_COLUMNS: dict[str, str] = {"person": "user_id", "chat": "session_key", "job": "job"}
_KEY = "limit"


class Limit(NamedTuple):
    """How much somebody may use in a day or a month, by UTC."""

    subject: Subject
    name: str | None
    """The person's, chat's or job's; None is the operator."""
    unit: Unit
    period: Period
    most: float


class LimitUse(NamedTuple):
    """How much of a limit is used."""

    limit: Limit
    spent: float
    reserved: float
    """What the calls that run can take at most."""
    ends_at: float
    """When the period ends, in seconds since 1970."""


class CallReserved(NamedTuple):
    """The call may be made."""

    id: str
    warnings: list[LimitUse]
    """Limits of which nobody was told in this period that they are nearly used up."""


class CallRefused(NamedTuple):
    """The call may not be made."""

    use: LimitUse | None
    """The limit that is reached; None if too many turns run at once."""
    may_pass: bool
    """Whether it is only what runs now that leaves no room: worth another try when that ended."""


def period_of(period: Period, now: float) -> tuple[float, float, str]:
    """When the current period began and when it ends, and its name."""
    at = time.gmtime(now)
    if period == "day":
        began = float(calendar.timegm((at.tm_year, at.tm_mon, at.tm_mday, 0, 0, 0)))
        return began, began + 86_400, time.strftime("%Y-%m-%d", at)
    began = float(calendar.timegm((at.tm_year, at.tm_mon, 1, 0, 0, 0)))
    following = (at.tm_year + at.tm_mon // 12, at.tm_mon % 12 + 1, 1, 0, 0, 0)
    return began, float(calendar.timegm(following)), time.strftime("%Y-%m", at)


def reserve_call(
    conn: Connection,
    session_id: str | None,
    call: ModelCall,
    limits: Iterable[Limit],
    *,
    lease: Lease | None = None,
    seconds: float | None = None,
    turns_at_once: int | None = None,
    owner: str | None = None,
) -> CallReserved | CallRefused:
    """Reserve a call with what it can take at most, if every limit has something left.

    Under a `lease` the reservation lives as long as that; otherwise for `seconds`. `turns_at_once`
    is how many turns of the session's owner may be making calls, this one included. Without a
    session it is a call of `owner`'s, outside of any conversation. Raises LeaseLostError if the
    turn is another process's by now.
    """
    if lease is not None:
        require_lease(conn, lease)
    now = conn.now()
    _give_up_dead(conn, now)
    if turns_at_once is not None and lease is not None:
        user_id = value(conn, "SELECT user_id FROM sessions WHERE id = ?", (session_id,))
        if count_other_turns(conn, person_of(user_id), lease.conversation_id) >= turns_at_once:
            return CallRefused(None, may_pass=True)
    uses = list_limit_uses(conn, limits, now)
    for use in uses:
        if use.spent + use.reserved >= use.limit.most and not _is_noted(conn, "waived", use, now):
            return CallRefused(use, may_pass=use.spent < use.limit.most)
    call_id = new_call_id(conn)
    insert_call(conn, session_id, call._replace(id=call_id), owner)
    conn.execute(
        f"UPDATE model_calls SET outcome = '{RESERVED}', process = ?, fence = ?, expires_at = ?"
        " WHERE id = ?",
        (
            this_process(),
            None if lease is None else lease.fence,
            now + (seconds or 0) if lease is None else None,
            call_id,
        ),
    )
    near = [use for use in uses if WARN_AT * use.limit.most <= use.spent < use.limit.most]
    return CallReserved(call_id, [use for use in near if _note(conn, "warned", use, now)])


def settle_call(
    conn: Connection, session_id: str | None, call: ModelCall, owner: str | None = None
) -> None:
    """Store how a call ended that has led to nothing else to store."""
    insert_call(conn, session_id, call, owner)


def waive_limit(conn: Connection, use: LimitUse) -> None:
    """Let calls go on beyond a limit until its period ends: the operator wants it."""
    _note(conn, "waived", use, conn.now())


def list_limit_uses(
    conn: Connection, limits: Iterable[Limit], now: float | None = None
) -> list[LimitUse]:
    """How much of each limit is used in the current period."""
    now = conn.now() if now is None else now
    uses = []
    sums: dict[tuple[Subject, str | None, Period], Mapping[str, Any]] = {}
    for limit in limits:
        began, ends_at, _ = period_of(limit.period, now)
        about = (limit.subject, limit.name, limit.period)
        if about not in sums:
            sums[about] = _sums(conn, limit, began)
        spent, reserved = sums[about][limit.unit], sums[about][f"reserved_{limit.unit}"]
        uses.append(LimitUse(limit, spent, reserved, ends_at))
    return uses


_COST = "COALESCE(assumed_cost_usd, cost_usd, 0)"
_USED = f"FILTER (WHERE outcome <> '{RESERVED}')"
_RUNS = f"FILTER (WHERE outcome = '{RESERVED}')"


def _sums(conn: Connection, limit: Limit, began: float) -> Mapping[str, Any]:
    column, name = _COLUMNS[limit.subject], limit.name
    is_person = limit.subject == "person"
    which, values = owned(column, person_of(name)) if is_person else (f" AND {column} = ?", (name,))
    sums = row(
        conn,
        f"SELECT COALESCE(SUM({_COST}) {_USED}, 0) AS dollars,"
        f" COALESCE(SUM({_COST}) {_RUNS}, 0) AS reserved_dollars,"
        f" COALESCE(SUM(input_tokens + output_tokens) {_USED}, 0) AS tokens,"
        f" COALESCE(SUM(input_tokens + output_tokens) {_RUNS}, 0) AS reserved_tokens"
        f" FROM model_calls WHERE made_at >= ?{which}",
        (began, *values),
    )
    assert sums is not None
    return {name: float(total) for name, total in sums.items()}


def _give_up_dead(conn: Connection, now: float) -> None:
    """Mark the reservations as lost whose turn is abandoned or over, or whose time has passed."""
    reserved = rows(
        conn,
        "SELECT c.id, c.process, c.fence AS held_under, c.expires_at, t.state, t.owner, t.fence,"
        " t.heartbeat_at FROM model_calls c LEFT JOIN turns t"
        f" ON t.conversation_id = c.conversation_id WHERE c.outcome = '{RESERVED}'",
    )
    dead = [call["id"] for call in reserved if _is_dead(call, now)]
    if dead:
        conn.executemany(
            f"UPDATE model_calls SET outcome = '{LOST}', expires_at = NULL"
            f" WHERE id = ? AND outcome = '{RESERVED}'",
            [(call_id,) for call_id in dead],
        )


def _is_dead(call: Mapping[str, Any], now: float) -> bool:
    if call["held_under"] is None:
        process = str(call["process"] or "")
        return now > (call["expires_at"] or 0) or is_gone(process, this_boot=True)
    is_held = (
        call["state"] == TURN_RUNNING
        and call["fence"] == call["held_under"]
        and call["owner"] == call["process"]
    )
    return not is_held or is_ownerless(call, now)


def count_other_turns(conn: Connection, owner: str, conversation_id: str) -> int:
    """How many turns of a person have made or reserved a call and go on, in other conversations."""
    now = conn.now()
    of_session, values = owned("s.user_id", owner)
    of_call, _ = owned("c.user_id", owner)
    turns = rows(
        conn,
        "SELECT t.state, t.owner, t.heartbeat_at FROM turns t"
        " JOIN sessions s ON s.id = t.session_id"
        f" WHERE t.state = '{TURN_RUNNING}' AND t.conversation_id <> ?{of_session}"
        f" AND s.source <> '{SUB_AGENT}' AND EXISTS (SELECT 1 FROM model_calls c"
        f" WHERE c.made_at >= t.started_at AND c.conversation_id = t.conversation_id{of_call})",
        (conversation_id, *values, *values),
    )
    return sum(not is_ownerless(turn, now) for turn in turns)


def _note(conn: Connection, what: str, use: LimitUse, now: float) -> bool:
    """Note something about a limit for its period; False if that was noted already."""
    head, period = _note_key(what, use, now)
    conn.execute(
        "INSERT INTO state_meta (key, value) VALUES (?1, ?2)"
        " ON CONFLICT (key) DO UPDATE SET value = ?2 WHERE state_meta.value <> ?2",
        (head, period),
    )
    return conn.changes() > 0


def _is_noted(conn: Connection, what: str, use: LimitUse, now: float) -> bool:
    head, period = _note_key(what, use, now)
    noted: str | None = value(conn, "SELECT value FROM state_meta WHERE key = ?", (head,))
    return noted == period


def _note_key(what: str, use: LimitUse, now: float) -> tuple[str, str]:
    limit = use.limit
    parts: Sequence[str] = (_KEY, what, limit.subject, limit.unit, limit.period, limit.name or "")
    # A limit that was changed is another one: what was said of the old does not hold for it.
    return ":".join(parts), f"{period_of(limit.period, now)[2]} {limit.most:g}"
