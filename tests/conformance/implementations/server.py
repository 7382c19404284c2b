"""The session server, `tui_gateway`, spoken to in JSON-RPC over its pipes."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from pathlib import Path
from typing import Any

from ..adapter import SUBJECTS, Death, Race, Talk
from ..script import answer
from .looking import (
    INBOX_ID,
    LONG_TALK,
    RACE,
    StoreLook,
    conversation,
    remember_conversation,
    store,
)
from .wire import SECONDS, Died, Wire

CONFIG = {
    "model": {"default": "scripted", "provider": "custom", "base_url": "http://127.0.0.1:9/v1"},
    "auxiliary": {"title_generation": {"enabled": False}, "compression": {"timeout": 1}},
    "memory": {"enabled": False},
    # A prompt that comes while a recovered one is being answered must not interrupt it.
    "display": {"busy_input_mode": "queue"},
}


class Refused(Exception):
    """The server answered with an error."""


class Session:
    """A client of one server, in one conversation."""

    def __init__(self, wire: Wire, home: Path) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self.home = home
        self.sid = ""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result; what happens meanwhile is in `events`."""
        number = next(self._ids)
        self._wire.send(jsonrpc="2.0", id=number, method=method, params=params)
        while True:
            frame = self._wire.receive()
            if frame.get("id") == number:
                if "error" in frame:
                    raise Refused(frame["error"]["message"])
                result: dict[str, Any] = frame["result"]
                return result
            self.events.append(frame)

    def open(self) -> None:
        """Go on with the conversation, or begin it if it has not begun."""
        key = conversation(self.home)
        if key is not None:
            try:
                self.sid = self.call("session.resume", session_id=key)["session_id"]
                return
            except Refused:
                pass  # nothing of it was ever accepted, so there is nothing to go on with
        opened = self.call("session.create", cwd=str(self.home))
        self.sid = opened["session_id"]
        remember_conversation(self.home, opened["session_key"])

    def answers(self) -> list[str]:
        """The answers that were told so far."""
        return [
            frame["params"]["payload"]["text"]
            for frame in self.events
            if frame.get("method") == "event" and frame["params"]["type"] == "message.complete"
        ]

    def await_answer(self, name: str) -> None:
        """Wait for a prompt's own answer."""
        while answer(name) not in self.answers():
            self.events.append(self._wire.receive())

    def await_idle(self) -> None:
        """Wait until no turn runs or waits."""
        until = time.monotonic() + SECONDS
        while self.call("session.activate", session_id=self.sid)["running"]:
            assert time.monotonic() < until, "the turn does not end"
            time.sleep(0.005)


class Server(StoreLook):
    """One server after the other, one client each."""

    name = "session server"
    forks_anywhere: bool | None = False
    subjects: tuple[str, ...] = SUBJECTS
    program = "tests.conformance.children.server_child"

    def begin(self, home: Path) -> None:
        """A configuration."""
        (home / "config.yaml").write_text(json.dumps(CONFIG))  # JSON is YAML

    def talk(self, home: Path, prompts: list[str], death: Death | None = None) -> Talk:
        """Submit the prompts, one after the other."""
        talk = Talk([], [])
        with Wire(self.program, home, death) as wire, contextlib.suppress(Died):
            session = Session(wire, home)
            session.open()
            for prompt in prompts:
                wire.start_moment()
                session.call("prompt.submit", session_id=session.sid, text=prompt)
                talk.accepted.append(prompt)
                session.await_answer(prompt)
                talk.answered.append(prompt)
        return talk

    def recover(self, home: Path, death: Death | None = None) -> None:
        """Open the conversation, and let what waits be run."""
        with Wire(self.program, home, death) as wire, contextlib.suppress(Died):
            session = Session(wire, home)
            session.open()
            session.await_idle()

    def fork(self, home: Path, at: int, death: Death | None = None) -> None:
        """Branch at the end, which is where `at` must be."""
        with Wire(self.program, home, death) as wire, contextlib.suppress(Died):
            session = Session(wire, home)
            session.open()
            session.await_idle()
            session.call("session.branch", session_id=session.sid)

    def compete(self, home: Path, subject: str, processes: int, death: Death | None) -> Race:
        """As many servers on one home, told to begin one right after the other."""
        method, params = self._prepare(home, subject)
        opens = subject in ("turn", "inbox")
        claimed = 0
        with contextlib.ExitStack() as stack:
            wires = [
                stack.enter_context(Wire(self.program, home, None if number else death))
                for number in range(processes)
            ]
            racing: list[tuple[Wire, Session]] = []
            for wire in wires:
                session = Session(wire, home)
                with contextlib.suppress(Died):
                    if opens:
                        wire.receive()  # it is ready; opening the session is the race
                    else:
                        session.open()
                    racing.append((wire, session))
            for wire, session in racing:
                if not opens:
                    params["session_id"] = session.sid
                with contextlib.suppress(Died):
                    wire.start_moment()
                    wire.send(jsonrpc="2.0", id=1000, method=method, params=params)
            for wire, session in racing:
                with contextlib.suppress(Died):
                    claimed += self._has_won(wire, session, subject)
            if opens:
                self._await_turns(home)
                claimed = len(self._asked(home) - ({wires[0].pid} if death else set()))
        if death is not None:  # whoever was killed had it, perhaps
            self.recover(home)
        return Race(claimed, self.count_taken(home, subject))

    def _prepare(self, home: Path, subject: str) -> tuple[str, dict[str, Any]]:
        key = str(conversation(home))
        if subject == "turn":
            self.talk(home, [RACE], Death("tool-after", 1))
            assert self.reached(home)
            (home / "asked").unlink()
            return "session.resume", {"session_id": key}
        if subject == "inbox":
            with store(home) as db:
                db.accept_message(INBOX_ID, key, RACE, source="tui")
            return "session.resume", {"session_id": key}
        if subject == "approval":
            approval_id, _ = self.ask_leave(home)
            return "approval.respond", {"request_id": approval_id, "choice": "once"}
        self.fill(home)
        return "session.compress", {}

    def _has_won(self, wire: Wire, session: Session, subject: str) -> bool:
        while True:
            frame = wire.receive()
            if frame.get("id") == 1000:
                break
            session.events.append(frame)
        result = frame.get("result") or {}
        if subject == "approval":
            return bool(result.get("resolved"))
        # One that comes late may compress what the first one left: that is another compression.
        first = result.get("before_messages", 0) >= 2 * LONG_TALK
        return subject == "compression" and first and result["status"] == "compressed"

    def _await_turns(self, home: Path) -> None:
        """Wait until no message waits, and no turn is run by anybody who lives."""
        until = time.monotonic() + SECONDS
        with store(home) as db:
            name = str((db.get_session(str(conversation(home))) or {})["conversation_id"])
            while db.list_waiting() or (
                (db.get_turn(name) or {})["state"] == "running"
                and not db.list_abandoned_turns(name)
            ):
                assert time.monotonic() < until, "the turn does not end"
                time.sleep(0.005)

    def _asked(self, home: Path) -> set[int]:
        """The processes that have asked the model what the race is about."""
        file = home / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        asked = [line.split() for line in lines]
        return {int(pid) for pid, name in asked if name == RACE}
