"""The replica of `bench.scaling_events`: it runs one turn whose text says when it was streamed.

Arguments: the home, the store's address, and how many pieces. A line of its input begins the turn,
another one streams the pieces, at random moments.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.model import Chunk, Finished, ModelRequest, TextDelta, Usage
from agent.request import Question, TurnRequest
from agent.scripted import ScriptedModel
from conversation.door import Door, Origin
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from hermes_state import AsyncSessionDB, SessionDB

from .scaling_events import SESSION

LONGEST_PAUSE = 0.3


class ClockModel(ScriptedModel):
    """Says what time it is."""

    def __init__(self, pieces: int) -> None:
        super().__init__([])
        self._pieces = pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The moments, as they pass."""
        await asyncio.to_thread(sys.stdin.readline)
        chance = random.Random(1)
        for _ in range(self._pieces):
            await asyncio.sleep(chance.uniform(0.0, LONGEST_PAUSE))
            yield TextDelta(f"{time.time()} ")
        yield Finished("stop", Usage(), self.name)


class OneTurn(Door[str]):
    """A front end with one message."""

    key = "bench"

    def __init__(self, agent: AIAgent) -> None:
        self._agent = agent

    def session_id(self) -> str:
        """Always the same."""
        return SESSION

    async def next(self) -> str | None:
        """Nothing further."""
        return None

    async def prepare(self, work: str) -> Any:
        """The agent."""
        return self._agent

    def request(self, work: str) -> TurnRequest:
        """The message."""
        return Question(work)

    def origin(self, work: str) -> Origin:
        """Nowhere."""
        return Origin("bench", SESSION)


async def main(home: Path, address: str, pieces: int) -> None:
    """Run the turn."""
    db = SessionDB(home / "state.db", server=address)
    door = OneTurn(AIAgent(ClockModel(pieces), db=db, session_id=SESSION))
    conversations = Conversations(
        AsyncSessionDB(db), AgentSettings, lambda: EventHooks(home / "hooks")
    )
    await conversations.work(door, "What time is it?")
    await asyncio.to_thread(sys.stdin.readline)  # its viewers read the last events


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
