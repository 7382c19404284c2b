"""Abandoned turns in `hermes chat`: taken over or closed, or named where they are elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conversation import abandoned
from hermes_state import plain_text

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from hermes_state import SessionDB, TakenTurn

CLOSED = 'The last answer was cut off. What it had done is kept; say "continue" to go on.'
NAMED = 40
"""Characters of a question that stand for a conversation without a title."""


def say(text: str) -> None:
    """A line for the person, apart from the answer."""
    print(text, file=sys.stderr, flush=True)


def take_over(
    db: SessionDB, turn: Mapping[str, Any], settings: AgentSettings, workspace: str
) -> TakenTurn | None:
    """Take over an abandoned turn or close it, and say which."""
    taken = abandoned.take_over_turn(db, turn, settings, workspace)
    if taken is not None:
        say(abandoned.GOING_ON)
        from agent.abandoned_work import end_abandoned_work
        from agent.home import hermes_home

        # Processes of the abandoned turn must not run beside the new one.
        end_abandoned_work(hermes_home(), db)
    elif not abandoned.runs_elsewhere(db, str(turn["session_id"])):
        say(CLOSED)
    return taken


def abandoned_elsewhere(db: SessionDB, settings: AgentSettings) -> str | None:
    """A line about another conversation whose answer was cut off not long ago; None without one."""
    freshness = settings.gateway_auto_continue_freshness
    turns = [
        turn
        for turn in db.list_abandoned_turns()
        if turn["source"] == "cli" and turn["age"] < freshness
    ]
    if not turns:
        return None
    last = turns[-1]
    more = f" ({len(turns) - 1} more were cut off too)" if len(turns) > 1 else ""
    return (
        f"The answer in {_name(db, last)} was cut off. Go on with it:"
        f" hermes chat --resume {last['session_id']}{more}"
    )


def _name(db: SessionDB, turn: dict[str, Any]) -> str:
    if turn["title"]:
        return f"“{turn['title']}”"
    tip = db.get_compression_tip(turn["session_id"])
    asked = [message["content"] for message in db.get_messages(tip) if message["role"] == "user"]
    text = " ".join(plain_text(asked[-1]).split()) if asked else "a conversation"
    return f"“{text[:NAMED]}…”" if len(text) > NAMED else f"“{text}”"
