"""No reader of foreign text looks at the same text again and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.hostile import QUICK_SIZES, SIZES, _finding, time_piece
from bench.hostile_readers import Reader, readers

pytestmark = pytest.mark.by_name

SHORT = (4_096, 16_384, 65_536)


@pytest.mark.parametrize("name", readers())
def test_every_reader_reads_every_hostile_text(name: str) -> None:
    reader = readers()[name]
    small = reader._replace(longest=1_024)
    found = _finding(name, small, SHORT)
    assert found.ratio is not None and found.goal
    assert len(found.details["timings"]) == len(reader.pieces)


def test_a_quadratic_reader_is_found_out() -> None:
    """The clock counts what is looked at, so that no processor is too quick for it."""
    looked_at = 0

    def look(text: str) -> None:
        nonlocal looked_at
        looked_at += len(text)

    def look_back(text: str) -> None:
        for end in range(0, len(text), 64):
            look(text[:end])

    def growth(read: Callable[[str], None]) -> float:
        reader = Reader(read, ("x",))
        return time_piece(reader, "x", QUICK_SIZES, lambda: looked_at / 1_000_000).growth

    assert growth(look_back) > 4
    assert growth(look) < 2


@pytest.mark.parametrize("piece", ["***", "* * ", "_"])
def test_a_long_line_across_the_page_is_read_once(piece: str) -> None:
    """What a pattern might have to go back to would take more memory than the processor keeps."""
    assert time_piece(readers()["Markdown for Matrix"], piece, SIZES).growth < 3
