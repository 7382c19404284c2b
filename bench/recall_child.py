"""hermes-agent's compressor in a process of its own: `python -m bench.recall_child SEED`.

No model answers it, so that it falls back on what it can do alone, as ours does without one.
"""

from __future__ import annotations

from typing import Any

from bench.lines import answer_lines

CONTEXT_LENGTH = 6000
"""With a smaller window its contexts grow no smaller."""


class Worker:
    """What the measuring side may ask for."""

    def __init__(self) -> None:
        self._compressor: Any = None

    def begin(self) -> dict[str, Any]:
        """Begin a conversation."""
        from agent.context_compressor import (  # type: ignore[import-not-found]
            ContextCompressor,
        )

        self._compressor = ContextCompressor(
            "zero", config_context_length=CONTEXT_LENGTH, quiet_mode=True
        )
        self._compressor._generate_summary = lambda *given, **named: None
        return {}

    def compress(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The messages as a model would see them from now on."""
        return {"messages": self._compressor.compress(messages, force=True)}


if __name__ == "__main__":
    answer_lines(Worker())
