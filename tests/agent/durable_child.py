"""A process that begins one turn and kills itself at the place it is told, or stands still there.

The model's next word follows from the messages it is sent, so whoever goes on with the turn asks
the same model. Also used as a module: `new_agent` gives the parent such an agent.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, calls, say
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry

PLACES = ("before the model", "first tool", "second tool", "last request", "after the answer")

Reached = Callable[[str], None]


def next_step(request: ModelRequest) -> Any:
    """Two marks and a look, one after the other; then an answer that counts what is known."""
    results = [m["content"] for m in request.messages if m["role"] == "tool"]
    if not results:
        return calls([Call("mark", {"name": "a"}), Call("look"), Call("mark", {"name": "b"})])
    known = sum(result.startswith("marked") for result in results)
    return say(f"{known} of 2 marks are certain.")


def new_agent(db: SessionDB, folder: Path, reached: Reached = lambda _: None) -> AIAgent:
    def mark(context: ToolContext, name: str) -> str:
        with (folder / "marks").open("a") as file:
            file.write(name + "\n")
        reached("first tool" if name == "a" else "second tool")
        return f"marked {name}"

    def look(context: ToolContext) -> str:
        with (folder / "looks").open("a") as file:
            file.write("look\n")
        return "seen"

    def asked(request: ModelRequest) -> Any:
        last = request.messages[-1]["role"]
        reached("before the model" if last == "user" else "last request")
        return next_step(request)

    registry = Registry(
        [
            tool(toolset="test", effect="effectful")(mark),
            tool(toolset="test", effect="none")(look),
        ]
    )
    return AIAgent(ScriptedModel(itertools.repeat(asked)), db=db, session_id="s", tools=registry)


def main(folder: Path, place: str, way: str) -> None:
    def reached(now: str) -> None:
        if now == place:
            print("there", flush=True)
            os.kill(os.getpid(), signal.SIGKILL if way == "die" else signal.SIGSTOP)

    with SessionDB(folder / "state.db") as db:
        result = new_agent(db, folder, reached).run_conversation("Mark twice.")
        reached("after the answer")
        print(f"superseded {result['superseded']} {result['final_response']}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
