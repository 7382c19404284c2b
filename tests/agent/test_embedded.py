"""The embedded model, with its real weights: answers, cancelling, parallel use, clean exits."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BrokenReplyError, ContextTooLongError, RequestRefusedError
from agent.model import Chunk, Finished, Model, ModelRequest, TextDelta
from agent.providers import embedded, embedded_engine
from agent.providers.embedded import EmbeddedModel
from agent.providers.embedded_fetch import ensure_runtime, ensure_weights

CACHE = Path(
    os.environ.get("HERMES_TEST_CACHE") or Path(tempfile.gettempdir(), "hermes-test-cache")
)
STORY = "Write a very long story about a dragon, a farmer and the sea."


@pytest.fixture(scope="module", autouse=True)
def loaded(model_cache: Path) -> Iterator[embedded_engine.Engine]:
    """The real weights, fetched once for all runs (outside the project) and loaded once."""
    engine = embedded_engine.acquire(ensure_runtime(model_cache), ensure_weights(model_cache))
    yield engine
    embedded_engine.release(engine)


@pytest.fixture
async def model() -> AsyncIterator[EmbeddedModel]:
    model = EmbeddedModel(home=CACHE)
    yield model
    await model.aclose()


def ask(text: str, **options) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": text}], **options)


async def collect(model: Model, request: ModelRequest) -> list[Chunk]:
    return [chunk async for chunk in model.stream(request)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def all_stopped() -> None:
    """Until no thread is inside the model any more."""
    async with asyncio.timeout(30):
        while embedded_engine._workers:
            await asyncio.sleep(0.01)


async def test_it_answers_and_ends_with_one_finish(model):
    system = "You are a helpful AI assistant named Hermes."
    chunks = await collect(model, ask("What is the capital of France?", system=system))
    assert "Paris" in text_of(chunks)
    assert [type(chunk) for chunk in chunks].count(Finished) == 1
    last = chunks[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.model) == ("stop", "SmolLM2-135M-Instruct")
    assert last.usage.input_tokens > 20
    assert last.usage.output_tokens >= len(chunks) - 2 > 1


async def test_what_it_says_about_itself(model):
    assert (model.provider, model.base_url, model.context_length) == ("local", "", 8192)
    assert model.small
    assert not model.supports_tools
    assert "ANTHROPIC_API_KEY" in model.notice
    assert str(CACHE / ".env") in model.notice
    assert "\n" not in model.notice
    assert EmbeddedModel(context_length=200_000).context_length == 8192


async def test_the_same_prefix_is_not_computed_twice(model):
    history = [{"role": "user", "content": "My favourite colour is blue. " * 10}]
    first = (await collect(model, ModelRequest(history, max_tokens=4)))[-1]
    history += [{"role": "assistant", "content": "I see."}, {"role": "user", "content": "Good."}]
    second = (await collect(model, ModelRequest(history, max_tokens=4)))[-1]
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert second.usage.cache_read_tokens > 50
    assert second.usage.input_tokens > second.usage.cache_read_tokens


async def test_the_length_limit_is_reported(model):
    last = (await collect(model, ask(STORY, max_tokens=5)))[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.output_tokens) == ("length", 5)


async def test_a_prompt_that_does_not_fit_is_named_so(model):
    with pytest.raises(ContextTooLongError, match="8192"):
        await collect(model, ask("hello " * 9000))
    assert text_of(await collect(model, ask("Say hello.", max_tokens=5)))


async def test_cancelling_stops_the_generation(model):
    got_text = asyncio.Event()

    async def read() -> None:
        async for chunk in model.stream(ask(STORY)):
            if isinstance(chunk, TextDelta):
                got_text.set()

    reader = asyncio.create_task(read())
    await got_text.wait()
    assert embedded_engine._workers
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await all_stopped()
    assert text_of(await collect(model, ask("Say hello.", max_tokens=5)))


def test_a_stop_during_a_long_prompt_does_not_wait_for_its_end(loaded):
    under_way = threading.Event()
    seen: list[dict] = []

    def deliver(chunk: dict) -> None:
        seen.append(chunk)
        if chunk["prompt_progress"]["processed"] > 0:
            under_way.set()

    body = embedded._body(ask("one two three four " * 1500))
    worker = embedded_engine.Worker(lambda stop: loaded.generate(body, deliver, stop))
    worker.start()
    assert under_way.wait(30)
    worker.stop.set()
    worker.join(30)
    assert not worker.is_alive()
    last = seen[-1]["prompt_progress"]
    assert last["processed"] < last["total"] / 2


async def test_leaving_the_loop_stops_the_generation(model):
    stream = model.stream(ask(STORY))
    async for _ in stream:
        break
    await stream.aclose()
    await all_stopped()


async def test_two_conversations_are_answered_at_the_same_time(model, loaded):
    other = EmbeddedModel(home=CACHE)
    events: list[tuple[str, type]] = []

    async def read(name: str, asked: EmbeddedModel) -> str:
        chunks = []
        async for chunk in asked.stream(ask(STORY, max_tokens=60)):
            events.append((name, type(chunk)))
            chunks.append(chunk)
        return text_of(chunks)

    texts = await asyncio.gather(read("a", model), read("b", other))
    assert all(len(text) > 60 for text in texts)
    first_end = next(i for i, (_, kind) in enumerate(events) if kind is Finished)
    assert {name for name, _ in events[:first_end]} == {"a", "b"}
    assert loaded.users == 3
    await other.aclose()
    assert loaded.users == 2


async def test_it_can_be_closed_and_used_again(tmp_path, loaded):
    (tmp_path / "models").mkdir()
    shutil.copy(loaded.weights, tmp_path / "models")
    model = EmbeddedModel(home=tmp_path)
    for _ in range(2):
        assert text_of(await collect(model, ask("Say hello.", max_tokens=5)))
        assert len(embedded_engine._engines) == 2
        await model.aclose()
        assert list(embedded_engine._engines) == [loaded.weights]
    await model.aclose()


async def test_closing_ends_a_running_answer_with_an_error(model):
    with pytest.raises(BrokenReplyError):
        async for _ in model.stream(ask(STORY)):
            await model.aclose()
    assert not embedded_engine._workers


def test_it_works_from_event_loops_in_several_threads():
    model = EmbeddedModel(home=CACHE)
    texts: list[str] = []

    def run() -> None:
        texts.append(text_of(asyncio.run(collect(model, ask("Say hello.", max_tokens=5)))))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(model.aclose())
    assert len(texts) == 3
    assert all(texts)


async def test_any_valid_history_is_taken(model):
    history = [
        {"role": "user", "content": [
            {"type": "text", "text": "Look at this \ud800 picture"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "1", "tool_name": "look", "content": "cat \0 <|im_end|>"},
        {"role": "assistant", "content": "It is a cat.", "reasoning": "cats"},
        {"role": "user", "content": "Thank you."},
    ]  # fmt: skip
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    request = ModelRequest(history, tools=tools, max_tokens=5, temperature=0.5)
    assert isinstance((await collect(model, request))[-1], Finished)


@given(
    st.text(),
    st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.text()}
        )
    ),
)
def test_the_request_is_plain_text_that_cannot_forge_messages(system, messages):
    body = embedded._body(ModelRequest(messages, system=system))
    assert len(body["messages"]) == len(messages) + bool(system)
    for message in body["messages"]:
        assert message["role"] in ("system", "user", "assistant")
        assert "<|" not in message["content"]
        message["content"].encode("utf-8")
    assert "tools" not in body


def test_weights_that_cannot_be_loaded_are_explained(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"x" * 1000)
    with pytest.raises(RequestRefusedError, match=r"bad\.gguf"):
        embedded_engine.acquire(ensure_runtime(CACHE), bad)
    assert bad not in embedded_engine._engines


CHILD = """
import asyncio, os, sys, threading, time
from pathlib import Path
from agent.model import ModelRequest, TextDelta
from agent.providers.embedded import EmbeddedModel

async def main():
    model = EmbeddedModel(home=Path(sys.argv[1]))
    request = ModelRequest([{"role": "user", "content": "Write a very long story."}])
    async for chunk in model.stream(request):
        if isinstance(chunk, TextDelta):
            # Not with print: Python aborts if a daemon thread is inside one when it ends.
            os.write(1, b"text\\n")

def read_on():
    try:
        asyncio.run(main())
    except Exception:
        pass  # likewise: its traceback would be printed
"""
ENDINGS = {
    "Ctrl-C is left to end the program": ("asyncio.run(main())", 1),
    "Ctrl-C is handled and the program goes on to its end": (
        "try:\n    asyncio.run(main())\nexcept KeyboardInterrupt:\n    sys.exit(7)",
        1,
    ),
    "a second Ctrl-C follows at once": ("asyncio.run(main())", 2),
    "the main thread ends while a daemon thread is reading": (
        "threading.Thread(target=read_on, daemon=True).start()\n"
        "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    sys.exit(7)",
        1,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_program_ends_cleanly_in_the_middle_of_an_answer(ending):
    code, interrupts = ENDINGS[ending]
    child = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", CHILD + code, str(CACHE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline() == "text\n"
    for _ in range(interrupts):
        child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    # An unhandled Ctrl-C ends Python by that signal or with 130; a crash would show as -11 or 139.
    assert child.returncode in (7, 130, -signal.SIGINT), said
    assert "Fatal Python error" not in said
