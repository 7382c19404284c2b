"""A process that steers its own turns until it is killed; prints what was confirmed."""

import itertools
import sys
from pathlib import Path

from agent.agent import AIAgent
from agent.scripted import ScriptedModel, call, say
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry


def main(folder: str, first: int) -> None:
    db = SessionDB(Path(folder) / "state.db")
    running: list[tuple[AIAgent, int]] = []

    @tool(toolset="test", effect="none")
    def work(context: ToolContext) -> str:
        """Work, and be told something meanwhile."""
        agent, number = running[-1]
        assert agent.steer(f"steered {number}")
        print(f"confirmed {number}", flush=True)
        return "worked"

    for number in itertools.count(first):
        agent = AIAgent(
            ScriptedModel([call("work"), say("done")]),
            db=db,
            session_id="s",
            tools=Registry([work]),
        )
        running.append((agent, number))
        print(f"asking {number}", flush=True)
        agent.run_conversation(f"question {number}")
        print(f"answered {number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
