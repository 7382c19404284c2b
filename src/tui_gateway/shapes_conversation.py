"""Shapes of what is told about one conversation: its name, its messages, its use."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from .shapes import SessionInfo, WireMessage


class Title(TypedDict):
    """A conversation's title."""

    title: str
    session_key: str
    pending: bool
    """Whether it waits for the first message."""


class History(TypedDict):
    """Everything that was said, also before compressions."""

    count: int
    messages: list[WireMessage]


class Undone(TypedDict):
    """What was taken back."""

    removed: int
    """Messages, the person's own included."""
    text: Any
    """The oldest of the person's messages that were taken back, to offer it for editing."""


class Branched(TypedDict):
    """A copy of a conversation, live."""

    session_id: str
    stored_session_id: str
    title: str
    parent: str


class CompressionPreview(TypedDict):
    """What a compression would do."""

    summarised: int
    kept_first: int
    kept_last: int
    before_tokens: int
    after_tokens: int
    worthwhile: bool


class Compression(TypedDict):
    """What a compression came to."""

    status: str
    """compressed, unchanged or preview."""
    reason: str
    """Why nothing was changed."""
    removed: int
    before_messages: int
    after_messages: int
    before_tokens: int
    after_tokens: int
    summary: str
    usage: dict[str, Any]
    info: SessionInfo
    messages: list[WireMessage]
    preview: NotRequired[CompressionPreview]


class Usage(TypedDict):
    """What a conversation has used, over all of its sessions."""

    model: str
    api_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    total_tokens: int
    cost_usd: float | None
    """None if the price of a model is not known."""


class Output(TypedDict):
    """Text to be shown."""

    output: str


class ContextPart(TypedDict):
    """A part of what the model is sent."""

    name: str
    tokens: int
    percent: float
    """Of the whole window."""


class ContextBreakdown(TypedDict):
    """What fills the model's window, estimated."""

    categories: list[ContextPart]
    context_max: int
    context_used: int
    context_percent: float
    estimated_total: int
    model: str


class ModelUsage(TypedDict):
    """What one model was used for."""

    model: str
    api_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class Insights(TypedDict):
    """What was used in the last days."""

    days: int
    sessions: int
    messages: int
    tool_calls: int
    models: list[ModelUsage]


class Saved(TypedDict):
    """Where something was written."""

    file: str


class Near(TypedDict):
    """What was said beside a hit."""

    role: str
    text: str


class Hit(TypedDict):
    """A message that was found."""

    session_id: str
    message_id: int | None
    title: str | None
    role: str | None
    snippet: str
    timestamp: float | None
    source: str | None
    before: NotRequired[Near | None]
    """What was said before it, where that was asked for."""
    after: NotRequired[Near | None]


class Hits(TypedDict):
    """Messages that were found, best first."""

    query: str
    results: list[Hit]


class Place(TypedDict):
    """Where a session works."""

    cwd: str
    branch: str


class Width(TypedDict):
    """The width of the client's screen."""

    cols: int
