"""What a message does that comes while a turn runs in its conversation.

In mode "steer" the turn reads it at its next step. In mode "interrupt" it joins the turn as long as
that has not said anything, so that both are answered; after that the turn makes way for it. In mode
"queue", and wherever the turn has ended meanwhile, it waits: the store has it, so it is run next.
"""

from __future__ import annotations

from typing import Any, Literal

BusyMode = Literal["queue", "steer", "interrupt"]
Taken = Literal["steered", "interrupting", "queued"]


def steer(agent: Any, text: str, inbox_id: str) -> bool:
    """Let a running turn read a message that the store has accepted; False if none runs."""
    give = getattr(agent, "steer", None)
    return give is not None and bool(give(text, inbox_id))


def join(agent: Any, content: Any, inbox_id: str) -> bool:
    """Let a turn that has not said anything answer a message too; False if it is too late."""
    give = getattr(agent, "join", None)
    return give is not None and bool(give(content, inbox_id))


def make_way(agent: Any) -> bool:
    """Stop the running turn for the sake of a message that waits; False if none runs."""
    stop = getattr(agent, "make_way", None) or getattr(agent, "interrupt", None)
    return stop is not None and bool(stop())


def offer(agent: Any, mode: str, content: Any, inbox_id: str) -> Taken:
    """Steer, join or interrupt the running turn as the mode says; returns the message's fate."""
    if mode == "steer" and isinstance(content, str) and steer(agent, content, inbox_id):
        return "steered"
    if mode == "interrupt":
        if join(agent, content, inbox_id):
            return "steered"
        if make_way(agent):
            return "interrupting"
    return "queued"
