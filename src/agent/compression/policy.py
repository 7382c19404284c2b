"""When a conversation is compressed, and to what size: arithmetic over tokens, without a store.

A window is shared by what every request carries (system prompt, tools), the messages, and the
answer. All figures are *corrected* ones: an estimate times the ratio at which the provider's own
count of the last request differed from its estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agent.config.schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.model import Message

from .tokens import estimate_tokens

ANSWER_ROOM = 4096
"""Tokens kept free for an answer whose length is not configured, where the window has them."""

LOWEST_RATIO, HIGHEST_RATIO = 0.5, 8.0
"""A provider that counts nonsense must not make us send anything, or nothing."""

LEAST_SAVING = 0.1
"""The share of its tokens a conversation must lose, or it is left as it is."""

FIRST_COOLDOWN, LONGEST_COOLDOWN = 60.0, 3600.0


SMALLEST_TARGET = 1500
"""Tokens in which a conversation can be told, where the threshold leaves that much."""


class PromptTooLargeError(ContextTooLongError):
    """The system prompt and the tools alone do not fit: no compression can help."""


@dataclass(slots=True)
class Gauge:
    """Counts tokens the way one model's provider does, as far as that is known."""

    ratio: float = 1.0
    known: bool = False
    """Whether the provider has counted a request."""
    sent: int = 0
    """The estimate of the last request."""

    def tokens(self, messages: Iterable[Message]) -> int:
        """The corrected number of tokens of messages."""
        return self.corrected(estimate_tokens(messages))

    def corrected(self, estimate: int) -> int:
        """An estimate as the provider would count."""
        return math.ceil(estimate * self.ratio)

    def note_sent(self, estimate: int) -> None:
        """A request of this estimated size is about to be sent."""
        self.sent = estimate

    def note_real(self, tokens: int) -> None:
        """The provider counted `tokens` in that request; 0 if it did not say."""
        if tokens > 0 and self.sent > 0:
            self.ratio, self.known = _bounded(tokens / self.sent), True

    def note_refused(self, window: int) -> None:
        """The provider found that request too long: it was larger than we thought."""
        at_least = window / self.sent if self.sent > 0 else self.ratio
        self.ratio = _bounded(max(self.ratio * 1.25, at_least))


def _bounded(ratio: float) -> float:
    return min(max(ratio, LOWEST_RATIO), HIGHEST_RATIO)


@dataclass(frozen=True, slots=True)
class Budget:
    """How a model's window is shared out, in corrected tokens."""

    fixed: int
    """What every request carries: system prompt and tools."""
    limit: int
    """A request larger than this leaves no room for the answer."""
    trigger: int
    """A request larger than this is compressed."""
    target: int
    """What the messages are compressed to."""

    @property
    def room(self) -> int:
        """What is left for the messages at most."""
        return self.limit - self.fixed


def require_room(window: int, fixed: int, *, certain: bool) -> None:
    """Raise PromptTooLargeError if the fixed part leaves no room for any message.

    While the provider has not counted yet, only what is far too large is refused: an estimate may
    be too high.
    """
    if fixed > window * (0.98 if certain else 1.5):
        raise PromptTooLargeError(
            f"The system prompt and the tools take about {fixed} tokens, and the model's window is"
            f" {window}. Use a model with a larger window, or fewer tools (toolsets: in"
            " config.yaml)."
        )


def share_out(
    settings: CompressionSettings, window: int, fixed: int, max_tokens: int | None
) -> Budget:
    """The budget of a window.

    Where the fixed part takes much of the window, the threshold moves up with it: otherwise every
    call would compress what cannot be made smaller.
    """
    fixed = min(fixed, window * 9 // 10)
    free = window - fixed
    answer = min(max_tokens, free // 2) if max_tokens else min(ANSWER_ROOM, free // 4)
    limit = window - answer
    trigger = min(limit, max(int(window * settings.threshold), fixed + (limit - fixed) // 2))
    wanted = max(int(window * settings.target_ratio), SMALLEST_TARGET)
    target = max(1, min(wanted, (trigger - fixed) // 2))
    return Budget(fixed, limit, trigger, target)


def is_saving(before: int, after: int) -> bool:
    """Whether a compression is worth keeping."""
    return after <= before * (1 - LEAST_SAVING)


def cooldown_seconds(failures: int) -> float:
    """How long automatic compression rests after so many failures in a row."""
    doublings = min(max(failures, 1) - 1, 16)
    return float(min(FIRST_COOLDOWN * 2**doublings, LONGEST_COOLDOWN))
