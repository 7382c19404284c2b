"""Commands for work beside the conversation: background tasks, and a goal that is remembered."""

from __future__ import annotations

import json
import sys
from typing import Any

from .results import Exec, Result, Send
from .surface import CommandError, Surface
from .table import command

CATEGORY = "While it works"


@command("background", category=CATEGORY, aliases=("bg", "btw"), args="<task>", slow=True)
def background(surface: Surface, args: str) -> str:
    """Have a task done beside this conversation; its result comes when it is there."""
    if not args:
        raise CommandError("What is to be done? For instance: /background Find the newest release")
    started = surface.build_agent().delegation.start([{"goal": args}])
    return f"Started {started}. /agents shows it, /stop {started} stops it."


@command("agents", category=CATEGORY, aliases=("tasks",))
def agents(surface: Surface, args: str) -> str:
    """List background tasks and processes of this conversation."""
    agent = surface.agent
    if agent is not None:
        agent.settle_background()
    lines = [
        _line(delegation, surface.db.clock)
        for delegation in surface.db.list_delegations(surface.session_id)
    ]
    processes = sys.modules.get("tools.processes.background")  # not imported: there are none
    if agent is not None and processes is not None:
        lines += [
            f"{process.id}  {process.status()}  {processes.short(process.command)}"
            for process in processes.table_of(agent.workspace).all()
        ]
    return "\n".join(lines) if lines else "Nothing runs in the background."


def _line(task: dict[str, Any], now: float) -> str:
    seconds = (task["completed_at"] or now) - task["dispatched_at"]
    goals = " ".join("; ".join(task["goals"]).split())
    news = "" if task["state"] == "running" or task["delivery_state"] == "delivered" else ", new"
    shown = goals if len(goals) <= 70 else goals[:69] + "…"
    return f"{task['delegation_id']}  {task['state']}{news}, {seconds:.0f} s  {shown}"


# The goal

ACTIVE, PAUSED = "active", "paused"


def _goals(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(word, "") for word in ("show", "pause", "resume", "clear") if word.startswith(typed)]


@command("goal", category=CATEGORY, args="[text | show | pause | resume | clear]", complete=_goals)
def goal(surface: Surface, args: str) -> Result:
    """Send a goal as a message and remember it; nothing judges it or goes on by itself yet."""
    current = read_goal(surface)
    if args in ("", "show", "status"):
        if current is None:
            return Exec("There is no goal. Set one with /goal TEXT.")
        return Exec(f"Goal ({current['status']}): {current['goal']}")
    if args not in ("pause", "resume", "clear"):
        if surface.db.get_session(surface.session_id) is None:
            surface.build_agent().ensure_session()
        _write_goal(surface, args, ACTIVE)
        notice = f"Goal: {args}\nIt is sent once. Nothing checks yet whether it is reached; ask on."
        return Send(f"Work towards this goal until it is reached: {args}", notice)
    if current is None:
        raise CommandError("There is no goal. Set one with /goal TEXT.")
    if args == "clear":
        surface.db.set_meta(_key(surface), "")
        return Exec("The goal is dropped.")
    _write_goal(surface, current["goal"], PAUSED if args == "pause" else ACTIVE)
    if args == "pause":
        return Exec("The goal is paused. /goal resume sends it again.")
    return Send(f"Go on towards this goal until it is reached: {current['goal']}", "Sent again.")


def read_goal(surface: Surface) -> dict[str, str] | None:
    """The conversation's goal (`goal`, `status`), or None."""
    raw = surface.db.get_meta(_key(surface))
    if not raw:
        return None
    try:
        value = json.loads(raw)
    except ValueError:
        value = raw  # plain text, as other programs may have written it
    if not isinstance(value, dict):
        value = {"goal": raw}
    return {"goal": str(value.get("goal") or raw), "status": str(value.get("status") or ACTIVE)}


def _write_goal(surface: Surface, text: str, status: str) -> None:
    value = json.dumps({"goal": text, "status": status}, ensure_ascii=False)
    surface.db.set_meta(_key(surface), value)


def _key(surface: Surface) -> str:
    return f"goal:{surface.db.get_compression_tip(surface.session_id)}"
