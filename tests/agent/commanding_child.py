"""A process whose agent runs a command that does not end, and says when it is under way."""

import sys
from pathlib import Path

from agent.agent import AIAgent
from agent.events import Event, ToolProgressed
from agent.scripted import ScriptedModel, call
from hermes_state import SessionDB
from tools.base import Workspace
from tools.registry import Registry
from tools.terminal.tool import terminal


def main(folder: Path) -> None:
    def watch(event: Event) -> None:
        if isinstance(event, ToolProgressed) and "under way" in event.text:
            print("under way", flush=True)

    command = f"sleep 987 & setsid sleep 988 & echo $$ > {folder}/pid; echo under way; sleep 989"
    db = SessionDB(folder / "state.db")
    agent = AIAgent(
        ScriptedModel([call("terminal", command=command)]),
        db=db,
        session_id="s",
        tools=Registry([terminal]),
        workspace=Workspace(folder, folder),
        on_event=watch,
    )
    agent.run_conversation("Wait for it")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
