"""A machine of its own: a process with another home that runs one turn over a shared store.

Arguments: the home, the store's address, how many pieces of text its model streams, and "deaf" if
it is to hear no notification. It streams a piece for every line of its input, and prints how the
turn has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.outcome import TurnOutcome
from agent.request import Question, TurnRequest
from agent.scripted import ScriptedModel, say
from conversation.door import Door, Origin
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from hermes_state import AsyncSessionDB, SessionDB
from hermes_state.server_wake import ServerWake

SESSION = "s"


class OneTurn(Door[str]):
    """A front end with one message."""

    key = "far"

    def __init__(self, agent: AIAgent) -> None:
        self.agent = agent
        self.outcome: TurnOutcome | None = None

    def session_id(self) -> str:
        return SESSION

    async def next(self) -> str | None:
        return None

    async def prepare(self, work: str) -> Any:
        return self.agent

    def request(self, work: str) -> TurnRequest:
        return Question(work)

    def origin(self, work: str) -> Origin:
        return Origin("memory", SESSION)

    async def deliver(self, work: str, outcome: TurnOutcome) -> None:
        self.outcome = outcome


def swallow_notifications() -> None:
    """Lose every notification of the server, as a connection may."""
    ServerWake._hear = lambda self, heard: None  # type: ignore[method-assign]


async def main(home: Path, address: str, pieces: int, hearing: str) -> None:
    """Run the turn."""
    os.environ["HERMES_HOME"] = str(home)
    if hearing == "deaf":
        swallow_notifications()
    db = SessionDB(home / "state.db", server=address)

    async def line() -> None:
        await asyncio.to_thread(sys.stdin.readline)

    moves: list[Any] = []
    for number in range(pieces):
        moves += [line, f"piece {number}. "]
    model = ScriptedModel([say(*moves)])
    door = OneTurn(AIAgent(model, db=db, session_id=SESSION))
    conversations = Conversations(
        AsyncSessionDB(db), AgentSettings, lambda: EventHooks(home / "hooks")
    )
    await conversations.work(door, "Tell me")
    assert door.outcome is not None
    print(door.outcome.status, flush=True)
    await asyncio.Event().wait()  # as a gateway does; until it is killed


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
