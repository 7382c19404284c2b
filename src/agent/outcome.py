"""The outcome of a turn.

Every outcome has the fields of `Outcome`. The public dict of `AIAgent.run_conversation` is made
from it by `as_dict`, and nowhere else; `outcome_from_dict` reads such a dict back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hermes_state import AlreadyTakenError, LeaseLostError

from .errors import ContextTooLongError, LimitReachedError
from .model import Message, Usage

if TYPE_CHECKING:
    from .loop import Turn

Status = Literal["complete", "interrupted", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What every outcome says."""

    session_id: str
    """The session the conversation is in; a compression may have changed it during the turn."""
    conversation_id: str = ""
    """The conversation's one id for life; empty where that is not known."""
    messages: Sequence[Message] = ()
    """The conversation as models see it, this turn included; not to be changed."""
    api_calls: int = 0
    """Model calls of the turn."""
    usage: Usage | None = None
    """Tokens of the turn; None where that is not known."""
    model: str = ""
    last_prompt_tokens: int = 0
    text: str = ""
    """The answer for the person; empty if there is none."""
    partial: bool = False
    """Whether the text is less than was wanted: cut at its longest length, or out of budget."""
    error: str | None = None
    """What went wrong, in words for the person."""
    limit_reached: bool = False
    """Whether what may be used is used up, and the model was not asked; `error` says until when."""
    unread: tuple[Any, ...] = ()
    """Messages that came too late to be read, where there is no store to keep them."""

    @property
    def completed(self) -> bool:
        """Whether the model came to an answer of its own."""
        return False

    @property
    def failed(self) -> bool:
        """Whether a fault kept the turn from its end."""
        return False

    @property
    def interrupted(self) -> bool:
        """Whether the turn was stopped, by a person or because it is no longer ours."""
        return False

    @property
    def is_silent(self) -> bool:
        """Whether this process shows nothing of it: another process answers, or no note waited."""
        return False

    @property
    def status(self) -> Status:
        """The end in one word, as `TurnFinished` tells it."""
        return "interrupted" if self.interrupted else "error" if self.failed else "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Outcome):
    """The model has answered, or its budget of calls was used up."""

    exhausted: bool = False
    """Whether the budget ended the turn; `text` then says how to go on."""

    @property
    def completed(self) -> bool:
        """Whether the model came to an answer of its own."""
        return not self.exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Outcome):
    """The turn was stopped; what it had done is stored."""

    unstored: bool = False
    """Whether its end could not be stored; `error` says why."""

    @property
    def failed(self) -> bool:
        """Whether a fault kept the turn from its end."""
        return self.unstored

    @property
    def interrupted(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Outcome):
    """The model or something here failed; `error` says what."""

    @property
    def failed(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(Outcome):
    """Another process answers: it has taken the turn over, or has taken the question first."""

    stopped: bool = False
    """Whether the turn was running here when another process took it over."""

    @property
    def failed(self) -> bool:
        """Always: nothing of it is to be shown as an answer."""
        return True

    @property
    def interrupted(self) -> bool:
        """Whether the turn was running here when another process took it over."""
        return self.stopped

    @property
    def is_silent(self) -> bool:
        """Always: the other process reports its outcome."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted(Outcome):
    """Nothing of the request was stored: what waits in the inbox or as a note still waits."""

    reason: Literal["stopped", "refused", "no notes"]
    """A person stopped it while it waited for another turn; it could not be stored or prepared
    (`error` says why); or no note waited, perhaps because another process delivered it."""

    @property
    def failed(self) -> bool:
        """Whether it could not be stored or prepared."""
        return self.reason == "refused"

    @property
    def interrupted(self) -> bool:
        """Whether a person stopped it."""
        return self.reason == "stopped"

    @property
    def is_silent(self) -> bool:
        """Whether no note waited."""
        return self.reason == "no notes"


TurnOutcome: TypeAlias = Answered | Interrupted | Failed | Superseded | NotStarted


def outcome_of(turn: Turn, broken: Exception | None, unread: tuple[Any, ...] = ()) -> TurnOutcome:
    """The outcome of a turn; `broken` is what kept it from coming to its own end."""
    messages = list(turn.journal.messages)
    text = turn.final_response or ""
    if turn.exhausted and messages:
        text = messages[-1]["content"]
    common: dict[str, Any] = {
        "session_id": turn.journal.session_id,
        "conversation_id": turn.journal.seen_conversation or "",
        "messages": messages,
        "api_calls": turn.api_calls,
        "usage": turn.usage,
        "model": turn.model.name,
        "last_prompt_tokens": turn.last_prompt_tokens,
        "text": text,
        "partial": turn.exhausted
        or (turn.final_response is not None and turn.reply.finish_reason == "length"),
        "error": _error(turn, broken),
        "limit_reached": isinstance(turn.error, LimitReachedError),
        "unread": unread,
    }
    if _is_superseded(turn, broken):
        return Superseded(**common, stopped=turn.interrupted)
    if not turn.has_begun:
        return NotStarted(**common, reason="stopped" if turn.interrupted else "refused")
    if turn.interrupted:
        return Interrupted(**common, unstored=broken is not None)
    if broken is not None or turn.error is not None:
        return Failed(**common)
    return Answered(**common, exhausted=turn.exhausted)


def as_dict(outcome: TurnOutcome) -> dict[str, Any]:
    """The outcome as `AIAgent.run_conversation` returns it."""
    has_text = isinstance(outcome, Answered) or bool(outcome.text)
    return {
        "final_response": outcome.text if has_text else None,
        "messages": list(outcome.messages),
        "api_calls": outcome.api_calls,
        "session_id": outcome.session_id,
        "completed": outcome.completed,
        "partial": outcome.partial,
        "failed": outcome.failed,
        "interrupted": outcome.interrupted,
        "superseded": isinstance(outcome, Superseded),
        "error": outcome.error,
        "model": outcome.model,
        "usage": usage_dict(outcome.usage),
        "last_prompt_tokens": outcome.last_prompt_tokens,
        "pending_steering": list(outcome.unread),
    }


def usage_dict(usage: Usage | None) -> dict[str, int]:
    """Tokens by name, as clients get them; empty where they are not known."""
    if usage is None:
        return {}
    return {**usage.as_dict(), "total_tokens": usage.input_tokens + usage.output_tokens}


def outcome_from_dict(result: Mapping[str, Any], session_id: str = "") -> TurnOutcome:
    """The outcome that a dict of `run_conversation` stands for; any of its keys may be missing.

    `session_id` is the session if the dict names none.
    """
    given = result.get("usage")
    usage = None
    if isinstance(given, Mapping) and given:
        usage = Usage(**{name: int(given.get(name) or 0) for name in Usage().as_dict()})
    messages = result.get("messages")
    error = result.get("error")
    common: dict[str, Any] = {
        "session_id": str(result.get("session_id") or session_id),
        "messages": messages if isinstance(messages, list) else (),
        "api_calls": int(result.get("api_calls") or 0),
        "usage": usage,
        "model": str(result.get("model") or ""),
        "last_prompt_tokens": int(result.get("last_prompt_tokens") or 0),
        "text": str(result.get("final_response") or ""),
        "partial": bool(result.get("partial")),
        "error": None if error is None else str(error),
        "unread": tuple(result.get("pending_steering") or ()),
    }
    failed = bool(result.get("failed"))
    if result.get("superseded"):
        return Superseded(**common, stopped=bool(result.get("interrupted")))
    if result.get("interrupted"):
        return Interrupted(**common, unstored=failed)
    if failed:
        return Failed(**common)
    return Answered(**common, exhausted=not result.get("completed", True))


def _is_superseded(turn: Turn, broken: Exception | None) -> bool:
    """Whether another process answers: it has the turn, or began with the question first."""
    if isinstance(broken, AlreadyTakenError):
        return not turn.has_begun  # a message that came later is not what the turn is about
    return isinstance(broken, LeaseLostError)


def _error(turn: Turn, broken: Exception | None) -> str | None:
    if isinstance(turn.error, ContextTooLongError):
        return f"context length exceeded: {turn.error}"
    if turn.exhausted:
        return f"The budget of {turn.max_iterations} model calls for one turn is used up."
    fault = broken or turn.error
    return None if fault is None else str(fault) or type(fault).__name__
