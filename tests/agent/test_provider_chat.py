"""Chat completions: tool calls put together from every dialect, and providers' peculiarities."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_provider import CHAT, FakeProvider, Reply, collect, delta, model_for, sse
from hypothesis import given
from hypothesis import strategies as st

from agent.model import ModelRequest, ToolCallDelta, Usage
from agent.providers.chat_completions import ChatCompletionsModel
from agent.providers.tool_call_merge import ToolCallMerge


def merged(*pieces: dict[str, Any]) -> list[list[str]]:
    """[[id, name, arguments], ...] as a reader of the chunks sees them."""
    merge = ToolCallMerge()
    calls: dict[int, list[str]] = {}
    for piece in pieces:
        chunk, _ = merge.feed(piece)
        if chunk is None:
            continue
        assert isinstance(chunk, ToolCallDelta)
        if chunk.index not in calls:
            assert chunk.index == len(calls)
            assert chunk.id and chunk.name
            calls[chunk.index] = [chunk.id, chunk.name, ""]
        calls[chunk.index][2] += chunk.arguments
    merge.check()
    return [calls[index] for index in sorted(calls)]


def piece(
    index: int | None = None,
    call_id: str | None = None,
    name: str | None = None,
    arguments: Any = "",
) -> dict[str, Any]:
    item: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        item["index"] = index
    if call_id is not None:
        item["id"] = call_id
    if name is not None:
        item["function"]["name"] = name
    return item


LS, CAT = '{"command": "ls"}', '{"command": "cat"}'
BOTH = [["a", "terminal", LS], ["b", "terminal", CAT]]


@pytest.mark.parametrize(
    "pieces",
    [
        # By the book, also interleaved.
        [piece(0, "a", "terminal"), piece(0, arguments=LS), piece(1, "b", "terminal", CAT)],
        [
            piece(0, "a", "terminal", LS[:5]),
            piece(1, "b", "terminal", CAT[:7]),
            piece(0, arguments=LS[5:]),
            piece(1, arguments=CAT[7:]),
        ],
        # No index.
        [piece(None, "a", "terminal", LS), piece(None, "b", "terminal", CAT)],
        [
            piece(None, "a", "terminal"),
            piece(None, arguments=LS[:4]),
            piece(None, arguments=LS[4:]),
            piece(None, "b", "terminal", CAT),
        ],
        # The id (and the name) with every piece, with and without an index.
        [
            piece(0, "a", "terminal", LS[:4]),
            piece(0, "a", "terminal", LS[4:]),
            piece(1, "b", "terminal", CAT[:4]),
            piece(1, "b", "terminal", CAT[4:]),
            piece(1, "b", "terminal", ""),
        ],
        [
            piece(None, "a", "terminal", LS[:4]),
            piece(None, "b", "terminal", CAT[:4]),
            piece(None, "a", None, LS[4:]),
            piece(None, "b", "", CAT[4:]),
        ],
        # Index 0 for all.
        [piece(0, "a", "terminal", LS), piece(0, "b", "terminal", CAT)],
        # Arguments as an object, empty strings for what is missing.
        [
            piece(0, "a", "terminal", {"command": "ls"}),
            piece(1, "b", "terminal", None),
            piece(1, "", "", CAT),
        ],
        # The name after the id.
        [piece(0, "a"), piece(0, None, "terminal", LS), piece(1, "b", "terminal", CAT)],
    ],
)
def test_dialects_of_two_calls(pieces):
    assert merged(*pieces) == BOTH


@pytest.mark.parametrize("call_id", ["", None, "same"])
@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_an_id_of_their_own_get_one(call_id, index):
    calls = merged(
        piece(index, call_id, "terminal", LS),
        piece(index, call_id, "terminal", CAT),
        piece(index, call_id, "todo", "{}"),
    )
    assert [call[1:] for call in calls] == [["terminal", LS], ["terminal", CAT], ["todo", "{}"]]
    assert len({call[0] for call in calls}) == 3
    assert all(call[0] for call in calls)


def test_one_id_for_two_indexes():
    calls = merged(piece(0, "same", "terminal", LS), piece(1, "same", "terminal", CAT))
    assert [call[1:] for call in calls] == [["terminal", LS], ["terminal", CAT]]
    assert calls[0][0] == "same" != calls[1][0]


def test_arguments_that_are_not_json_pass_as_they_are():
    assert merged(piece(0, "a", "t", "{oops"), piece(0, arguments=" and")) == [
        ["a", "t", "{oops and"]
    ]


def test_a_call_that_never_gets_a_name_is_refused():
    with pytest.raises(ValueError, match="no name"):
        merged(piece(0, "a", None, LS))


@given(st.data())
def test_any_interleaving_by_the_book(data):
    wanted = [
        [f"c{i}", "t", json.dumps({"x": i * "y"})] for i in range(data.draw(st.integers(1, 4)))
    ]
    queues = []
    for index, (call_id, name, arguments) in enumerate(wanted):
        size = data.draw(st.integers(1, 5))
        rest = [arguments[i : i + size] for i in range(0, len(arguments), size)]
        queues.append([piece(index, call_id, name), *(piece(index, arguments=r) for r in rest)])
    pieces = [queue.pop(0) for queue in queues]
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        pieces.append(queue.pop(0))
    assert merged(*pieces) == wanted


async def answer(*events: dict[str, Any] | str, **options: Any):
    async with FakeProvider(Reply(sse(*events))) as fake:
        model = model_for(CHAT, fake.url, **options)
        found = await collect(model.stream(ModelRequest([{"role": "user", "content": "Hi"}])))
        await model.aclose()
    return found


@pytest.mark.parametrize(
    ("wire", "with_call", "expected"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("function_call", True, "tool_calls"),
        ("length", False, "length"),
        ("length", True, "length"),
        ("MAX_TOKENS", False, "length"),
        ("content_filter", False, "content_filter"),
        ("something_new", False, "stop"),
    ],
)
async def test_finish_reasons(wire, with_call, expected):
    calls = [delta({"tool_calls": [piece(0, "a", "t", "{}")]})] if with_call else []
    found = await answer(delta({"content": "x"}), *calls, delta({}, wire), "[DONE]")
    assert found.finished.reason == expected


async def test_the_end_may_come_without_done_or_usage():
    found = await answer(delta({"content": "x"}), delta({"content": "y"}, "stop"))
    assert found.text == "xy"
    assert found.finished == ("stop", Usage(), "m-1")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 2)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}, Usage(9, 0, 8)),
        ({"prompt_tokens": 9, "cached_tokens": 8}, Usage(9, 0, 8)),
        (
            {
                "prompt_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
            },
            Usage(9, 0, 3, 4),
        ),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, Usage()),
    ],
)
@pytest.mark.parametrize("place", ["event", "choice"])
async def test_usage_in_every_dialect(usage, expected, place):
    last = delta({}, "stop")
    (last if place == "event" else last["choices"][0])["usage"] = usage
    found = await answer(delta({"content": "x"}), last, "[DONE]")
    assert found.finished.usage == expected


async def test_reasoning_in_every_dialect():
    found = await answer(
        delta({"reasoning_content": "a"}),
        delta({"reasoning": "b", "content": ""}),
        delta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "c"}]}]}),
        delta({"content": [{"type": "text", "text": "answer"}]}),
        delta({}, "stop"),
    )
    assert (found.reasoning, found.text) == ("abc", "answer")


async def test_a_refusal_is_the_answer():
    found = await answer(delta({"content": None, "refusal": "No."}), delta({}, "stop"))
    assert found.text == "No."


async def test_reasoning_details_come_back_as_they_were():
    found = await answer(
        delta({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "ab"}]}),
        delta({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "c"}]}),
        delta({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]}),
        delta({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "d"}]}),
        delta({"content": "x"}, "stop"),
        provider="openrouter",
    )
    items = [
        {"type": "reasoning.text", "index": 0, "text": "abc", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "d"},
    ]
    assert found.details == [{**item, "provider": "openrouter"} for item in items]
    message = {"role": "assistant", "content": "x", "reasoning_details": found.details}
    assert sent("openrouter", message)[0]["reasoning_details"] == items
    assert "reasoning_details" not in sent("groq", message)[0]


def sent(provider: str, *messages: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return payload(provider, ModelRequest(list(messages)), **options)["messages"]


def payload(provider: str, request: ModelRequest, **options: Any) -> dict[str, Any]:
    model = model_for(CHAT, "http://127.0.0.1:1", provider=provider, **options)
    assert isinstance(model, ChatCompletionsModel)
    return model._payload(request)


CALLED = {
    "role": "assistant",
    "content": None,
    "reasoning": "hm",
    "tool_calls": [{"id": "call_1", "function": {"name": "t", "arguments": "{}"}}],
}


async def test_what_google_attaches_to_a_call_comes_back():
    signature = {"google": {"thought_signature": "sig"}}
    call = {**piece(0, "call_1", "t", "{}"), "extra_content": signature}
    found = await answer(delta({"tool_calls": [call]}), delta({}, "stop"), provider="google")
    message = {**CALLED, "reasoning_details": found.details}
    assert sent("google", message)[0]["tool_calls"][0]["extra_content"] == signature
    assert "extra_content" not in sent("custom", message)[0]["tool_calls"][0]
    # A call of another model has no signature; Google has a word for that.
    extra = sent("google", CALLED)[0]["tool_calls"][0]["extra_content"]
    assert extra["google"]["thought_signature"] == "skip_thought_signature_validator"


def test_some_want_the_reasoning_of_calls_back():
    assert sent("deepseek", CALLED)[0]["reasoning_content"] == "hm"
    assert sent("deepseek", {**CALLED, "reasoning": None})[0]["reasoning_content"] == ""
    assert "reasoning_content" not in sent("custom", CALLED)[0]


def test_mistral_has_its_own_ids_and_reports_usage_unasked():
    for call_id in ("call_1", "abcdefghi", "x", "1" * 60):
        message = {**CALLED, "tool_calls": [{**CALLED["tool_calls"][0], "id": call_id}]}
        result = {"role": "tool", "tool_call_id": call_id, "content": "r"}
        first, second = sent("mistral", message, result)
        assert first["tool_calls"][0]["id"] == second["tool_call_id"]
        assert len(second["tool_call_id"]) == 9
        assert second["tool_call_id"].isalnum()
    assert "stream_options" not in payload("mistral", ModelRequest([]))


def test_settings_go_where_each_provider_wants_them():
    request = ModelRequest(
        [], max_tokens=5, temperature=0.5, reasoning_effort="low", session_id="s"
    )
    plain = payload("custom", request)
    assert (plain["max_tokens"], plain["temperature"]) == (5, 0.5)
    assert plain["reasoning_effort"] == "low"
    assert "prompt_cache_key" not in plain
    official = payload(
        "openai", request, base_url="https://api.openai.com/v1", reasoning=True, name="gpt-5"
    )
    assert official["max_completion_tokens"] == 5
    assert official["prompt_cache_key"] == "s"
    assert "temperature" not in official and "max_tokens" not in official
    router = payload("openrouter", request, name="anthropic/claude-opus-5.5")
    assert router["reasoning"] == {"effort": "low"}
    assert router["cache_control"] == {"type": "ephemeral"}
