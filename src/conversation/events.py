"""The numbered event log of each conversation, for its viewers.

Every conversation in which this process runs turns has one log. An event's number is that of the
turn's lease in its upper part and a count in its lower one: it only grows, also when another
process goes on with the turn or runs the next. The newest events are kept within bounds. Whoever
asks for older ones gets a snapshot instead: one event for all the text of the reply that is being
made, those of its tools, and the questions that are open.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from agent.events import (
    Event,
    QuestionAsked,
    QuestionClosed,
    ReasoningStreamed,
    StreamRestarted,
    TextStreamed,
    TurnFinished,
    TurnStarted,
)

TURN_SHIFT = 32
"""Bits of a number that count the events of one turn."""

MAX_EVENTS = 2_000
MAX_CHARACTERS = 1_000_000
"""What is kept of a conversation: so many events, and so much text in them."""

MAX_LOGS = 200
"""Conversations whose events are kept after their turn has ended; the oldest go first."""


class Numbered(NamedTuple):
    """An event and its number."""

    number: int
    event: Event


Subscriber = Callable[[Numbered], None]
"""Gets every event, in the thread in which it happens: it must not wait for anybody."""


class ConversationLog:
    """The events of one conversation in this process; usable by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Numbered] = deque()
        self._characters = 0
        self._subscribers: list[Subscriber] = []
        self._turn: list[Numbered] = []
        """What a snapshot is made of: the turn's beginning and its steps so far."""
        self._pieces: list[Numbered] = []
        """Then the text that is being streamed."""
        self._questions: dict[str, Numbered] = {}
        """What the person is asked now, by its id."""
        self.number = 0
        """Of the newest event."""
        self.is_running = False
        """Whether a turn runs."""

    def publish(self, event: Event) -> None:
        """Number an event, keep it, and hand it to the subscribers."""
        kind = type(event)
        with self._lock:
            if kind is TurnStarted:
                fence = event.fence  # type: ignore[union-attr]
                self.number = max(self.number, fence << TURN_SHIFT)
                self._turn, self._pieces, self.is_running = [], [], True
                self._questions = {}
            self.number += 1
            numbered = Numbered(self.number, event)
            self._keep(numbered)
            if kind is TextStreamed and self._pieces and type(self._pieces[-1].event) is kind:
                self._pieces.append(numbered)  # as most are
            else:
                self._sum_up(numbered)
            # Within the lock: everybody gets them in their order.
            for subscriber in self._subscribers:
                subscriber(numbered)

    def subscribe(self, since: int, subscriber: Subscriber) -> Callable[[], None]:
        """Hand over what came after a number, then everything as it happens; returns how to stop.

        0 is for those who have seen nothing: they get the turn that runs, as a snapshot.
        """
        with self._lock:
            for numbered in self._after(since):
                subscriber(numbered)
            self._subscribers.append(subscriber)
        return lambda: self._remove(subscriber)

    def _remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

    def _after(self, since: int) -> list[Numbered]:
        if since >= self.number:
            return []
        is_kept = bool(self._kept) and since >= self._kept[0].number - 1
        if since and is_kept:
            return [numbered for numbered in self._kept if numbered.number > since]
        self._join_pieces()
        if not self.is_running:
            return []
        return sorted([*self._turn, *self._questions.values()], key=lambda event: event.number)

    def _keep(self, numbered: Numbered) -> None:
        self._kept.append(numbered)
        self._characters += _size(numbered.event)
        if len(self._kept) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._kept) > MAX_EVENTS or (
            self._characters > MAX_CHARACTERS and len(self._kept) > 1
        ):
            self._characters -= _size(self._kept.popleft().event)

    def _sum_up(self, numbered: Numbered) -> None:
        """Keep what a snapshot needs: pieces of text that follow each other are one event there."""
        event = numbered.event
        if isinstance(event, TextStreamed | ReasoningStreamed):
            if self._pieces and type(self._pieces[-1].event) is not type(event):
                self._join_pieces()
            self._pieces.append(numbered)
        elif isinstance(event, QuestionAsked):
            self._questions[event.request_id] = numbered
        elif isinstance(event, QuestionClosed):
            self._questions.pop(event.request_id, None)
        elif isinstance(event, TurnFinished):
            self._turn, self._pieces, self.is_running = [], [], False
            self._questions = {}
        else:
            if isinstance(event, StreamRestarted):
                self._pieces = []  # what was streamed of the reply is void
            self._join_pieces()
            self._turn.append(numbered)
            if len(self._turn) > MAX_EVENTS:
                del self._turn[1]  # the beginning stays

    def _join_pieces(self) -> None:
        if self._pieces:
            text = "".join(piece.event.text for piece in self._pieces)  # type: ignore[union-attr]
            last = self._pieces[-1]
            self._turn.append(Numbered(last.number, type(last.event)(text)))  # type: ignore
            self._pieces = []


class Logs:
    """The logs of a process, by conversation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: OrderedDict[str, ConversationLog] = OrderedDict()

    def log(self, conversation_id: str) -> ConversationLog:
        """The log of a conversation; begun if there is none."""
        log = self._logs.get(conversation_id)
        if log is not None and log.is_running:
            return log  # it is not forgotten meanwhile
        with self._lock:
            log = self._logs.get(conversation_id)
            if log is None:
                self._forget_oldest()
                log = self._logs[conversation_id] = ConversationLog()
            self._logs.move_to_end(conversation_id)
            return log

    def publish(self, conversation_id: str, event: Event) -> None:
        """Publish an event in a conversation; its log may have been forgotten meanwhile."""
        self.log(conversation_id).publish(event)

    def _forget_oldest(self) -> None:
        idle = [name for name, log in self._logs.items() if not log.is_running]
        for name in idle[: max(0, len(self._logs) + 1 - MAX_LOGS)]:
            if not self._logs[name]._subscribers:
                del self._logs[name]


def _size(event: Event) -> int:
    if type(event) is TextStreamed:
        return len(event.text)
    return sum(len(field) for field in event if isinstance(field, str))
