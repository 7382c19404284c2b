"""Long answers in parts: nothing lost, every part fits, every part stands alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.markdown.fences import Fence, opened_by
from gateway.splitting import SMALLEST_LIMIT, split_message, utf16_length

LINES = st.one_of(
    st.sampled_from(
        ["", "", "```", "```python", "~~~", "    ```sh", "````", "- point", "# Title", "| a | b |"]
    ),
    st.text("ab .`~é😀", max_size=90),
    st.text("word, ", min_size=60, max_size=260),
    st.text("`~", max_size=200),
    st.text(max_size=30),
)
TEXTS = st.lists(LINES, max_size=40).map("\n".join)


def open_at_end(lines: list[str]) -> Fence | None:
    """The block of code that is still open after these lines."""
    fence: Fence | None = None
    for line in lines:
        if fence is None:
            fence = opened_by(line)
        elif fence.closed_by(line):
            fence = None
    return fence


def content(text: str) -> str:
    """The text without blanks, lines that open or close code, and marks without width."""
    kept = [
        line
        for line in text.split("\n")
        if not opened_by(line) and not re.fullmatch(r"\s*(`{3,}|~{3,})\s*", line)
    ]
    return re.sub(r"[\s\u200b]", "", "".join(kept))


@given(TEXTS, st.integers(SMALLEST_LIMIT, 400))
@example("`" * 500, 64)
@example("```" + "a " * 200, 64)
@example("😀" * 300, 100)
@example("```\n" + "y" * 45 + "\n" + " " * 12 + "`" * 8, 64)
def test_parts_fit_and_are_balanced(text: str, limit: int) -> None:
    for measure in (len, utf16_length):
        parts = split_message(text, limit, measure)
        assert parts
        for part in parts:
            assert measure(part) <= limit
            if len(parts) > 1:
                assert open_at_end(part.split("\n")) is None
                assert part.strip()


@given(TEXTS, st.integers(SMALLEST_LIMIT, 400))
@example("```\n" + "y" * 45 + "\n" + " " * 12 + "`" * 8, 64)
@example("``` ~\n" + "d" * 60, 64)
@example("~~~ ~\n" + "d" * 60, 64)
@example("a" * 50 + "\n```\n" + "b" * 100 + "\n```\n" + "c" * 50, 64)
def test_nothing_is_lost(text: str, limit: int) -> None:
    parts = split_message(text, limit)
    assert content("\n".join(parts)) == content(text)


def test_code_that_is_cut_is_code_in_both_parts() -> None:
    code = "\n".join(f"line {number}" for number in range(40))
    first, second, *_ = split_message(f"Look:\n```python\n{code}\n```", 200)
    assert first.startswith("Look:\n```python\nline 0\n") and first.endswith("\n```")
    assert second.startswith("```python\nline ") and second.endswith("\n```")


def test_a_block_of_code_that_does_not_fit_begins_the_next_part() -> None:
    parts = split_message("a" * 60 + "\n```\n" + "b" * 60 + "\n```", 100)
    assert parts == ["a" * 60, "```\n" + "b" * 60 + "\n```"]


def test_paragraphs_lines_and_sentences_are_kept_whole() -> None:
    assert split_message("a" * 50 + "\n\n" + "b" * 50, 64) == ["a" * 50, "b" * 50]
    assert split_message("a" * 50 + "\n" + "b" * 50, 64) == ["a" * 50, "b" * 50]
    parts = split_message("One two three. " * 12, 64)
    assert all(part.endswith("three.") for part in parts)


def test_a_short_text_is_one_part() -> None:
    assert split_message("\nHello.\n", 100) == ["Hello."]
    assert split_message("", 100) == [""]


def test_characters_are_counted_as_the_platform_counts_them() -> None:
    assert len(split_message("😀" * 80, 100)) == 1
    assert len(split_message("😀" * 80, 100, utf16_length)) > 1


def test_a_limit_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        split_message("text", SMALLEST_LIMIT - 1)


def test_a_very_long_text_is_split_in_reasonable_work() -> None:
    measured = 0

    def counting(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return len(text)

    text = "Some words in a line.\n" * 20_000
    parts = split_message(text, 4000, counting)
    assert len(parts) > 100
    assert measured < 60 * len(text)
