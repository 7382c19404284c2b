"""The events of a running turn, for its watchers: terminal, chat adapter, API client, test."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from .model import Usage

log = logging.getLogger(__name__)


class TurnStarted(NamedTuple):
    """The user's message is stored; the model is about to be asked."""

    session_id: str
    turn_id: str
    fence: int = 0
    """The number of the turn's lease; 0 without a store."""


class TextStreamed(NamedTuple):
    """A piece of the answer."""

    text: str


class ReasoningStreamed(NamedTuple):
    """A piece of the model's reasoning."""

    text: str


class StreamRestarted(NamedTuple):
    """What was streamed of this reply is void; it is tried again in `delay` seconds."""

    reason: str
    delay: float
    attempt: int


class ToolStarted(NamedTuple):
    """A tool is about to run; its call is stored."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolProgressed(NamedTuple):
    """A running tool has something to show."""

    call_id: str
    text: str


class ToolFinished(NamedTuple):
    """A tool's result is stored."""

    call_id: str
    name: str
    result: str
    seconds: float
    is_error: bool


class ReplyFinished(NamedTuple):
    """One model call is complete and stored; more may follow in the same turn."""

    text: str
    tool_calls: int
    usage: Usage


class Steered(NamedTuple):
    """A message was added to the running turn."""

    text: str


class Compressing(NamedTuple):
    """The conversation has grown too long and is about to be compressed; this may take a while."""

    session_id: str
    messages: int
    tokens: int
    """Of the messages, roughly."""


class Compressed(NamedTuple):
    """That is over; the conversation goes on in `session_id`."""

    session_id: str
    old_session_id: str
    in_place: bool
    method: str
    """"summary", "fallback" (without a model), or empty: left as it was, for `reason`."""
    before_tokens: int
    after_tokens: int
    reason: str = ""


class Noticed(NamedTuple):
    """Something a person should know, in one line."""

    text: str
    to_chat: bool = False
    """Whether a chat is sent it too, which is shown only the answer otherwise."""


class QuestionAsked(NamedTuple):
    """The turn waits for the person's answer. From any thread."""

    request_id: str
    kind: str
    """approval, clarify or password."""
    text: str
    """What is asked, or why."""
    choices: list[str]
    expires_at: float
    """When the question counts as denied for want of an answer; 0 if unknown."""
    platform: str
    """Where it is asked."""
    subject: str = ""
    """What an approval is wanted for: a command, without its secrets."""
    answerable: bool = False
    """Whether whoever watches may answer it too; any other is answered where it is asked."""


class QuestionClosed(NamedTuple):
    """A question was answered, has expired or was withdrawn. From any thread."""

    request_id: str
    choice: str = ""
    """What an approval was answered with; nobody having answered is "deny"."""


class BackgroundFinished(NamedTuple):
    """Background work has ended; the model reads of it with its next step or turn.

    It may come at any time, from another thread, also while no turn runs.
    """

    session_id: str
    delegation_id: str
    status: str
    """completed, failed or interrupted."""
    text: str


class NoteStored(NamedTuple):
    """A note was stored for the conversation: a running turn reads it at its next step.

    It may come at any time, from another thread. Where no turn runs, a `WaitingNotes` request
    runs one.
    """

    session_id: str


class TitleSet(NamedTuple):
    """A conversation was named. Comes after its turn, from another thread."""

    session_id: str
    title: str


class ReviewFinished(NamedTuple):
    """Something was kept for later conversations; `text` says what, in one line.

    Comes after a turn, from another thread.
    """

    text: str


class TurnFinished(NamedTuple):
    """The turn is over and stored; `status` is complete, interrupted or error."""

    session_id: str
    status: str
    text: str


Event = (
    TurnStarted
    | TextStreamed
    | ReasoningStreamed
    | StreamRestarted
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | ReplyFinished
    | Steered
    | Compressing
    | Compressed
    | Noticed
    | QuestionAsked
    | QuestionClosed
    | BackgroundFinished
    | NoteStored
    | TitleSet
    | ReviewFinished
    | TurnFinished
)


Watcher: TypeAlias = Callable[[Event], None]
"""Hears events as they happen, from any thread; it must return soon."""


def watch_text(show: Callable[[str], None]) -> Watcher:
    """A watcher that hears the answer's text as it comes, and nothing else."""

    def watch(event: Event) -> None:
        if type(event) is TextStreamed:
            show(event.text)

    return watch


def watch_all(*watchers: Watcher | None) -> Watcher:
    """A watcher that passes events on to several, in their order; None is left out.

    A watcher that fails is logged and does not affect the others: a front end that cannot show
    something must not cost the user the turn.
    """
    present: list[Watcher] = []
    for watcher in watchers:
        if isinstance(watcher, functools.partial) and watcher.func is tell:
            present += watcher.args[0]  # several already
        elif watcher is not None:
            present.append(watcher)
    return functools.partial(tell, present)


def tell(watchers: Iterable[Watcher], event: Event) -> None:
    """Tell each watcher of an event; see `watch_all`."""
    for watcher in watchers:
        try:
            watcher(event)
        except Exception:
            log.exception("A watcher failed on %s", type(event).__name__)
