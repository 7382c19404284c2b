"""All three protocols against a real server: llama.cpp with a small model."""

from __future__ import annotations

import pytest
from fake_provider import CHAT, MESSAGES, PROTOCOLS, collect, model_for

from agent.errors import AuthenticationError, ContextTooLongError
from agent.model import Finished, Model, ModelRequest, TextDelta

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS)

TOOL = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


def real_model(protocol, server, **options) -> Model:
    defaults = {
        "name": server.model,
        "api_key": server.api_key,
        "context_length": server.context_length,
        "timeout": 120.0,
        "vision": False,
    }
    return model_for(protocol, server.url, **{**defaults, **options})


async def answer(model: Model, request: ModelRequest):
    try:
        return await collect(model.stream(request))
    finally:
        await model.aclose()


async def test_a_real_answer_arrives_in_pieces_with_usage(protocol, llama_server):
    model = real_model(protocol, llama_server)
    request = ModelRequest(
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        system="Answer in one sentence.",
        max_tokens=40,
        temperature=0.0,
        session_id="s1",
    )
    chunks = [chunk async for chunk in model.stream(request)]
    await model.aclose()
    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    assert len(texts) > 1
    assert "Paris" in "".join(texts)
    finished = chunks[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "stop"
    assert finished.model == "smol"
    assert finished.usage.input_tokens > 10
    assert finished.usage.output_tokens >= len(texts) - 1


async def test_the_second_turn_reads_the_cache(protocol, llama_server):
    model = real_model(protocol, llama_server)
    messages = [{"role": "user", "content": f"Say hello, {protocol}. " + "Be kind. " * 10}]
    request = ModelRequest(messages=messages, system="Be brief.", max_tokens=8, temperature=0.0)
    first = await answer(model, request)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "More."}]
    second = await answer(model, request)
    assert second.finished.usage.cache_read_tokens > 20
    assert second.finished.usage.input_tokens > second.finished.usage.cache_read_tokens


async def test_an_answer_that_reaches_its_limit_says_so(protocol, llama_server):
    messages = [{"role": "user", "content": "Write a very long story about a dragon."}]
    request = ModelRequest(messages=messages, max_tokens=16, temperature=0.0)
    found = await answer(real_model(protocol, llama_server), request)
    assert found.finished.usage.output_tokens == 16
    # llama.cpp's own Responses endpoint calls every answer complete.
    assert found.finished.reason == ("length" if protocol in (CHAT, MESSAGES) else "stop")


async def test_a_history_with_tools_and_pictures_is_accepted(protocol, llama_server):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    call = {"id": "c:1", "type": "function", "function": {"name": "terminal", "arguments": "{oops"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm"},
        {"role": "tool", "tool_call_id": "c:1", "tool_name": "terminal", "content": [picture]},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks"},
    ]
    request = ModelRequest(messages=messages, tools=[TOOL], max_tokens=16, temperature=0.0)
    found = await answer(real_model(protocol, llama_server), request)
    assert found.finished is not None


async def test_a_prompt_that_does_not_fit_is_too_long(protocol, llama_server):
    messages = [{"role": "user", "content": "word " * 4000}]
    with pytest.raises(ContextTooLongError, match="2048"):
        await answer(real_model(protocol, llama_server), ModelRequest(messages=messages))


async def test_a_wrong_key_is_not_accepted(protocol, llama_server):
    model = real_model(protocol, llama_server, api_key="wrong-key-5678", provider="openrouter")
    request = ModelRequest(messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(AuthenticationError, match="OPENROUTER_API_KEY") as caught:
        await answer(model, request)
    assert "wrong-key" not in str(caught.value)
