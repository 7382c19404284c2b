"""What a turn is asked to do: everything it needs, in one frozen value.

A turn begins with a person's question, with the notes that wait for the conversation, or is taken
over from a process that is gone. The caller hands the request to `AIAgent.run`; nothing else
reaches the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hermes_state import PlatformLease, TakenTurn
from tools.base import Mode

from .model import Message

Content: TypeAlias = str | list[dict[str, Any]]
"""The content of a message: text, or a list of parts."""


@dataclass(frozen=True, slots=True)
class DeliverTo:
    """Where the answers of a turn are delivered to, as the outbox takes them."""

    id: str
    """The turn's name; each answer is delivered once under a name made from it."""
    to: Mapping[str, Any]
    """The address: session_key, platform, chat_id, thread_id."""
    under: PlatformLease | None = None
    """The lease under which the chat is ours: without it the turn is not begun."""

    def wants(self, answer: str) -> bool:
        """Whether an answer is delivered: a job may say that nothing is to be said."""
        return not (self.id.startswith("job:") and answer.lstrip().startswith("[SILENT]"))


@dataclass(frozen=True, slots=True)
class Question:
    """A message of a person, or of a program that asks in a person's place."""

    content: Content
    inbox_ids: tuple[str, ...] = ()
    """The rows of the inbox that it was accepted under; several if it came in parts. They are
    marked as taken in the step that stores the message. Empty if it was not accepted before."""
    history: tuple[Message, ...] | None = None
    """What the caller holds of the conversation; messages that are not stored yet are stored."""
    deliver_to: DeliverTo | None = None
    note: str = ""
    """Sent with the question, never stored."""
    instructions: str = ""
    """Part of the system prompt of a session that begins with them; in a session that has a prompt
    without them, sent with the question, never stored."""
    mode: Mode | None = None
    """The conversation's mode from this question on; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class WaitingNotes:
    """The notes that wait for the conversation, as a turn of their own (see `agent.notes`)."""

    deliver_to: DeliverTo | None = None


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A turn of a process that is gone, to be brought to its end.

    Tool results that were stored are used; calls that were not run yet are run; then the model is
    asked as in any turn.
    """

    taken: TakenTurn
    """What `SessionDB.take_over_turn` returned."""

    @property
    def deliver_to(self) -> DeliverTo | None:
        """Where its answers are delivered to, under names of their own for each attempt."""
        target = self.taken.deliver_to
        if target is None:
            return None
        return DeliverTo(f"{target['id']}~{self.taken.attempts}", target["to"])


TurnRequest: TypeAlias = Question | WaitingNotes | TakenOver
