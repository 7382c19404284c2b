"""The model that comes with search by meaning: a table with a vector for each piece of a word.

The vector of a text is the average of those of its pieces, so it takes microseconds and no library
but numpy. The table is WordLlama's (MIT licence), made from the first layer of a large model and
trained for comparing texts, mostly English ones.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_state import EmbedderError

NAME = "wordllama-l2-supercat-256"
_SPACE = "▁"
_CHUNK = re.compile(f"{_SPACE}*[^{_SPACE}]*")
_LONGEST_CHUNK = 48
"""Characters of a text without spaces that are divided into pieces at once."""
_MOST_KNOWN = 50_000
_FIRST_BYTE = 3
"""The number of the piece that stands for the byte 0."""


class Pieces:
    """Divides texts into pieces: the most usual neighbours are joined first."""

    def __init__(self, path: Path) -> None:
        model = json.loads(path.read_bytes())["model"]
        self._numbers: dict[str, int] = model["vocab"]
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(model["merges"]):
            first, second = merge.split(" ") if isinstance(merge, str) else merge
            self._ranks[first, second] = rank
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, text: str) -> list[int]:
        """The numbers of the pieces of a text."""
        if not text:
            return []
        numbers: list[int] = []
        for chunk in _CHUNK.findall(_SPACE + text.replace(" ", _SPACE)):
            for start in range(0, len(chunk), _LONGEST_CHUNK):
                numbers += self._of_chunk(chunk[start : start + _LONGEST_CHUNK])
        return numbers

    def _of_chunk(self, chunk: str) -> tuple[int, ...]:
        known = self._known.get(chunk)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[chunk] = tuple(self._joined(chunk))
        return known

    def _joined(self, chunk: str) -> list[int]:
        parts = list(chunk)
        last = len(self._ranks)
        while len(parts) > 1:
            ranks = [
                self._ranks.get((parts[at], parts[at + 1]), last) for at in range(len(parts) - 1)
            ]
            best = min(ranks)
            if best == last:
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        numbers = []
        for part in parts:
            number = self._numbers.get(part)
            if number is not None:
                numbers.append(number)
            else:
                numbers += [_FIRST_BYTE + byte for byte in part.encode(errors="replace")]
        return numbers


class StaticModel:
    """The table and the pieces, read from the disk when first used."""

    name = NAME
    is_quick = True

    def __init__(self, folder: Path) -> None:
        """`folder` has `vectors.safetensors` and `tokenizer.json`."""
        self._folder = folder
        self._loading = threading.Lock()
        self._loaded: tuple[Pieces, Any] | None = None

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> Any:
        """A vector for each text."""
        import numpy as np

        pieces, table = self._load()
        vectors = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        for place, text in enumerate(texts):
            numbers = pieces.of(text)
            if numbers:
                vectors[place] = table[numbers].sum(axis=0, dtype=np.float32)
        return vectors

    def _load(self) -> tuple[Pieces, Any]:
        with self._loading:
            if self._loaded is None:
                try:
                    table = _read_table(self._folder / "vectors.safetensors")
                    self._loaded = Pieces(self._folder / "tokenizer.json"), table
                except (OSError, ValueError, KeyError, TypeError) as error:
                    raise EmbedderError(
                        f"The model in {self._folder} cannot be read ({error}). Delete that folder"
                        " and have it fetched again: hermes sessions meaning"
                    ) from error
            return self._loaded


def _read_table(path: Path) -> Any:
    """The only table in the file, as rows of half-precision numbers that stay on the disk."""
    import numpy as np

    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    (place,) = (value for name, value in header.items() if name != "__metadata__")
    first, _ = place["data_offsets"]
    return np.memmap(
        path, dtype=np.float16, mode="r", offset=8 + size + first, shape=tuple(place["shape"])
    )
