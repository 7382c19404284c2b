"""The engine, `agent.AIAgent`, in a child process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ..adapter import SUBJECTS, Death, Race, Talk
from .looking import INBOX_ID, StoreLook, remember_conversation, store
from .wire import Died, Wire


class Engine(StoreLook):
    """One agent, one conversation, called `s`."""

    name = "engine"
    forks_anywhere: bool | None = True
    subjects: tuple[str, ...] = SUBJECTS
    program = "tests.conformance.children.engine_child"

    def begin(self, home: Path) -> None:
        """There is nothing to prepare but the name."""
        remember_conversation(home, "s")

    def _start(self, home: Path, death: Death | None) -> Wire:
        return Wire(self.program, home, death)

    def talk(self, home: Path, prompts: list[str], death: Death | None = None) -> Talk:
        """Submit the prompts, one after the other."""
        talk = Talk([], [])
        with self._start(home, death) as wire, contextlib.suppress(Died):
            assert wire.receive() == {"ready": True}
            for prompt in prompts:
                wire.start_moment()
                wire.send(do="ask", name=prompt)
                while prompt not in talk.answered:
                    frame = wire.receive()
                    talk.accepted.extend(one for one in [frame.get("accepted")] if one)
                    talk.answered.extend(one for one in [frame.get("answered")] if one)
        return talk

    def recover(self, home: Path, death: Death | None = None) -> None:
        """What a front end does at its start."""
        self._order(home, death, do="recover")

    def fork(self, home: Path, at: int, death: Death | None = None) -> None:
        """Branch behind the first `at` messages."""
        self._order(home, death, do="fork", at=at, new_id=os.urandom(6).hex())

    def _order(self, home: Path, death: Death | None, **order: Any) -> None:
        with self._start(home, death) as wire, contextlib.suppress(Died):
            wire.receive()
            wire.send(**order)
            assert wire.receive() == {"done": True}

    def compete(self, home: Path, subject: str, processes: int, death: Death | None) -> Race:
        """Let processes race."""
        order = self._prepare(home, subject)
        claimed = 0
        with contextlib.ExitStack() as stack:
            wires = [
                stack.enter_context(self._start(home, None if number else death))
                for number in range(processes)
            ]
            racing = []
            for wire in wires:
                with contextlib.suppress(Died):
                    wire.receive()
                    racing.append(wire)
            for wire in racing:
                with contextlib.suppress(Died):
                    wire.send(**order)
            for wire in racing:
                claimed += self._has_won(wire)
        return Race(claimed, self.count_taken(home, subject))

    def _has_won(self, wire: Wire) -> bool:
        with contextlib.suppress(Died):
            while True:
                frame = wire.receive()
                if "won" in frame:
                    return bool(frame["won"])
        return False

    def _prepare(self, home: Path, subject: str) -> dict[str, Any]:
        if subject == "inbox":
            with store(home) as db:
                db.accept_message(INBOX_ID, "s", "race", source="cli")
            return {"do": "take_inbox", "inbox_id": INBOX_ID}
        if subject == "approval":
            approval_id, token = self.ask_leave(home)
            return {"do": "take_approval", "approval_id": approval_id, "token": token}
        self.fill(home)
        return {"do": "take_compression"}
