"""The engine in a process of its own, in the home it is given; does what lines of JSON say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.events import Event, TurnStarted
from agent.request import Question, TakenOver
from conversation.abandoned import take_over_turn
from hermes_state import SessionDB

from .child_side import count_writes, scripted_model, scripted_tools, tell


class Engine:
    """Does one thing after the other."""

    def __init__(self, home: Path) -> None:
        self._reaper = count_writes(home)
        self.home = home
        self.db = SessionDB(home / "state.db")
        self.asked = ""

    def agent(self) -> AIAgent:
        """An agent that goes on with the conversation."""
        return AIAgent(
            scripted_model(),
            db=self.db,
            session_id="s",
            tools=scripted_tools(self.home, self._reaper),
            on_event=self.on_event,
            compression_timeout=1.0,
        )

    def on_event(self, event: Event) -> None:
        """A turn that has begun has its question on disk."""
        if isinstance(event, TurnStarted) and self.asked:
            tell(accepted=self.asked)

    def ask(self, name: str) -> None:
        """One turn."""
        self.go_on()
        self.asked = name
        result = self.agent().run_conversation(name)
        if result["superseded"]:
            tell(superseded=name)
            return
        assert not result["failed"], result["error"]
        tell(answered=name)
        self.asked = ""

    def go_on(self) -> bool:
        """Take over what a dead process left, as a front end does before it asks anything."""
        taken_over = False
        for turn in self.db.list_abandoned_turns():
            taken = take_over_turn(self.db, turn, AgentSettings())
            if taken is not None:
                outcome = self.agent().run_blocking(TakenOver(taken))
                assert not outcome.failed, outcome.error
                taken_over = True
        return taken_over

    def recover(self) -> None:
        """What a front end does at its start."""
        self.go_on()
        tell(done=True)

    def fork(self, at: int, new_id: str) -> None:
        """Branch behind the first `at` messages."""
        ids = [one["id"] for one in self.db.get_messages("s")]
        self.db.branch_session("s", new_id, until_message_id=ids[at - 1])
        tell(done=True)

    def take_turn(self) -> None:
        """Try to finish the turn that was cut off."""
        tell(won=self.go_on())

    def take_inbox(self, inbox_id: str) -> None:
        """Try to answer the message that waits."""
        tell(won=not self.agent().run_blocking(Question("race", (inbox_id,))).failed)

    def take_approval(self, approval_id: str, token: str) -> None:
        """Try to decide."""
        tell(won=self.db.decide_approval(approval_id, token, "once"))

    def take_compression(self) -> None:
        """Try to compress."""
        result = self.agent().compress()
        # One that comes late may compress what the first one left: that is another compression.
        tell(won=result.compressed and result.old_session_id == "s")


def main(home: Path) -> None:
    """Serve until killed."""
    engine = Engine(home)
    tell(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        getattr(engine, order.pop("do"))(**order)
