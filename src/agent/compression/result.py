"""The result of a compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compress import Preview


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """The outcome of one compression, done or not."""

    session_id: str
    """Where the conversation is now."""
    old_session_id: str
    """Where it was; the same if it was compressed in place, or not at all."""
    compressed: bool
    """Whether this call changed the conversation."""
    reason: str = ""
    """Why it did not, in words for a person."""
    in_place: bool = False
    method: str = ""
    """"summary" (a model wrote it) or "fallback" (shortened without one)."""
    before_messages: int = 0
    after_messages: int = 0
    before_tokens: int = 0
    """Of the messages, without system prompt and tools."""
    after_tokens: int = 0
    summary: str = ""
    """What stands for the messages that were taken out."""
    error: str | None = None
    """Why there was no model's summary, where one was wanted."""
    preview: Preview | None = None
    """With `dry_run`: what would be done."""
