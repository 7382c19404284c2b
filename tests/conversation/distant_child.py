"""A machine of its own: a process with another home that runs one turn over a shared store.

Arguments: the home, the store's address, what its model does, "deaf" if it is to hear no
notification, and the session. Its model streams so many pieces of text, one for every line of its
input; or, told to "echo", calls a tool that waits for a line, and then answers after another with
the last thing that it was told. Told a path, it wants to delete that, and asks. It prints what the
turn is given to read, then how the turn has ended, and what it has said.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.model import ModelRequest
from agent.outcome import TurnOutcome
from agent.request import Question, TurnRequest
from agent.scripted import ScriptedModel, Step, call, say
from conversation import broadcast
from conversation.door import Door, Origin
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from hermes_state import AsyncSessionDB, SessionDB
from hermes_state.server_wake import ServerWake
from tools.base import ApprovalRequest, Choice, ToolContext, tool
from tools.registry import Registry
from tools.terminal.tool import terminal

SESSION = "s"


class OneTurn(Door[str]):
    """A front end with one message."""

    key = "far"

    def __init__(self, agent: AIAgent, session_id: str) -> None:
        self.agent = agent
        self._session_id = session_id
        self.outcome: TurnOutcome | None = None

    def session_id(self) -> str:
        return self._session_id

    async def next(self) -> str | None:
        return None

    async def prepare(self, work: str) -> Any:
        return self.agent

    def request(self, work: str) -> TurnRequest:
        return Question(work)

    def origin(self, work: str) -> Origin:
        return Origin("memory", self._session_id)

    async def deliver(self, work: str, outcome: TurnOutcome) -> None:
        self.outcome = outcome


def swallow_notifications() -> None:
    """Lose every notification of the server, as a connection may."""
    ServerWake._hear = lambda self, heard: None  # type: ignore[method-assign]


async def read_line() -> None:
    """Wait for a line of the input."""
    await asyncio.to_thread(sys.stdin.readline)


def steps_of(doing: str) -> list[Any]:
    """What the model does."""
    if doing.startswith("/"):
        return [call("terminal", command=f"rm -rf {doing}"), say("Done.")]
    if doing != "echo":
        pieces = [(read_line, f"piece {number}. ") for number in range(int(doing))]
        return [say(*(move for piece in pieces for move in piece))]

    def answer(request: ModelRequest) -> Step:
        said = [message["content"] for message in request.messages if message["role"] == "user"]
        return say(read_line, f"re: {said[-1]}")

    return [call("wait"), answer, answer]


@tool(toolset="test", effect="none")
async def wait(context: ToolContext) -> str:
    """Wait for a line."""
    await read_line()
    return "waited"


class Asker:
    """Asks, and is answered only from elsewhere."""

    def approve(self, request: ApprovalRequest) -> Choice:
        return request.await_choice(threading.Event(), lambda: None)

    def clarify(self, question: str, choices: list[str]) -> str:
        raise NotImplementedError


class PrintingAgent(AIAgent):
    """Prints what its turn is given to read."""

    def steer(self, text: str, inbox_id: str | None = None, fence: int | None = None) -> bool:
        is_given = super().steer(text, inbox_id, fence)
        print("given" if is_given else "late", text, flush=True)
        return is_given


async def main(home: Path, address: str, doing: str, hearing: str, session_id: str) -> None:
    """Run the turn."""
    os.environ["HERMES_HOME"] = str(home)
    broadcast.GRACE_SECONDS = 3.0  # a test waits until it is over
    if hearing == "deaf":
        swallow_notifications()
    db = SessionDB(home / "state.db", server=address)
    model = ScriptedModel(steps_of(doing))
    agent = PrintingAgent(
        model, db=db, session_id=session_id, tools=Registry([wait, terminal]), asker=Asker()
    )
    door = OneTurn(agent, session_id)
    conversations = Conversations(
        AsyncSessionDB(db), AgentSettings, lambda: EventHooks(home / "hooks")
    )
    await conversations.work(door, "Tell me")
    assert door.outcome is not None
    print(door.outcome.status, door.outcome.text, flush=True)
    await asyncio.Event().wait()  # as a gateway does; until it is killed


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:6]))
