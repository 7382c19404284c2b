"""Any valid history can be sent to any protocol, and always becomes the same bytes."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from fake_provider import CHAT, MESSAGES, PROTOCOLS, RESPONSES, model_for
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model import ModelRequest
from agent.providers.base import HttpModel

PNG = "data:image/png;base64,iVBORw0KGgo="
TOOL = {
    "type": "function",
    "function": {"name": "t", "description": "d", "parameters": {"type": "object"}},
}

texts = st.text(max_size=12)
images = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": PNG},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}},
        {"type": "image_url", "image_url": {"url": ""}},
    ]
)
parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    images,
    texts,
    st.just({"type": "audio", "data": "x"}),
)
contents = st.one_of(st.none(), texts, st.lists(parts, max_size=3))
call_ids = st.one_of(
    st.sampled_from(["call_1", "functions.t:0", "ä", "x" * 100, "a|b"]), st.text(min_size=1)
)
arguments = st.sampled_from(["{}", "", '{"a": 1}', "{oops", "[1]", "null", '{"a": NaN}', "ü"])
details = st.sampled_from(
    [
        {"type": "thinking", "thinking": "t", "signature": "s", "provider": "custom"},
        {"type": "thinking", "thinking": "t", "signature": "s", "provider": "other"},
        {"type": "redacted_thinking", "data": "d", "provider": "custom", "position": 5},
        {"type": "reasoning", "id": "r", "encrypted_content": "e", "provider": "custom"},
        {"type": "reasoning.text", "text": "t", "provider": "custom"},
        {"type": "unknown"},
        "garbage",
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of a user's message, any number of tool rounds, and mostly an answer."""
    history: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        history.append({"role": "user", "content": draw(contents)})
        for _ in range(draw(st.integers(0, 2))):
            ids = draw(st.lists(call_ids, min_size=1, max_size=3, unique=True))
            history.append(
                {
                    "role": "assistant",
                    "content": draw(contents),
                    "reasoning": draw(st.none() | texts),
                    "reasoning_details": draw(st.none() | st.lists(details, max_size=2)),
                    "tool_calls": [
                        {
                            "id": call_id,
                            "type": "function",
                            "function": {"name": "t", "arguments": draw(arguments)},
                        }
                        for call_id in ids
                    ],
                }
            )
            for call_id in ids:
                message = {"role": "tool", "tool_call_id": call_id, "tool_name": "t"}
                history.append({**message, "content": draw(contents)})
        if draw(st.booleans()):
            answer = {"role": "assistant", "content": draw(contents)}
            answer["reasoning_details"] = draw(st.none() | st.lists(details, max_size=2))
            history.append(answer)
    return history


def payload(protocol: str, request: ModelRequest, **options: Any) -> dict[str, Any]:
    model = model_for(protocol, "http://127.0.0.1:1", **options)
    assert isinstance(model, HttpModel)
    return model._payload(request)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("vision", [True, False])
@settings(max_examples=60, deadline=None)
@given(history=histories(), effort=st.sampled_from([None, "high"]))
def test_every_history_obeys_the_protocol(protocol, vision, history, effort):
    request = ModelRequest(history, system="s", tools=[TOOL], reasoning_effort=effort)
    before = copy.deepcopy(history)
    sent = payload(protocol, request, vision=vision)
    text = json.dumps(sent, allow_nan=False)
    assert history == before, "the history itself must not change"
    assert json.dumps(payload(protocol, request, vision=vision)) == text
    if not vision:
        assert "iVBOR" not in text
    assert '"provider"' not in text
    {CHAT: check_chat, RESPONSES: check_responses, MESSAGES: check_messages}[protocol](sent)


def check_chat(sent: dict[str, Any]) -> None:
    due: list[str] = []
    for message in sent["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == due.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not due
        assert message["content"] or message.get("tool_calls")
        for call in message.get("tool_calls", ()):
            assert len(call["id"]) <= 40
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            due.append(call["id"])


def check_responses(sent: dict[str, Any]) -> None:
    due: list[str] = []
    for item, following in zip(sent["input"], [*sent["input"][1:], None], strict=True):
        if item["type"] == "function_call":
            due.append(item["call_id"])
        elif item["type"] == "function_call_output":
            due.remove(item["call_id"])
        elif item["type"] == "reasoning":
            assert following is not None
            assert following["type"] in ("reasoning", "message", "function_call")
            assert following.get("role") != "user"
        else:
            assert item["content"]
    assert not due


def check_messages(sent: dict[str, Any]) -> None:
    roles = [message["role"] for message in sent["messages"]]
    assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
    due: list[str] = []
    markers = json.dumps(sent).count("cache_control")
    assert 1 <= markers <= 4
    for message in sent["messages"]:
        assert message["content"]
        if message["role"] == "assistant":
            assert "thinking" not in message["content"][-1]["type"]
        for block in message["content"]:
            if block["type"] == "text":
                assert block["text"].strip()
            elif block["type"] == "tool_use":
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
                assert isinstance(block["input"], dict)
                due.append(block["id"])
            elif block["type"] == "tool_result":
                due.remove(block["tool_use_id"])
        if message["role"] == "user":
            assert not due


GREETING = {"role": "user", "content": "Hi"}


def conversation(*more: dict[str, Any]) -> ModelRequest:
    return ModelRequest([GREETING, *more], system="sys", tools=[TOOL])


def called(**extra: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a":1}'}}
    return {"role": "assistant", "content": "Look:", "tool_calls": [call], **extra}


def result(content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "tool_name": "t", "content": content}


def test_chat_in_full():
    sent = payload(CHAT, conversation(called(reasoning="hm"), result("out")))
    assert sent == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [TOOL],
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": "Hi"},
            called(),
            {"role": "tool", "tool_call_id": "c1", "content": "out"},
        ],
    }


def test_responses_in_full():
    request = conversation(called(), result("out"))
    request.session_id, request.max_tokens, request.reasoning_effort = "s1", 5, "low"
    assert payload(RESPONSES, request, reasoning=True) == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "sys",
        "max_output_tokens": 16,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "prompt_cache_key": "s1",
        "tools": [
            {
                "type": "function",
                "name": "t",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Hi"}],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Look:"}],
            },
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "out"},
        ],
    }


def test_messages_in_full():
    marker = {"cache_control": {"type": "ephemeral"}}
    assert payload(MESSAGES, conversation(called(), result("out")), context_length=200_000) == {
        "model": "m",
        "stream": True,
        "max_tokens": 32_000,
        "system": [{"type": "text", "text": "sys", **marker}],
        "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}, **marker}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", **marker}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "out"}],
                        **marker,
                    }
                ],
            },
        ],
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_longer_conversation_begins_with_the_shorter_one(protocol):
    """But for the cache markers, which are not part of what is cached."""

    def body(request: ModelRequest) -> list[str]:
        sent = payload(protocol, request)
        marker = ', "cache_control": {"type": "ephemeral"}'
        items = sent.get("messages") or sent["input"]
        return [json.dumps(item).replace(marker, "") for item in items]

    turns = [called(), result("out"), {"role": "assistant", "content": "So."}, GREETING]
    for end in range(len(turns)):
        shorter = body(conversation(*turns[:end]))
        assert body(conversation(*turns[: end + 1]))[: len(shorter)] == shorter


def test_the_marker_of_the_call_before_is_still_there():
    """Each call marks the two last user messages: one it finds in the cache, one it adds."""
    first = payload(MESSAGES, conversation())["messages"]
    second = payload(MESSAGES, conversation(called(), result("out")))["messages"]
    assert "cache_control" in first[-1]["content"][-1]
    assert "cache_control" in second[0]["content"][-1]
    assert "cache_control" in second[-1]["content"][-1]


def test_pictures_in_every_protocol():
    image = {"type": "image_url", "image_url": {"url": PNG}}
    link = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    request = ModelRequest([{"role": "user", "content": ["see", image, link]}])
    sent = payload(CHAT, request)["messages"][0]["content"]
    assert sent == [{"type": "text", "text": "see"}, image, link]
    sent = payload(RESPONSES, request)["input"][0]["content"]
    assert [part.get("image_url") for part in sent] == [None, PNG, "https://example.com/a.png"]
    sent = payload(MESSAGES, request)["messages"][0]["content"]
    base64 = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert [block.get("source") for block in sent] == [
        None,
        base64,
        {"type": "url", "url": "https://example.com/a.png"},
    ]


def test_pictures_of_tool_results():
    image = {"type": "image_url", "image_url": {"url": PNG}}
    request = conversation(called(), result([{"type": "text", "text": "shot"}, image]))
    sent = payload(CHAT, request)["messages"][-2:]
    assert sent[0] == {"role": "tool", "tool_call_id": "c1", "content": "shot"}
    assert sent[1] == {"role": "user", "content": [image]}
    output = payload(RESPONSES, request)["input"][-1]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image"]
    block = payload(MESSAGES, request)["messages"][-1]["content"][0]
    assert [part["type"] for part in block["content"]] == ["text", "image"]


def test_a_message_after_a_picture_takes_it_along():
    image = {"type": "image_url", "image_url": {"url": PNG}}
    request = conversation(called(), result([image]), {"role": "user", "content": "Well?"})
    sent = payload(CHAT, request)["messages"][-1]
    assert sent == {"role": "user", "content": [image, {"type": "text", "text": "Well?"}]}
