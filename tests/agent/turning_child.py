"""A process that runs turns until it is killed; prints each answer once it is acknowledged."""

import itertools
import sys
from pathlib import Path

from agent.agent import AIAgent
from agent.scripted import Call, ScriptedModel, calls, say
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry


def main(folder: str, first: int) -> None:
    journal = Path(folder) / "effects"

    def leave_mark(context: ToolContext, mark: str) -> str:
        with journal.open("a") as file:
            file.write(mark + "\n")
        return f"marked {mark}"

    def echo(context: ToolContext, text: str) -> str:
        return text

    registry = Registry(
        [
            tool(toolset="test", effect="effectful")(leave_mark),
            tool(toolset="test", effect="none")(echo),
        ]
    )
    db = SessionDB(Path(folder) / "state.db")
    for number in itertools.count(first):
        steps = [
            calls([Call("leave_mark", {"mark": f"{number}a"}), Call("echo", {"text": "x"})]),
            calls([Call("echo", {"text": "y"}), Call("echo", {"text": "z"})], text="Hm."),
            say(f"answer {number}"),
        ]
        agent = AIAgent(ScriptedModel(steps), db=db, session_id="s", tools=registry)
        print(f"asking {number}", flush=True)
        result = agent.run_conversation(f"question {number}")
        assert result["final_response"] == f"answer {number}", result
        print(f"answered {number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
