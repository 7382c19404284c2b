"""The same promises for every protocol: whole replies arrive whole, and no other reply passes."""

from __future__ import annotations

import asyncio
import gzip
import random
import threading
from contextlib import aclosing
from itertools import pairwise

import pytest
from fake_provider import (
    ASK,
    CALLS,
    CHAT,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    TEXT,
    Answer,
    FakeProvider,
    Reply,
    ask,
    collect,
    join,
    model_for,
    sse,
    whole_reply,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import BrokenReplyError, ConnectionFailedError
from agent.model import TextDelta, Usage
from hermes_cli import __version__

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS)


async def exchange(protocol: str, *replies: Reply, **options) -> Answer:
    async with FakeProvider(*replies) as fake:
        model = model_for(protocol, fake.url, **options)
        try:
            return await collect(model.stream(ASK))
        finally:
            await model.aclose()


def check_whole(answer: Answer, protocol: str) -> None:
    assert answer.text == TEXT
    assert answer.reasoning == "Hm, gut."
    assert answer.calls == CALLS
    written = 3 if protocol == MESSAGES else 0
    reasoned = 0 if protocol == MESSAGES else 4
    assert answer.finished == ("tool_calls", Usage(30, 12, 20, written, reasoned), "m-1")


async def test_a_whole_reply(protocol):
    check_whole(await exchange(protocol, Reply(whole_reply(protocol))), protocol)


async def test_a_body_that_ends_with_the_connection(protocol):
    check_whole(await exchange(protocol, Reply(whole_reply(protocol), framing="eof")), protocol)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_split_gives_the_same_reply(protocol, data):
    body = join(whole_reply(protocol))
    places = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=40, unique=True))
    edges = [0, *sorted(places), len(body)]
    pieces = [body[start:end] for start, end in pairwise(edges)]
    check_whole(asyncio.run(exchange(protocol, Reply(pieces))), protocol)


async def test_single_bytes_give_the_same_reply(protocol):
    body = join(whole_reply(protocol))
    pieces = [body[i : i + 1] for i in range(len(body))]
    check_whole(await exchange(protocol, Reply(pieces)), protocol)


async def test_a_reply_cut_between_any_two_events_is_broken(protocol):
    events = whole_reply(protocol)
    for end in range(len(events)):
        with pytest.raises(BrokenReplyError):
            await exchange(protocol, Reply(events[:end], ending="cut"))


async def test_a_reply_cut_anywhere_is_broken(protocol):
    body = join(whole_reply(protocol))
    for place in random.Random(protocol).sample(range(len(body) - 1), 60):
        with pytest.raises(BrokenReplyError):
            await exchange(protocol, Reply([body[:place]], ending="cut"))


async def test_a_cut_that_looks_like_the_end_is_broken_all_the_same(protocol):
    """Without framing an early end and a proper one look alike, but for what the events say."""
    events = whole_reply(protocol)
    last_needed = {CHAT: 12, RESPONSES: len(events), MESSAGES: len(events)}[protocol]
    for end in range(last_needed):
        with pytest.raises(BrokenReplyError):
            await exchange(protocol, Reply(events[:end], framing="eof"))


async def test_a_proper_body_without_the_last_event_is_broken(protocol):
    events = whole_reply(protocol)
    end = 11 if protocol == CHAT else len(events) - 1
    with pytest.raises(BrokenReplyError):
        await exchange(protocol, Reply(events[:end]))


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00\xff\xfe" * 100,
        b"data: not json\n\n",
        b"data: [1, 2]\n\n",
        b'data: "text"\n\n',
        b"data: {\n\n",
        b"data: \xff\xfe\n\n",
        b'data: {"type": "content_block_delta", "index": 9, "choices": [1], "item": 3}\n\n',
        b'data: {"type": "response.output_text.delta", "choices": {"a": 1}}\n\n',
        b"data: {}\n\n",
        b"data: [DONE]\n\n",
    ],
)
async def test_garbage_is_a_broken_reply(protocol, garbage):
    with pytest.raises(BrokenReplyError):
        await exchange(protocol, Reply([garbage]))


async def test_garbage_in_the_middle_is_a_broken_reply(protocol):
    events = whole_reply(protocol)
    events.insert(6, b"data: {broken\n\n")
    with pytest.raises(BrokenReplyError):
        await exchange(protocol, Reply(events))


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_something_else_than_a_stream_is_a_broken_reply(protocol, kind):
    reply = Reply([b"<h1>Welcome</h1>"], headers={"content-type": kind})
    with pytest.raises(BrokenReplyError, match="base_url"):
        await exchange(protocol, reply)


async def test_something_else_than_http_is_a_failed_connection(protocol):
    with pytest.raises(ConnectionFailedError):
        await exchange(protocol, Reply([b"SSH-2.0-OpenSSH\r\n"], framing="raw"))


@pytest.mark.parametrize("sent", [0, 5])
async def test_a_reset_is_a_failed_connection(protocol, sent):
    framing = "chunked" if sent else "raw"
    reply = Reply(whole_reply(protocol)[:sent], framing=framing, ending="reset")
    with pytest.raises(ConnectionFailedError):
        await exchange(protocol, reply)


@pytest.mark.parametrize("sent", [0, 5])
async def test_silence_is_a_failed_connection(protocol, sent):
    reply = Reply(whole_reply(protocol)[:sent], ending="hang")
    with pytest.raises(ConnectionFailedError, match=r"sent nothing for 0\.05 seconds"):
        await exchange(protocol, reply, timeout=0.05)


async def test_nobody_there_is_a_failed_connection(protocol):
    async with FakeProvider() as fake:
        url = fake.url
    with pytest.raises(ConnectionFailedError, match="Could not reach custom at http://127"):
        await collect(model_for(protocol, url).stream(ASK))


async def test_silence_after_the_last_event_does_not_matter(protocol):
    check_whole(await exchange(protocol, Reply(whole_reply(protocol), ending="hang")), protocol)


async def test_a_cut_after_the_last_event_does_not_matter(protocol):
    check_whole(await exchange(protocol, Reply(whole_reply(protocol), ending="cut")), protocol)


async def test_a_compressed_stream_is_read_too(protocol):
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    body = gzip.compress(join(whole_reply(protocol)))
    check_whole(await exchange(protocol, Reply([body[:99], body[99:]], headers=headers)), protocol)
    with pytest.raises(BrokenReplyError):
        await exchange(protocol, Reply([body[:99], b"\x00" * 99], headers=headers))


async def test_cancelling_closes_the_connection(protocol):
    async with FakeProvider(Reply(whole_reply(protocol)[:5], ending="hang")) as fake:
        task = asyncio.create_task(collect(model_for(protocol, fake.url).stream(ASK)))
        await asyncio.wait_for(fake.answering.wait(), 60)
        assert not fake.client_left.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(fake.client_left.wait(), 60)


async def test_closing_the_stream_closes_the_connection(protocol):
    async with FakeProvider(Reply(whole_reply(protocol), ending="hang")) as fake:
        async with aclosing(model_for(protocol, fake.url).stream(ASK)) as stream:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    break
        await asyncio.wait_for(fake.client_left.wait(), 60)


async def test_a_connection_is_used_again(protocol):
    async with FakeProvider(*[Reply(whole_reply(protocol)) for _ in range(3)]) as fake:
        model = model_for(protocol, fake.url)
        for _ in range(3):
            check_whole(await collect(model.stream(ASK)), protocol)
        assert fake.connections == 1
        await model.aclose()


async def test_a_kept_connection_that_was_reset_is_replaced_unnoticed(protocol):
    async with FakeProvider(
        Reply(whole_reply(protocol)),
        Reply([], framing="raw", ending="reset"),
        Reply(whole_reply(protocol)),
    ) as fake:
        model = model_for(protocol, fake.url)
        check_whole(await collect(model.stream(ASK)), protocol)
        check_whole(await collect(model.stream(ASK)), protocol)
        assert fake.connections == 2
        await model.aclose()


async def test_the_model_can_be_used_after_closing(protocol):
    async with FakeProvider(*[Reply(whole_reply(protocol)) for _ in range(2)]) as fake:
        model = model_for(protocol, fake.url)
        check_whole(await collect(model.stream(ASK)), protocol)
        await model.aclose()
        await model.aclose()
        check_whole(await collect(model.stream(ASK)), protocol)
        await model.aclose()


def serve_in_thread(*replies: Reply):
    """A provider that outlives event loops: its own thread, its address, and how to end it."""
    started, address = threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        async with FakeProvider(*replies) as fake:
            address.extend([fake.url, asyncio.get_running_loop(), stop])
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(60)

    def end() -> None:
        address[1].call_soon_threadsafe(address[2].set)
        thread.join(60)

    return address[0], end


def test_one_model_in_several_event_loops(protocol):
    url, end = serve_in_thread(*[Reply(whole_reply(protocol)) for _ in range(6)])
    try:
        model = model_for(protocol, url)
        for _ in range(2):
            check_whole(ask(model), protocol)

        async def unclosed() -> Answer:
            return await collect(model.stream(ASK))

        check_whole(asyncio.run(unclosed()), protocol)
        check_whole(asyncio.run(unclosed()), protocol)
        answers: list[Answer] = []
        threads = [threading.Thread(target=lambda: answers.append(ask(model))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == 2
        for answer in answers:
            check_whole(answer, protocol)
        assert len(model._http._clients) <= 1
    finally:
        end()


async def test_empty_and_unknown_events_are_ignored(protocol):
    events = whole_reply(protocol)
    events[3:3] = [b": keep-alive\n\n", *sse({"type": "x.new", "choices": []}), b"event: e\n\n"]
    check_whole(await exchange(protocol, Reply(events)), protocol)


async def test_the_key_is_sent_and_the_body_is_utf8(protocol):
    async with FakeProvider(Reply(whole_reply(protocol))) as fake:
        model = model_for(protocol, fake.url, headers={"x-extra": "1"})
        messages = [{"role": "user", "content": "ä\udcff€"}]
        request = type(ASK)(messages=messages)
        await collect(model.stream(request))
        await model.aclose()
    received = fake.received[0]
    key = received.headers.get("authorization") or received.headers["x-api-key"]
    assert key in ("Bearer secret-key-1234", "secret-key-1234")
    assert received.headers["x-extra"] == "1"
    assert received.headers["user-agent"] == f"hermes/{__version__}"
    assert "ä?€" in str(received.body)
