"""The seam between the engine and any model: one request in, a stream of chunks out.

A `Model` yields chunks in order and ends with exactly one `Finished`. A stream that ends without it
was cut: the provider raises `BrokenReplyError`, whatever its client library thinks. Every failure
is a `ModelError`; cancelling the consuming task closes the connection at once.

Messages travel in the shape the store keeps them in (chat-completions dicts): `role`, `content`
(text, or a list of parts), and where present `tool_calls`, `tool_call_id`, `tool_name`,
`reasoning`, `reasoning_details`. A provider turns them into its own wire format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Message = dict[str, Any]
"""One message of a conversation, as the store keeps it."""


@dataclass(slots=True)
class ModelRequest:
    """Everything one model call needs."""

    messages: list[Message]
    """The conversation without the system prompt; roles alternate and tool calls are answered."""
    system: str = ""
    """The system prompt, byte-identical for the life of a session so that caches stay warm."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Function schemas in chat-completions form: {"type": "function", "function": {...}}."""
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    """"low", "medium", "high", or None for the provider's default."""
    session_id: str = ""
    """Lets a provider keep one conversation on one cache."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call (or, added up, of several)."""

    input_tokens: int = 0
    """All input tokens, cached ones included."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class TextDelta(NamedTuple):
    """A piece of the answer."""

    text: str


class ReasoningDelta(NamedTuple):
    """A piece of the model's reasoning."""

    text: str


class ToolCallDelta(NamedTuple):
    """A piece of a tool call; pieces with one `index` belong together, id and name come first."""

    index: int  # type: ignore[assignment]
    id: str = ""
    name: str = ""
    arguments: str = ""


class ReasoningDetails(NamedTuple):
    """Opaque reasoning items that must be sent back unchanged on the next call (signatures and the
    like); stored in the message's `reasoning_details`."""

    items: list[dict[str, Any]]


class Restarted(NamedTuple):
    """Everything streamed so far in this call is void: it is being tried again, for `reason`."""

    reason: str
    delay: float
    attempt: int


class Finished(NamedTuple):
    """The last chunk. `reason` is "stop", "tool_calls", "length" or "content_filter"."""

    reason: str
    usage: Usage
    model: str = ""
    """The model that answered, as the provider names it."""


Chunk = TextDelta | ReasoningDelta | ToolCallDelta | ReasoningDetails | Restarted | Finished


class Model(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """The model's name, as configured."""
        ...

    @property
    def provider(self) -> str:
        """Which provider it comes from, e.g. "openai", "anthropic", "local"."""
        ...

    @property
    def base_url(self) -> str:
        """Where it is asked; empty for a model inside the process."""
        ...

    @property
    def context_length(self) -> int:
        """How many tokens fit into one request and its answer."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask, and yield chunks as they come; raises a ModelError on failure."""
        ...

    async def aclose(self) -> None:
        """Free connections and memory. The model may be used again afterwards."""
        ...
