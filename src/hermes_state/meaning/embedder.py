"""What turns texts into vectors: the seam to any embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class EmbedderError(Exception):
    """The model could not be asked; the message says why. Search goes on without it."""


@runtime_checkable
class Embedder(Protocol):
    """A model. It may be called by any thread."""

    @property
    def name(self) -> str:
        """Which model it is: vectors of models with different names are never compared."""

    @property
    def is_quick(self) -> bool:
        """Whether a text takes well under a millisecond, so that a search may wait for a few."""

    def embed(
        self, texts: Sequence[str], *, is_question: bool = False
    ) -> Sequence[Sequence[float]]:
        """A vector for each text, all of the same length; zeros for a text without a meaning.

        Raises EmbedderError if the model cannot be asked.
        """
