"""Commands for work beside the conversation: background tasks, and a goal."""

from __future__ import annotations

import re
import sys
from typing import Any

from .surface import CommandError, Surface, require_idle
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
        for delegation in surface.here.delegations(surface.session_id)
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

_BUDGETS = {"turns": int, "usd": float, "hours": float}


def _goals(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(word, "") for word in ("status", "pause", "resume", "clear") if word.startswith(typed)]


@command(
    "goal", category=CATEGORY, complete=_goals,
    args="[text [done when: criteria] [--turns N] [--usd N] [--hours N] | status | pause | resume"
    " | clear]",
)  # fmt: skip
def goal(surface: Surface, args: str) -> str:
    """Work towards a goal: it is judged after each turn, and gone on with until it is reached."""
    from agent.goals import part_lines
    from hermes_state.goals import ACTIVE, in_words

    here, session_id = surface.here, surface.session_id
    current = here.goal(session_id)
    word = "status" if args in ("", "show") else args
    if word not in ("status", "pause", "resume", "clear"):
        return _set_goal(surface, args)
    if current is None:
        if word == "status":
            return "There is no goal. Set one with /goal TEXT."
        raise CommandError("There is no goal. Set one with /goal TEXT.")
    if word == "clear":
        here.drop_goal(session_id)
        return "The goal is dropped."
    if word == "pause":
        if not here.rest_goal(session_id, "you paused it"):
            raise CommandError("The goal does not go on now. /goal resume goes on.")
        return "The goal is paused. /goal resume goes on."
    if word == "resume":
        from agent.goals import next_prompt

        prompt = next_prompt(current)
        require_idle(surface)  # it would take the step, and may be somebody else's turn
        if current["status"] == ACTIVE or here.go_on_with_goal(session_id, prompt) is None:
            raise CommandError("The goal goes on already.")
        return "Going on."
    criteria = f"\nReached when: {current['criteria']}" if current["criteria"] else ""
    taken = current["step"] - current["first_step"]
    of = f" of {current['turns']}" if current["turns"] is not None else ""
    parts = "".join(f"\n{line}" for line in part_lines(current["subgoals"]))
    return f"{in_words(current)}{criteria}{parts}\nTurns: {taken}{of}{_spent(current)}"


def _spent(goal: dict[str, Any]) -> str:
    """The rest of a goal's budget, as far as it has one."""
    usd = f", ${goal['usd']:g} at most" if goal["usd"] is not None else ""
    hours = f", {goal['seconds'] / 3600:g} hours at most" if goal["seconds"] is not None else ""
    return usd + hours


MOST_SUBGOALS = 30


@command("subgoal", category=CATEGORY, args="[text | done N | remove N | clear]")
def subgoal(surface: Surface, args: str) -> str:
    """Divide the goal of this conversation into parts: each is worked on and judged."""
    from agent.goals import part_lines

    here, session_id = surface.here, surface.session_id
    goal = here.goal(session_id)
    if goal is None:
        raise CommandError("There is no goal to divide. Set one with /goal TEXT.")
    parts = list(goal["subgoals"])
    word, _, rest = args.partition(" ")
    if not args:
        return "\n".join(part_lines(parts)) or "The goal has no parts. /subgoal TEXT adds one."
    if word == "clear" and not rest:
        parts = []
    elif word in ("done", "remove") and rest.isdecimal():
        place = int(rest) - 1
        if not 0 <= place < len(parts):
            raise CommandError(f"The goal has no part {rest}. /subgoal lists them.")
        if word == "done":
            parts[place] = {**parts[place], "reached": True}
        else:
            del parts[place]
    elif len(parts) >= MOST_SUBGOALS:
        raise CommandError(f"A goal has {MOST_SUBGOALS} parts at most. /subgoal remove N first.")
    else:
        parts.append({"text": " ".join(args.split()), "reached": False})
    here.divide_goal(session_id, parts)
    return "\n".join(part_lines(parts)) or "The goal has no parts any more."


def _set_goal(surface: Surface, args: str) -> str:
    from agent.goals import MOST_HOURS, MOST_TURNS, step_prompt

    budget: dict[str, Any] = {"turns": MOST_TURNS, "usd": None, "hours": MOST_HOURS}
    text = args
    for name, number, whole in re.findall(r"((?<!\S)--(?:turns|usd|hours)) +((\S+))", args):
        try:
            budget[name[2:]] = _BUDGETS[name[2:]](number)
        except ValueError as error:
            raise CommandError(f"{name} wants a number, not {whole!r}.") from error
        text = text.replace(f"{name} {number}", "", 1)
    aim, _, criteria = re.sub(r"(?i)[\s,.;:]*\bdone when:", "\0", text, count=1).partition("\0")
    aim, criteria = aim.strip(), criteria.strip()
    if not aim:
        raise CommandError("What is the goal? For instance: /goal Fix it, done when: tests pass")
    require_idle(surface)  # it would take the first step, and may be somebody else's turn
    if surface.agent is None:
        surface.build_agent()
    if surface.here.session(surface.session_id) is None:
        surface.build_agent().ensure_session()
    surface.here.begin_goal(
        surface.session_id, aim, step_prompt(aim, criteria), criteria=criteria,
        turns=budget["turns"], usd=budget["usd"], seconds=budget["hours"] * 3600,
    )  # fmt: skip
    most = f"{budget['turns']} turns" + (f", ${budget['usd']:g}" if budget["usd"] else "")
    return (
        f"🎯 Goal: {aim}\nIt is worked on until it is reached, or {most} or"
        f" {budget['hours']:g} hours are over. A message of yours pauses it."
    )
