"""A process that works towards a goal until nothing waits, and dies at a chosen write."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.goals import SYSTEM, advance_stalled
from agent.model import ModelRequest
from agent.request import TakenOver, WaitingNotes
from agent.scripted import ScriptedModel, Step, say
from agent.threads import run_to_end
from hermes_state import SessionDB


def answer(request: ModelRequest) -> Step:
    """Work, or as a judge find the goal met once three steps were taken."""
    if request.system != SYSTEM:
        return say("worked")
    met = "true" if request.messages[0]["content"].count("assistant: worked") >= 3 else "false"
    return say(f'{{"met": {met}, "reason": "counted"}}')


def main(path: Path, die_at: int) -> None:
    """Go on until nothing waits; killed after that write if it is not 0."""
    writes = 0
    write = SessionDB._execute_write

    def counted(self: SessionDB, *args: Any, **kwargs: Any) -> Any:
        nonlocal writes
        writes += 1
        result = write(self, *args, **kwargs)
        if writes == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with SessionDB(path) as db:
        SessionDB._execute_write = counted  # type: ignore[method-assign]
        model = ScriptedModel([answer] * 60)
        agent = AIAgent(model, db=db, session_id="s", auxiliary=Auxiliary(lambda: model))
        for row in db.list_abandoned_turns("s"):
            taken = db.take_over_turn(row["conversation_id"], row["fence"])
            if taken is not None:
                run_to_end(agent.run(TakenOver(taken)))
                agent.goals.wait(30)
        advance_stalled(db)
        while db.has_notes("s"):
            run_to_end(agent.run(WaitingNotes()))
            agent.goals.wait(30)
        agent.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
