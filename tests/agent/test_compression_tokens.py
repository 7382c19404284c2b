"""The estimate of tokens: additive, cautious, and never surprised."""

from __future__ import annotations

from typing import Any

import pytest

from agent.compression.tokens import (
    PER_IMAGE,
    content_tokens,
    estimate_tokens,
    message_tokens,
    text_tokens,
)

# Counted with the tokenizer of the embedded model, which has a small vocabulary.
REAL = [
    ("The session ends and its continuation goes on with the compressed messages. " * 20, 261),
    ("我们需要把数据库迁移到新的服务器上，并且保证会话不会丢失。" * 10, 490),
    ("Нам нужно перенести базу данных на новый сервер." * 10, 320),
    ("데이터베이스를 새 서버로 옮겨야 합니다." * 10, 460),
    ("😀🎉🚀👍" * 50, 600),
    ("1234567890" * 30, 300),
    ("aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ" * 10, 300),
]


@pytest.mark.parametrize(("text", "tokens"), REAL)
def test_it_is_rarely_much_below_a_real_tokenizer(text: str, tokens: int) -> None:
    assert text_tokens(text) >= tokens * 0.8


@pytest.mark.parametrize(("text", "tokens"), REAL)
def test_it_is_not_absurdly_high(text: str, tokens: int) -> None:
    assert text_tokens(text) <= tokens * 2


def test_it_adds_up() -> None:
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two words"}]
    assert estimate_tokens(messages) == sum(estimate_tokens([one]) for one in messages)
    assert estimate_tokens([]) == 0
    assert estimate_tokens(messages, "a system prompt") > estimate_tokens(messages)
    tools = [{"type": "function", "function": {"name": "terminal", "description": "Run it."}}]
    assert estimate_tokens(messages, "", tools) > estimate_tokens(messages) + 10


def test_pictures_cost_the_same_however_long_their_address_is() -> None:
    def picture(url: str) -> list[dict[str, Any]]:
        return [{"type": "image_url", "image_url": {"url": url}}]

    assert content_tokens(picture("data:image/png;base64," + "A" * 10**6)) == PER_IMAGE
    assert content_tokens(picture("https://example.org/a.png")) == PER_IMAGE


def test_calls_and_reasoning_count() -> None:
    call = {"id": "c", "function": {"name": "write_file", "arguments": "x y z " * 500}}
    said = {"role": "assistant", "content": "ok"}
    assert message_tokens({**said, "tool_calls": [call]}) > 1000
    thought = message_tokens({**said, "reasoning": "so " * 300})
    assert thought > 300
    # Only one form of it is ever sent back.
    assert message_tokens({**said, "reasoning": "so " * 300, "reasoning_content": "so"}) == thought


def test_a_very_long_text_is_judged_by_parts_of_it() -> None:
    text = "a few words and 42 numbers, again and again. " * 100_000
    assert text_tokens(text) == pytest.approx(100_000 * text_tokens(text[:450]) / 10, rel=0.05)


@pytest.mark.parametrize(
    "content", [None, "", 7, {"odd": {1, 2}}, [None, 3, {"text": None}], "\ud800"]
)
def test_nothing_is_beyond_it(content: Any) -> None:
    assert message_tokens({"role": "user", "content": content}) > 0


def test_a_value_within_itself_is_counted_too() -> None:
    loop: list[Any] = []
    loop.append({"content": loop})
    assert message_tokens({"role": "user", "content": loop}) > 0
