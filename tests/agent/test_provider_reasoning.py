"""Reasoning goes back to whom it came from, exactly where it was, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from fake_provider import (
    MESSAGES,
    RESPONSES,
    Answer,
    FakeProvider,
    Reply,
    collect,
    model_for,
    sse,
    whole_reply,
)

from agent.model import ModelRequest
from agent.providers.base import HttpModel

USER = {"role": "user", "content": "Hi"}
URL = "http://127.0.0.1:1"


async def reply(protocol: str, pieces: list[bytes], **options: Any) -> Answer:
    async with FakeProvider(Reply(pieces)) as fake:
        model = model_for(protocol, fake.url, **options)
        found = await collect(model.stream(ModelRequest([USER])))
        await model.aclose()
    return found


def stored(answer: Answer) -> list[dict[str, Any]]:
    """The answer as the store keeps it, with results for its calls."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in answer.calls.values()
    ]
    message = {
        "role": "assistant",
        "content": answer.text or None,
        "reasoning_details": answer.details or None,
        "tool_calls": calls or None,
    }
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in calls]
    return [message, *results]


def payload(protocol: str, *history: dict[str, Any], effort: str | None = None, **options: Any):
    model = model_for(protocol, URL, **options)
    assert isinstance(model, HttpModel)
    return model._payload(ModelRequest([USER, *history], reasoning_effort=effort))


async def test_thinking_is_signed_and_comes_first():
    answer = await reply(MESSAGES, whole_reply(MESSAGES), provider="anthropic")
    blocks = payload(MESSAGES, *stored(answer), provider="anthropic")["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert blocks[0] == {"type": "thinking", "thinking": "Hm, gut.", "signature": "c2ln"}


async def test_encrypted_reasoning_comes_before_what_it_led_to():
    answer = await reply(RESPONSES, whole_reply(RESPONSES), provider="openai")
    items = payload(RESPONSES, *stored(answer), provider="openai")["input"][1:]
    kinds = [item["type"] for item in items]
    assert kinds[:4] == ["reasoning", "message", "function_call", "function_call"]
    assert items[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "AAA=",
    }


@pytest.mark.parametrize("protocol", [MESSAGES, RESPONSES])
async def test_another_provider_never_sees_it(protocol):
    answer = await reply(protocol, whole_reply(protocol), provider="anthropic")
    text = str(payload(protocol, *stored(answer), provider="openai"))
    assert "AAA=" not in text
    assert "c2ln" not in text


async def test_thinking_between_blocks_keeps_its_place():
    def block(index: int, **content: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": content}

    answer = await reply(
        MESSAGES,
        sse(
            {"type": "message_start", "message": {}},
            block(0, type="redacted_thinking", data="first"),
            block(1, type="text", text="So."),
            block(2, type="thinking", thinking="then", signature="s2"),
            block(3, type="tool_use", id="a", name="t", input={"x": 1}),
            {"type": "content_block_stop", "index": 3},
            block(4, type="redacted_thinking", data="last"),
            block(5, type="tool_use", id="b", name="t", input={}),
            {"type": "content_block_stop", "index": 5},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ),
    )
    assert answer.calls == {0: ["a", "t", '{"x": 1}'], 1: ["b", "t", "{}"]}
    blocks = payload(MESSAGES, *stored(answer))["messages"][1]["content"]
    shown = [block.get("data") or block.get("thinking") or block["type"] for block in blocks]
    assert shown == ["first", "text", "then", "tool_use", "last", "tool_use"]


async def test_reasoning_between_calls_keeps_its_place():
    def done(**item: Any) -> dict[str, Any]:
        return {"type": "response.output_item.done", "item": item}

    call = {"type": "function_call", "name": "t", "arguments": "{}"}
    answer = await reply(
        RESPONSES,
        sse(
            done(type="reasoning", id="r1", encrypted_content="one", content=[{"text": "plain"}]),
            done(**call, id="f1", call_id="a"),
            done(type="reasoning", id="r2", encrypted_content="two", summary=[{"text": "s"}]),
            done(**call, id="f2", call_id="b"),
            done(type="reasoning", id="r3", encrypted_content="idle"),
            {"type": "response.completed", "response": {"status": "completed"}},
        ),
    )
    items = payload(RESPONSES, *stored(answer))["input"][1:]
    shown = [item.get("encrypted_content") or item["type"] for item in items][:4]
    assert shown == ["one", "function_call", "two", "function_call"]
    assert "idle" not in str(items) and "plain" not in str(items)


def test_unsigned_thinking_is_not_sent_to_anthropic():
    thought = {"type": "thinking", "thinking": "x", "provider": "anthropic"}
    message = {"role": "assistant", "content": "So.", "reasoning_details": [thought]}
    sent = payload(MESSAGES, message, USER, provider="anthropic")["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["text"]
    thought["provider"] = "minimax"
    sent = payload(MESSAGES, message, USER, provider="minimax")["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text"]


@pytest.mark.parametrize(
    ("name", "adaptive"),
    [
        ("claude-opus-5-5", True),
        ("claude-sonnet-4-6", True),
        ("claude-opus-4.7", True),
        ("claude-haiku-5-5", True),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-opus-4-20250514", False),
        ("claude-haiku-4-5", False),
        ("claude-3-7-sonnet-latest", False),
        ("MiniMax-M3", False),
    ],
)
def test_how_thinking_is_asked_for(name, adaptive):
    sent = payload(MESSAGES, effort="high", name=name)
    if adaptive:
        assert sent["thinking"] == {"type": "adaptive", "display": "summarized"}
        assert sent["output_config"] == {"effort": "high"}
    else:
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 24_000}
        assert sent["max_tokens"] > 24_000
    assert "thinking" not in payload(MESSAGES, name=name)


def test_thinking_is_not_switched_on_in_the_middle_of_a_turn():
    call = {"id": "c", "function": {"name": "t", "arguments": "{}"}}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    history = [called, {"role": "tool", "tool_call_id": "c", "content": "r"}]
    old = "claude-sonnet-4-5"
    assert "thinking" not in payload(MESSAGES, *history, effort="high", name=old)
    next_turn = [*history, {"role": "assistant", "content": "So."}, USER]
    assert "thinking" in payload(MESSAGES, *next_turn, effort="high", name=old)
    thought = {"type": "thinking", "thinking": "x", "signature": "s", "provider": "custom"}
    history[0] = {**called, "reasoning_details": [thought]}
    assert "thinking" in payload(MESSAGES, *history, effort="high", name=old)


def test_a_small_window_leaves_no_room_for_thinking():
    sent = payload(MESSAGES, effort="high", context_length=2048)
    assert "thinking" not in sent
    assert sent["max_tokens"] == 1024


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
    ],
)
async def test_stop_reasons(reason, expected):
    events = sse(
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"input_tokens": 4}},
        {"type": "message_stop"},
    )
    finished = (await reply(MESSAGES, events)).finished
    assert finished.reason == expected
    assert finished.usage.input_tokens == 4


@pytest.mark.parametrize(
    ("why", "expected"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
async def test_an_incomplete_response(why, expected):
    response = {"status": "incomplete", "incomplete_details": {"reason": why}}
    events = sse(
        {"type": "response.output_text.delta", "delta": "half"},
        {"type": "response.incomplete", "response": response},
    )
    found = await reply(RESPONSES, events)
    assert (found.text, found.finished.reason) == ("half", expected)


def test_temperature_is_left_out_where_it_is_refused():
    def temperature(protocol: str, **options: Any) -> float | None:
        model = model_for(protocol, URL, **options)
        assert isinstance(model, HttpModel)
        return model._payload(ModelRequest([USER], temperature=0.3)).get("temperature")

    assert temperature(MESSAGES, name="claude-opus-5-5") is None
    assert temperature(MESSAGES, name="claude-haiku-4-5") == 0.3
    assert temperature(RESPONSES, reasoning=True) is None
    assert temperature(RESPONSES, reasoning=False) == 0.3
