"""The goal of a conversation: what is worked towards, step by step, until it is met.

A goal stands beside the sessions (`goal:<session>` in `state_meta`, carried over by a rotation). A
step is a note named after goal and number (`goal:<id>:<step>`), stored in the transaction that
raises the number as it was read: of any number of processes that judge, one goes on. A message of a
person pauses the goal in the transaction that stores the message.

Whoever judges is the goal's `owner`. An active goal without a step that waits, without a running
turn, and whose owner is gone, is stalled: the next process goes on with it (`advance_goal`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from hermes_base.process import is_gone, is_of_this_machine, this_process

from .dialect import Connection, tuples, value
from .lineage import get_compression_tip
from .notes import add_note
from .outbox import add_delivery
from .owners import Owner, owned, stored_owner
from .replicas import list_alive
from .sessions import get_meta, set_meta

ACTIVE, PAUSED, MET, SPENT = "active", "paused", "met", "spent"
PREFIX = "goal:"
SPOKE = "you wrote something"


class Subgoal(TypedDict):
    """A part of a goal."""

    text: str
    reached: bool


def step_id(goal: Mapping[str, Any]) -> str:
    """The name of a goal's step in the inbox."""
    return f"{PREFIX}{goal['id']}:{goal['step']}"


def get_goal(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """The goal of a session's conversation, whatever became of it; None without one."""
    return _read(get_meta(conn, PREFIX + get_compression_tip(conn, session_id)))


def _read(raw: str | None) -> dict[str, Any] | None:
    if not raw:
        return None
    try:
        kept = json.loads(raw)
    except ValueError:
        kept = raw  # plain text, as other programs may have written it
    if not isinstance(kept, dict):
        kept = {"goal": raw}
    # What other programs wrote has no step here: it goes on when it is resumed.
    started = {"id": "", "step": 0, "first_step": 0, "began_at": 0.0, "owner": None, "by": None}
    status = PAUSED if "id" not in kept else ACTIVE
    return {**started, "goal": "", "status": status, "criteria": "", "reason": "",
            "turns": None, "usd": None, "seconds": None, "subgoals": [], **kept}  # fmt: skip


def set_goal(
    conn: Connection,
    session_id: str,
    text: str,
    prompt: str,
    *,
    criteria: str = "",
    turns: int | None = None,
    usd: float | None = None,
    seconds: float | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Give a conversation a goal, in place of another, and store its first step.

    It may take so many turns, dollars and seconds; any number without them. `by` is who wants it:
    its steps are that person's, also where several share the conversation.
    """
    tip = get_compression_tip(conn, session_id)
    _withdraw(conn, get_goal(conn, tip))
    goal = {
        "id": os.urandom(6).hex(), "goal": text, "criteria": criteria, "status": ACTIVE,
        "step": 0, "reason": "", "turns": turns, "usd": usd, "seconds": seconds,
        "by": stored_owner(by),
    }  # fmt: skip
    return _begin(conn, tip, goal, prompt)


def resume_goal(
    conn: Connection, session_id: str, prompt: str, *, by: str | None = None
) -> dict[str, Any] | None:
    """Go on with a goal that does not go on by itself, with its whole budget; None without one.

    From then on its steps are those of whoever wants that.
    """
    tip = get_compression_tip(conn, session_id)
    goal = get_goal(conn, tip)
    if goal is None or goal["status"] == ACTIVE:
        return None
    goal |= {"id": goal["id"] or os.urandom(6).hex(), "by": stored_owner(by)}
    return _begin(conn, tip, goal, prompt)


def _begin(conn: Connection, tip: str, goal: dict[str, Any], prompt: str) -> dict[str, Any]:
    goal |= {"status": ACTIVE, "reason": "", "first_step": goal["step"], "began_at": conn.now()}
    return _next_step(conn, tip, goal, prompt)


def _next_step(conn: Connection, tip: str, goal: dict[str, Any], prompt: str) -> dict[str, Any]:
    goal |= {"step": goal["step"] + 1, "owner": this_process()}
    _store(conn, tip, goal)
    add_note(conn, step_id(goal), tip, prompt, user_id=goal["by"])
    return goal


def pause_goal(conn: Connection, session_id: str, reason: str) -> bool:
    """Pause a goal that goes on; what waits of it is withdrawn. False if none goes on."""
    tip = get_compression_tip(conn, session_id)
    goal = get_goal(conn, tip)
    if goal is None or goal["status"] != ACTIVE:
        return False
    _withdraw(conn, goal)
    _store(conn, tip, goal | {"status": PAUSED, "reason": reason})
    return True


def set_subgoals(conn: Connection, session_id: str, subgoals: Iterable[Subgoal]) -> bool:
    """Replace the parts of a conversation's goal; False without a goal. What goes on is shown them
    with its next step."""
    tip = get_compression_tip(conn, session_id)
    goal = get_goal(conn, tip)
    if goal is None:
        return False
    _store(conn, tip, goal | {"subgoals": [dict(subgoal) for subgoal in subgoals]})
    return True


def clear_goal(conn: Connection, session_id: str) -> bool:
    """Drop a conversation's goal; False if there is none."""
    tip = get_compression_tip(conn, session_id)
    goal = get_goal(conn, tip)
    if goal is None:
        return False
    _withdraw(conn, goal)
    set_meta(conn, PREFIX + tip, "")
    return True


def judge_goal(
    conn: Connection,
    session_id: str,
    goal_id: str,
    step: int,
    *,
    is_met: bool,
    reason: str,
    prompt: str,
    reached: Iterable[int] = (),
    tell: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Settle a step by what the judge said; None if another was first, or it goes on no more.

    `reached` are the places of the subgoals that the judge finds reached; they stay so.

    A goal that is not met goes on with `prompt`, unless its budget is spent. `tell` is the chat
    that hears of its end.
    """
    tip = get_compression_tip(conn, session_id)
    goal = _current(conn, tip, goal_id, step)
    if goal is None:
        return None
    places = set(reached)
    goal["subgoals"] = [
        {**subgoal, "reached": subgoal["reached"] or place in places}
        for place, subgoal in enumerate(goal["subgoals"], 1)
    ]
    spent = "" if is_met else _spent(conn, tip, goal)
    if not is_met and not spent:
        return _next_step(conn, tip, goal | {"reason": reason}, prompt)
    goal |= {"status": MET if is_met else SPENT, "reason": reason if is_met else spent}
    _store(conn, tip, goal)
    if tell is not None:
        add_delivery(conn, f"say:{step_id(goal)}", in_words(goal), **tell)
    return goal


def advance_goal(
    conn: Connection, session_id: str, goal_id: str, step: int, prompt: str
) -> dict[str, Any] | None:
    """Go on with a stalled goal, unjudged; None if another was first."""
    tip = get_compression_tip(conn, session_id)
    goal = _current(conn, tip, goal_id, step)
    if goal is None or not _is_stalled(conn, tip, goal, list_alive(conn)):
        return None
    spent = _spent(conn, tip, goal)
    if spent:
        _store(conn, tip, goal | {"status": SPENT, "reason": spent})
        return None
    return _next_step(conn, tip, goal, prompt)


def own_goal(conn: Connection, session_id: str, goal_id: str, step: int) -> bool:
    """This process judges a step; False if that is over."""
    tip = get_compression_tip(conn, session_id)
    goal = _current(conn, tip, goal_id, step)
    if goal is not None:
        _store(conn, tip, goal | {"owner": this_process()})
    return goal is not None


def list_goals(conn: Connection, owner: Owner) -> list[dict[str, Any]]:
    """The goals of somebody's conversations, whatever became of them; with `session_id`."""
    condition, values = owned("s.user_id", owner)
    kept = tuples(
        conn,
        "SELECT s.id, m.value FROM state_meta m JOIN sessions s ON m.key = 'goal:' || s.id"
        f" WHERE m.key >= '{PREFIX}' AND m.key < 'goal;' AND m.value <> ''{condition}"
        " ORDER BY s.id",
        values,
    )
    goals = [(str(tip), _read(raw)) for tip, raw in kept]
    return [{**goal, "session_id": tip} for tip, goal in goals if goal is not None]


def list_stalled_goals(conn: Connection) -> list[dict[str, Any]]:
    """Goals that should go on and do not, because their process is gone; with `session_id`."""
    active = list_active_goals(conn)
    alive = list_alive(conn) if active else set()
    return [goal for goal in active if _is_stalled(conn, goal["session_id"], goal, alive)]


def list_active_goals(conn: Connection) -> list[dict[str, Any]]:
    """The goals that go on, each with the `session_id` of its conversation's tip."""
    kept = tuples(
        conn,
        f"SELECT key, value FROM state_meta WHERE key >= '{PREFIX}' AND key < 'goal;'"
        " AND value <> ''",
    )
    goals = [(str(key)[len(PREFIX) :], _read(raw)) for key, raw in kept]
    return [
        {**goal, "session_id": tip}
        for tip, goal in goals
        if goal is not None and goal["status"] == ACTIVE
    ]


def note_person_spoke(conn: Connection, tip: str) -> None:
    """Pause the goal of a conversation in which a person's message is being stored."""
    raw = get_meta(conn, PREFIX + tip)
    if raw and f'"{ACTIVE}"' in raw:
        pause_goal(conn, tip, SPOKE)


def note_step_taken(conn: Connection, tip: str) -> None:
    """The turn that begins is this process's, and so is what becomes of the goal after it."""
    goal = _read(get_meta(conn, PREFIX + tip))
    if goal is not None and goal["status"] == ACTIVE:
        _store(conn, tip, goal | {"owner": this_process()})


def in_words(goal: Mapping[str, Any]) -> str:
    """The state of a goal in one line."""
    shown = {ACTIVE: "🎯 Goal, step {step}", PAUSED: "⏸️ Goal paused", MET: "✅ Goal reached",
             SPENT: "⌛ Goal not reached"}  # fmt: skip
    head = shown.get(str(goal["status"]), str(goal["status"])).format(step=goal["step"])
    parts = goal.get("subgoals") or []
    reached = sum(bool(subgoal["reached"]) for subgoal in parts)
    counted = f", {reached} of {len(parts)} parts reached" if parts else ""
    return f"{head}: {goal['goal']}{counted}" + (f" ({goal['reason']})" if goal["reason"] else "")


def _current(conn: Connection, tip: str, goal_id: str, step: int) -> dict[str, Any] | None:
    """The goal, if it goes on and is at that step."""
    goal = get_goal(conn, tip)
    is_it = goal is not None and (goal["id"], goal["step"]) == (goal_id, step)
    return goal if is_it and goal is not None and goal["status"] == ACTIVE else None


def _is_stalled(conn: Connection, tip: str, goal: Mapping[str, Any], alive: set[str]) -> bool:
    owner = str(goal["owner"])
    if owner in alive or (is_of_this_machine(owner) and not is_gone(owner, this_boot=True)):
        return False
    is_waiting = value(
        conn, "SELECT 1 FROM inbox WHERE id = ? AND state = 'waiting'", (step_id(goal),)
    )
    is_running = value(
        conn,
        "SELECT 1 FROM turns t JOIN sessions s ON s.conversation_id = t.conversation_id"
        " WHERE s.id = ? AND t.state = 'running'",
        (tip,),
    )
    return not is_waiting and not is_running


def _spent(conn: Connection, tip: str, goal: Mapping[str, Any]) -> str:
    """Which budget of a goal is spent, in words; empty if there is some left."""
    taken = goal["step"] - goal["first_step"]
    if goal["turns"] is not None and taken >= goal["turns"]:
        return f"{taken} turns were taken"
    seconds = conn.now() - goal["began_at"]
    if goal["seconds"] is not None and seconds >= goal["seconds"]:
        return f"{seconds / 3600:.1f} hours went by"
    if goal["usd"] is None:
        return ""
    cost = value(
        conn,
        "SELECT COALESCE(SUM(COALESCE(c.cost_usd, c.assumed_cost_usd)), 0.0) FROM model_calls c"
        " JOIN sessions s ON s.id = c.session_id WHERE c.made_at >= ? AND s.conversation_id ="
        " (SELECT conversation_id FROM sessions WHERE id = ?)",
        (goal["began_at"], tip),
    )
    return f"${cost:.2f} were spent" if cost >= goal["usd"] else ""


def _withdraw(conn: Connection, goal: Mapping[str, Any] | None) -> None:
    """Drop the step of a goal that waits."""
    if goal is not None:
        conn.execute(
            "UPDATE inbox SET state = 'dropped', content = NULL, updated_at = ?"
            " WHERE id = ? AND state = 'waiting'",
            (conn.now(), step_id(goal)),
        )


def _store(conn: Connection, tip: str, goal: Mapping[str, Any]) -> None:
    set_meta(conn, PREFIX + tip, json.dumps(dict(goal), ensure_ascii=False))
