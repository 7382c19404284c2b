"""How large the next request is, by the way its model's provider counts.

What every request carries is counted once, and of a growing conversation only what is new.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.config.schema import CompressionSettings
from agent.model import Message, Model

from .policy import Budget, Gauge, require_room, share_out
from .tokens import estimate_tokens

if TYPE_CHECKING:
    from agent.loop import Turn


class Counting:
    """Counts for one conversation; a model that is changed is gauged anew."""

    def __init__(self, settings: CompressionSettings) -> None:
        self._settings = settings
        self._gauge = Gauge()
        self._model: Model | None = None
        self._fixed: tuple[str, Sequence[Any], int] = ("", (), 0)
        self._counted: list[tuple[Message, int]] = []

    def gauge(self, turn: Turn) -> Gauge:
        """What is known of how the turn's model counts."""
        if self._model is not turn.model:
            self._model, self._gauge = turn.model, Gauge()
        return self._gauge

    def estimate(self, turn: Turn, messages: list[Message]) -> int:
        """The uncorrected size of a request with these messages."""
        same = 0
        # Messages are not changed once they are there.
        for (counted, _), message in zip(self._counted, messages, strict=False):
            if counted is not message:
                break
            same += 1
        new = [(message, estimate_tokens([message])) for message in messages[same:]]
        self._counted[same:] = new
        return sum(tokens for _, tokens in self._counted) + self._fixed_estimate(turn)

    def budget(self, turn: Turn, *, refused: bool = False) -> Budget:
        """How the window is shared out; PromptTooLargeError if nothing is left for messages.

        After a request was `refused` as too long there is no doubt in favour of the estimate.
        """
        gauge = self.gauge(turn)
        window, fixed = turn.model.context_length, gauge.corrected(self._fixed_estimate(turn))
        require_room(window, fixed, certain=gauge.known or refused)
        return share_out(self._settings, window, fixed, turn.request_options.get("max_tokens"))

    def _fixed_estimate(self, turn: Turn) -> int:
        system, tools, estimate = self._fixed
        if system is not turn.system or tools is not turn.tool_schemas:
            estimate = _fixed_tokens(turn.system, json.dumps(turn.tool_schemas))
            self._fixed = (turn.system, turn.tool_schemas, estimate)
        return estimate


@functools.lru_cache(maxsize=64)
def _fixed_tokens(system: str, tools: str) -> int:
    """The same for every conversation that begins alike: counting it takes milliseconds."""
    return estimate_tokens([], system, json.loads(tools))
