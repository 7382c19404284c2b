"""The engine, `agent.AIAgent`, in a child process."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..adapter import SUBJECTS, Death, Race, Talk
from .looking import INBOX_ID, RACE, StoreLook, remember_conversation, store
from .wire import SECONDS, Died, Wire


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
            wire.start_moment()
            wire.send(**order)
            assert wire.receive() == {"done": True}

    def compete(self, home: Path, subject: str, processes: int, death: Death | None) -> Race:
        """Let processes race."""
        order = self._prepare(home, subject)
        claimed = self._race(home, processes, death, order)
        if death is not None:  # whoever was killed had it, perhaps
            self.recover(home)
        return Race(claimed, self.count_taken(home, subject))

    def _race(self, home: Path, processes: int, death: Death | None, order: dict[str, Any]) -> int:
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
                    wire.start_moment()
                    wire.send(**order)
            for wire in racing:
                claimed += self._has_won(wire)
        return claimed

    def cut_off(self, home: Path) -> None:
        """Leave a turn in the middle, in a tool whose outcome nobody will know."""
        self.talk(home, [RACE], Death("tool-after", 1))
        assert self.reached(home)

    @contextlib.contextmanager
    def asleep(self, home: Path, prompt: str) -> Iterator[Callable[[], dict[str, Any]]]:
        """A process that fell asleep in a tool, so long ago that its turn counts as abandoned.

        What is yielded wakes it up, and returns what it says then.
        """
        with Wire(self.program, home, Death("tool-after", 1), "SIGSTOP") as wire:
            wire.receive()
            wire.send(do="ask", name=prompt)
            assert wire.receive() == {"accepted": prompt}
            until = time.monotonic() + SECONDS
            while " T " not in Path(f"/proc/{wire.pid}/stat").read_text():
                assert time.monotonic() < until
                time.sleep(0.005)
            with store(home) as db:
                aged = "UPDATE turns SET heartbeat_at = heartbeat_at - 3600"
                db._execute_write(lambda conn: conn.execute(aged))

            def wake() -> dict[str, Any]:
                os.kill(wire.pid, signal.SIGCONT)
                return wire.receive()

            yield wake

    def _has_won(self, wire: Wire) -> bool:
        with contextlib.suppress(Died):
            while True:
                frame = wire.receive()
                if "won" in frame:
                    return bool(frame["won"])
        return False

    def _prepare(self, home: Path, subject: str) -> dict[str, Any]:
        if subject == "turn":
            self.cut_off(home)
            return {"do": "take_turn"}
        if subject == "inbox":
            with store(home) as db:
                db.accept_message(INBOX_ID, "s", RACE, source="cli")
            return {"do": "take_inbox", "inbox_id": INBOX_ID}
        if subject == "approval":
            approval_id, token = self.ask_leave(home)
            return {"do": "take_approval", "approval_id": approval_id, "token": token}
        self.fill(home)
        return {"do": "take_compression"}
