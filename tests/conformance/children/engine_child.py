"""The engine in a process of its own, in the home it is given; does what lines of JSON say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.events import Event, TurnStarted
from gateway import session_context
from hermes_state import SessionDB

from .child_side import count_writes, scripted_model, scripted_tools


def say(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


class Engine:
    """Does one thing after the other."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.db = SessionDB(home / "state.db")
        self.asked = ""

    def agent(self) -> AIAgent:
        """An agent that goes on with the conversation."""
        return AIAgent(
            scripted_model(),
            db=self.db,
            session_id="s",
            tools=scripted_tools(self.home),
            on_event=self.on_event,
            compression_timeout=1.0,
        )

    def on_event(self, event: Event) -> None:
        """A turn that has begun has its question on disk."""
        if isinstance(event, TurnStarted):
            say(accepted=self.asked)

    def ask(self, name: str) -> None:
        """One turn."""
        self.asked = name
        result = self.agent().run_conversation(name)
        assert not result["failed"], result["error"]
        say(answered=name)

    def recover(self) -> None:
        """Close what a crash left open."""
        self.db.close_open_turn("s")
        say(done=True)

    def fork(self, at: int, new_id: str) -> None:
        """Branch behind the first `at` messages."""
        ids = [one["id"] for one in self.db.get_messages("s")]
        self.db.branch_session("s", new_id, until_message_id=ids[at - 1])
        say(done=True)

    def take_inbox(self, inbox_id: str) -> None:
        """Try to answer the message that waits."""
        session_context.set_inbox_id(inbox_id)
        say(won=not self.agent().run_conversation("race")["failed"])

    def take_approval(self, approval_id: str, token: str) -> None:
        """Try to decide."""
        say(won=self.db.decide_approval(approval_id, token, "once"))

    def take_compression(self) -> None:
        """Try to compress."""
        say(won=self.agent().compress().compressed)


def main(home: Path) -> None:
    """Serve until killed."""
    count_writes(home)
    engine = Engine(home)
    say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        getattr(engine, order.pop("do"))(**order)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
