"""A process with background work, to be killed: one that does not end, or one after the other."""

import itertools
import sys
import threading
from pathlib import Path

from agent.agent import AIAgent
from agent.events import BackgroundFinished
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, say
from hermes_state import SessionDB
from tools.base import Workspace
from tools.delegate import delegate_task
from tools.registry import Registry


def main(folder: Path) -> None:
    under_way = threading.Event()
    forever = threading.Event()

    def answer(request: ModelRequest) -> Step:
        if "sub-agent" in request.system:
            return say("half of the", under_way.set, forever.wait, "report")
        if request.messages[-1]["role"] == "tool":
            return say("It runs.")
        return call("delegate_task", goal="count the stars", background=True)

    agent = AIAgent(
        ScriptedModel([answer] * 10),
        db=SessionDB(folder / "state.db"),
        session_id="s",
        tools=Registry([delegate_task]),
        workspace=Workspace(folder, folder),
    )
    agent.run_conversation("Start it")
    under_way.wait()
    print("under way", flush=True)
    forever.wait()


def one_after_the_other(folder: Path, first: int) -> None:
    """Work that ends at once, and turns that are told of it; prints how far it has come."""
    for number in itertools.count(first):
        ended = threading.Event()
        agent = AIAgent(
            ScriptedModel([say(f"report {number}"), say("I see.")]),
            db=SessionDB(folder / "state.db"),
            session_id="s",
            workspace=Workspace(folder, folder),
            on_event=lambda event, ended=ended: (  # type: ignore[misc]
                ended.set() if isinstance(event, BackgroundFinished) else None
            ),
        )
        print(f"starting {number}", flush=True)
        agent.delegation.start([{"goal": f"task {number}"}])
        ended.wait()
        print(f"ended {number}", flush=True)
        agent.run_conversation(f"question {number}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        one_after_the_other(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
