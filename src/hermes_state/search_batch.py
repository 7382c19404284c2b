"""Messages on their way into the index: as many as fit into one transaction."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .search_document import as_text, calls_text, content_text
from .search_pairs import BREAK, pairs
from .search_spans import PART_BITS
from .search_text import words

BATCH_ROWS = 8192
BATCH_BYTES = 4 * 1024 * 1024

_PIECE = 1 << 20  # characters turned into words at a time


@dataclass
class Batch:
    """Documents to be written, by part, and what goes with them."""

    common: frozenset[str]
    """The words of which pairs are listed."""
    documents: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    times: list[tuple[int, float]] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    last: tuple[int, float] | None = None

    def add(self, row: tuple[Any, ...], facets: str) -> None:
        message_id, _, _, content, tool_name, tool_calls, timestamp, *_ = row
        self.rows += 1
        self.last = message_id, timestamp
        self.size += len(content or b"") + len(tool_calls or b"")
        body, listed = [facets], []
        for text in (
            content_text(as_text(content)),
            calls_text(as_text(tool_name), as_text(tool_calls)),
        ):
            if not text:
                continue
            if len(body) > 1:
                body.append(BREAK)
            before = ""
            for piece in _pieces(text):
                found = words(piece)
                self.counted.update(found)
                listed += pairs(found, self.common, before)
                before = found[-1] if found and found[-1] in self.common else ""
                body += found if len(text) <= _PIECE else [" ".join(found)]
        if len(body) == 1:
            return  # without words it cannot be found
        text = " ".join(itertools.chain(body, listed))
        self.documents.setdefault(message_id >> PART_BITS, []).append((message_id, text))
        self.times.append((message_id, timestamp))

    @property
    def is_full(self) -> bool:
        return self.rows >= BATCH_ROWS or self.size >= BATCH_BYTES


def _pieces(text: str) -> Iterator[str]:
    """`text` in pieces that end between words where possible."""
    start = 0
    while len(text) - start > _PIECE:
        end = text.rfind(" ", start + _PIECE // 2, start + _PIECE)
        end = start + _PIECE if end < 0 else end
        yield text[start:end]
        start = end
    yield text[start:] if start else text
