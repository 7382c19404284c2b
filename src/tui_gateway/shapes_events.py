"""Shapes of events: what is in the payload of each type.

`EVENTS` is every type that the server emits. A type without a payload has None.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from .shapes import SessionInfo
from .shapes_reading import ChangedSessions


class Ready(TypedDict):
    """The first frame that a client gets."""

    skin: str
    replay_epoch: str
    """Numbers of events mean nothing in another epoch."""
    digest: NotRequired[str]
    """Of the web page's files, for a browser to know that its own are old."""


class MessageStart(TypedDict, total=False):
    """A message is being answered; or, with `restart`, what was streamed of the answer is void."""

    prompt: str
    prompt_id: str
    """The `message_id` it was sent with."""
    timestamp: float | None
    restart: bool


class Streamed(TypedDict):
    """A piece of text, to be put behind the one before."""

    text: str
    rendered: NotRequired[str]


class Interim(TypedDict):
    """What the model said before it went on to use tools."""

    text: str
    already_streamed: bool


class Complete(TypedDict):
    """The turn is over, and stored."""

    text: str
    usage: dict[str, Any]
    status: str
    """complete, interrupted or error."""
    warning: NotRequired[str]
    """What went wrong."""
    timestamp: NotRequired[float]
    """What the answer is stored with."""
    unstored: NotRequired[bool]
    """The message still waits, because it could not be begun with."""
    dropped: NotRequired[str]
    """The id of the message that was stopped before it began; it is not kept."""
    rendered: NotRequired[str]


class StatusUpdate(TypedDict):
    """What is going on, in a line."""

    kind: str
    """retry, compressing, compressed, progress, notice or warn; of progress the last one holds."""
    text: str


class ToolStart(TypedDict):
    """A tool is about to run."""

    tool_id: str
    name: str
    context: str
    """What it works on, in a short line."""
    args: dict[str, Any]


class ToolProgress(TypedDict):
    """A running tool has something to show."""

    tool_id: str
    text: str


class ToolComplete(TypedDict):
    """A tool's result is stored."""

    tool_id: str
    name: str
    result_text: str
    """The beginning of it; the whole is in the history."""
    duration_s: float
    is_error: bool


class ApprovalRequest(TypedDict):
    """A tool asks for an approval; answer with approval.respond."""

    request_id: str
    command: str
    description: str
    pattern_key: str
    pattern_keys: list[str]
    choices: list[str]
    allow_permanent: bool
    expires_at: float


class ClarifyRequest(TypedDict):
    """The model asks a question; answer with clarify.respond."""

    request_id: str
    question: str
    choices: list[str]


class SudoRequest(TypedDict):
    """A command's sudo wants a password; answer with sudo.respond."""

    request_id: str


class SudoExpired(TypedDict):
    """Nobody gave the password in time."""

    request_id: str


class RequestClosed(TypedDict):
    """A question needs no answer any more."""

    request_id: str


class BackgroundComplete(TypedDict):
    """A task in the background has ended."""

    task_id: str
    text: str


class TitleChanged(TypedDict):
    """The conversation has a title."""

    session_id: str
    """The stored session."""
    title: str


class Switched(TypedDict):
    """Another conversation has taken this live session's place; session.activate has all of it."""

    stored_session_id: str
    reason: str


class SessionClosed(TypedDict):
    """The session is not live any more; its conversation stays."""

    reason: str


class Failed(TypedDict):
    """No agent could be built; the message waits until the cause is fixed."""

    message: str
    code: int


class Copied(TypedDict):
    """To be put on the clipboard."""

    text: str


class Reviewed(TypedDict):
    """Something was kept for later conversations."""

    text: str


class Reasoning(TypedDict):
    """A piece of the model's reasoning."""

    text: str


class Steered(TypedDict):
    """A message was added to the running turn."""

    text: str


EVENTS: dict[str, Any] = {
    "approval.request": ApprovalRequest,
    "background.complete": BackgroundComplete,
    "clarify.request": ClarifyRequest,
    "clipboard.copy": Copied,
    "error": Failed,
    "events.missed": None,
    "gateway.ready": Ready,
    "history.changed": None,
    "message.complete": Complete,
    "message.delta": Streamed,
    "message.interim": Interim,
    "message.start": MessageStart,
    "message.steered": Steered,
    "reasoning.delta": Reasoning,
    "request.closed": RequestClosed,
    "review.summary": Reviewed,
    "screen.clear": None,
    "session.closed": SessionClosed,
    "session.info": SessionInfo,
    "session.switched": Switched,
    "session.title": TitleChanged,
    "sessions.changed": ChangedSessions,
    "status.update": StatusUpdate,
    "sudo.expire": SudoExpired,
    "sudo.request": SudoRequest,
    "tool.complete": ToolComplete,
    "tool.progress": ToolProgress,
    "tool.start": ToolStart,
}
"""Every type of event, and the shape of its payload."""

BARE = {
    "history.changed": "Another process wrote to the conversation; session.activate has all of it.",
    "events.missed": "The client read too slowly and missed events; session.events.since has them.",
    "screen.clear": "What is shown is to be cleared.",
}
"""What the types without a payload mean."""
