"""What clients of several gateways sent and saw, with the moment of each event.

Clients are the people in chats, programs that use the API, the model, and whatever tools act upon.
None of them can see into a gateway or its store, and nothing else is written down here but which
faults the test has made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

FOREVER = float("inf")


class Said(NamedTuple):
    """A person has sent a message to a chat, or a program a request."""

    at: float
    chat: str
    name: str


class Shown(NamedTuple):
    """A gateway has put a text into a chat, or answered a request with it."""

    at: float
    chat: str
    text: str
    replica: str


class Thought(NamedTuple):
    """A gateway has asked the model for the next step of a turn."""

    at: float
    replica: str
    name: str
    """The last of the user's messages."""
    step: int
    """How many steps of the turn the model was shown."""
    asked: tuple[str, ...]
    """All of the user's messages, in order."""
    answered: tuple[str, ...]
    """Those of them that the model was shown an answer to."""
    results: dict[str, str]
    """By the mark of a call in this turn: its result, as the model was shown it."""


class Effect(NamedTuple):
    """A tool has done something that cannot be taken back."""

    at: float
    replica: str
    mark: str


@dataclass
class Poll:
    """A gateway has asked a platform for messages, and waits for them until it is answered."""

    replica: str
    begun: float
    ended: float = FOREVER


@dataclass
class Fault:
    """What was done to a replica, or to the database (`replica` is empty)."""

    at: float
    kind: str
    replica: str = ""
    ended: float = FOREVER


@dataclass
class History:
    """Everything, in the order in which it happened."""

    said: list[Said] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def say(self, chat: str, name: str) -> None:
        """A message or a request is on its way."""
        self.said.append(Said(time.monotonic(), chat, name))

    def show(self, chat: str, text: str, replica: str) -> None:
        """A text has reached its reader."""
        self.shown.append(Shown(time.monotonic(), chat, text, replica))

    def effect(self, replica: str, mark: str) -> None:
        """A tool has acted."""
        self.effects.append(Effect(time.monotonic(), replica, mark))

    @contextmanager
    def poll(self, replica: str) -> Iterator[Poll]:
        """A poll, for as long as it is open."""
        poll = Poll(replica, time.monotonic())
        self.polls.append(poll)
        try:
            yield poll
        finally:
            poll.ended = time.monotonic()

    @contextmanager
    def fault(self, kind: str, replica: str = "") -> Iterator[Fault]:
        """A fault, for as long as it lasts."""
        fault = Fault(time.monotonic(), kind, replica)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.ended = time.monotonic()

    def of_chat(self, chat: str) -> str:
        """What happened in one chat, line by line, for whoever looks for a cause."""
        lines: list[tuple[float, str]] = []
        names = set()
        for said in self.said:
            if said.chat == chat:
                names.add(said.name)
                lines.append((said.at, f"said {said.name}"))
        lines += [(s.at, f"{s.replica} shows {s.text!r}") for s in self.shown if s.chat == chat]
        lines += [
            (t.at, f"{t.replica} asks the model: {t.name}, step {t.step}, results {t.results}")
            for t in self.thoughts
            if t.name in names
        ]
        lines += [
            (e.at, f"{e.replica} does {e.mark}") for e in self.effects if e.mark[:-1] in names
        ]
        begin, end = (min(lines)[0], max(lines)[0]) if lines else (0.0, 0.0)
        for fault in self.faults:
            if fault.at <= end and fault.ended >= begin - 5:
                lines.append((fault.at, f"FAULT {fault.kind} {fault.replica}"))
                lines.append((fault.ended, f"fault {fault.kind} {fault.replica} is over"))
        previous = ""
        for poll in self.polls:
            if poll.begun <= end and poll.ended >= begin - 5 and poll.replica != previous:
                lines.append((poll.begun, f"{poll.replica} polls"))
                previous = poll.replica
        return "\n".join(f"{at - begin:9.3f}  {text}" for at, text in sorted(lines))

    def to_json(self) -> str:
        """All of it, for a file."""
        rows: dict[str, Any] = {
            "said": [event._asdict() for event in self.said],
            "shown": [event._asdict() for event in self.shown],
            "thoughts": [event._asdict() for event in self.thoughts],
            "effects": [event._asdict() for event in self.effects],
            "polls": [asdict(event) for event in self.polls],
            "faults": [asdict(event) for event in self.faults],
        }
        return json.dumps(rows)
