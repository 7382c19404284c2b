"""What was used when: sums for charts, and the conversations behind them."""

from __future__ import annotations

from typing import Any, Literal

from hermes_state import EVERYONE, OPERATOR

from .. import shapes_reading as wire
from ..clients import READ
from ..rpc import Call, RpcError, method

BAD_DAYS = 4017
By = Literal["model", "person", "source", "tool"]


@method("insights.activity", scope=READ, slow=True)
def activity(call: Call, days: int = 30, by: By = "model") -> wire.Activity:
    """What was used per day and by model, person, source or tool; tools, sources, and messages by
    hour and weekday (0 is Sunday)."""
    if not 0 < days <= 3650:
        raise RpcError(BAD_DAYS, f"days must be from 1 to 3650, not {days}.")
    since, user_id = call.db.clock - days * 86_400, _user_id(call)
    found = call.db.activity_by(since, by, user_id)
    times = call.db.tool_times(since, user_id)
    nothing: dict[str, Any] = {"seconds": None, "unknown": 0}
    return {
        "days_back": days,
        "by": by,
        "messages": found["messages"],
        "spent": found["spent"],
        "counted": found["counted"],
        "names": _names(call, found) if by == "person" else {},
        "times": found["times"],
        "tools": [{**tool, **times.get(tool["name"], nothing)} for tool in found["tools"]],
        "sources": found["sources"],
    }


@method("insights.day", scope=READ, slow=True)
def day(call: Call, day: str, by: By = "model", group: str | None = None) -> wire.Day:
    """The conversations of a day (YYYY-MM-DD), the dearest first; or those that a model, person,
    source or tool of it had to do with."""
    try:
        found = call.db.list_day(day, by, group, _user_id(call))
    except (ValueError, OverflowError) as error:
        raise RpcError(BAD_DAYS, f"{day[:40]!r} is no day. Write it as 2026-11-18.") from error
    shown: list[wire.DayConversation] = []
    for row in found:
        tip = call.mine.tip(row["id"])
        session = call.mine.session(tip)
        if session is None:  # deleted since; what was spent stays spent
            continue
        shown.append(
            {
                "id": tip,
                "title": str(session["title"] or ""),
                "source": str(session["source"] or ""),
                "messages": int(row["messages"]),
                "tools": int(row["tools"]),
                "calls": int(row["calls"]),
                "tokens": int(row["tokens"]),
                "cost_usd": float(row["cost_usd"]),
            }
        )
    return {"day": day, "conversations": shown}


def _names(call: Call, found: dict[str, Any]) -> dict[str, str]:
    """How the persons are called that the groups name by their ids."""
    groups = {part["group"] for part in (*found["spent"], *found["counted"])}
    named = {group: call.db.get_person(group or OPERATOR) for group in groups}
    return {group: person.name for group, person in named.items() if person is not None}


def _user_id(call: Call) -> str | None:
    owner = call.mine.owner
    return None if owner is EVERYONE else str(owner)
