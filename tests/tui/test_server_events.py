"""Events: numbered without gaps, caught up with after a loss, and held up by nobody."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_provider import ScriptedProvider, call, say, script
from serving import Cuttable, configure, event, stdio_client, ws_server

from tui_gateway import event_log, peers
from tui_gateway.client import Client, Event
from tui_gateway.event_log import EventLog
from tui_gateway.peers import Peer

from .. import seeds


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


async def until_complete(client: Client, sid: str, turns: int = 1) -> list[Event]:
    """The events of a session up to the end of a turn."""
    found = []
    async with asyncio.timeout(60):
        async for one in client.events():
            if one.session_id == sid:
                found.append(one)
                turns -= one.type == "message.complete"
                if not turns:
                    return found
    raise AssertionError("the connection ended")


def numbers(events: list[Event]) -> list[int]:
    return [one.seq for one in events if one.seq is not None]


def streamed(events: list[Event]) -> str:
    """The answer as a client that follows the events shows it."""
    text = ""
    for one in events:
        if one.type == "message.start":
            text = ""
        elif one.type == "message.delta":
            text += one.payload["text"]
        elif one.type == "session.snapshot":
            inflight = one.payload["inflight"]
            text = inflight["assistant"] if inflight else one.payload["messages"][-1]["content"]
    return text


async def test_events_are_numbered_from_one_without_gaps(home: Path) -> None:
    async with stdio_client(home) as client:
        sid = (await client.create())["session_id"]
        text = " ".join(map(str, range(200)))
        prompt = script("a", call("todo"), say(text, pieces=50, pause=0.002))
        await client.submit(sid, prompt)
        events = await until_complete(client, sid)
        assert numbers(events) == list(range(1, len(events) + 1))
        assert streamed(events) == text
        kinds = [one.type for one in events]
        assert kinds.index("tool.start") < kinds.index("tool.complete")
        assert client.last_seen(sid) == len(events)


@pytest.mark.fuzz
async def test_a_client_that_comes_back_has_missed_nothing(
    home: Path, provider: ScriptedProvider
) -> None:
    chance = random.Random(seeds.seed())
    text = " ".join(map(str, range(300)))
    async with ws_server(home) as server:
        wire = Cuttable(server)
        async with Client(wire) as client, server.client() as other:
            opened = await client.create()
            sid = opened["session_id"]
            await other.activate(sid)
            done = asyncio.create_task(until_complete(client, sid))
            seen_by_other = asyncio.create_task(until_complete(other, sid))
            prompt = script("a", call("todo"), say(text, pieces=100, pause=0.005))
            await client.submit(sid, prompt)
            while not done.done():
                await asyncio.sleep(chance.uniform(0, 0.15))
                wire.cut()
            events = await done
            assert numbers(events) == list(range(1, len(events) + 1))
            assert streamed(events) == text
            assert await seen_by_other == events


async def test_whoever_missed_too_much_gets_a_snapshot(
    home: Path, provider: ScriptedProvider
) -> None:
    half = event_log.MAX_BYTES + 100_000
    async with ws_server(home) as server:
        wire = Cuttable(server)
        async with Client(wire) as client, server.client() as other:
            sid = (await client.create())["session_id"]
            await other.activate(sid)
            prompt = script("a", say("x", times=2 * half, pieces=200, pause=0.001, gate="half"))
            await client.submit(sid, prompt)
            await event(client, "message.start", sid)
            wire.may_connect.clear()
            wire.cut()
            await provider.reached("half")
            got = 0
            while got < half:  # the other one sees all of the first half
                got += len((await event(other, "message.delta", sid)).payload["text"])
            wire.may_connect.set()
            snapshot = await event(client, "session.snapshot", sid)
            assert snapshot.payload["inflight"]["user"] == prompt
            provider.open_gate("half")
            rest = await until_complete(client, sid)
            assert streamed([snapshot, *rest]) == "x" * 2 * half
            first = snapshot.payload["latest_seq"] + 1
            assert numbers(rest) == list(range(first, first + len(rest)))


async def test_a_client_that_does_not_read_delays_nobody(
    home: Path, provider: ScriptedProvider
) -> None:
    from websockets.asyncio.client import connect

    size = 3_000_000
    async with ws_server(home) as server:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = server.url.removeprefix("ws://").partition("/")[0].split(":")
        narrow.connect((host, int(port)))
        slow = await connect(
            server.url,
            sock=narrow,
            max_queue=1,
            max_size=None,
            ping_interval=None,
            additional_headers={"Authorization": f"Bearer {server.token}"},
        )
        async with server.client() as client:
            sid = (await client.create())["session_id"]
            await slow.send(
                '{"jsonrpc":"2.0","id":1,"method":"session.activate",'
                f'"params":{{"session_id":"{sid}"}}}}'
            )
            await slow.recv()  # gateway.ready
            await slow.recv()  # the answer: it watches now
            for number in range(4):  # more than the buffers of the system and of the server hold
                prompt = script(str(number), say("z", times=size, pieces=400))
                await client.submit(sid, prompt)
                assert len(streamed(await until_complete(client, sid))) == size
            text = ""
            async with asyncio.timeout(30):
                while "events.missed" not in text:  # it reads again, and is told
                    text = str(await slow.recv())
            assert sid in text
        await slow.close()


def test_a_client_that_does_not_read_costs_bounded_memory() -> None:
    may_write = threading.Event()
    written: list[bytes] = []

    def write(line: bytes) -> None:
        may_write.wait(30)
        written.append(line)

    given_up = threading.Event()
    peer = Peer(write, "slow", given_up.set)
    line = b"x" * 100_000
    for _ in range(300):
        peer.send_event(line, "s1")
    assert len(line) < peer.queued <= peers.EVENT_LIMIT
    peer.send({"id": 1})  # answers are kept where events are not
    may_write.set()
    assert peer.drain(30)
    assert peer.queued == 0
    assert b'{"id":1}\n' in written
    assert sum(b"events.missed" in one for one in written) == 1
    may_write.clear()
    answer = {"result": "x" * 1_000_000}
    while not peer.gone:
        peer.send(answer)
        assert peer.queued <= peers.HARD_LIMIT
    assert given_up.is_set()
    may_write.set()


def test_an_event_larger_than_the_queue_still_goes_out() -> None:
    written: list[bytes] = []
    peer = Peer(written.append)
    huge = b"x" * (peers.EVENT_LIMIT + 1)
    peer.send_event(huge, "s1")
    assert peer.drain(30)
    assert written == [huge]
    peer.close()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["message.delta", "reasoning.delta"]), st.text(max_size=5)),
            st.tuples(st.sampled_from(["message.start", "tool.start"]), st.none()),
        ),
        max_size=40,
    ),
    st.data(),
)
def test_the_log_hands_out_what_was_added_in_order(
    added: list[tuple[str, str | None]], data: st.DataObject
) -> None:
    handed: list[bytes] = []
    log = EventLog("sid", handed.append)
    said = ""
    for kind, text in added:
        if text is None:
            log.add(kind)
        else:
            log.add_text(kind, text)
        if kind == "message.start":
            said = ""
        elif kind == "message.delta":
            said += text or ""
    latest, kept = log.now()
    assert (latest, kept) == (len(handed), said)
    everything = [frame["params"] for frame in log.since(0).events]
    assert [one["seq"] for one in everything] == list(range(1, latest + 1))
    for kind in ("message.delta", "reasoning.delta"):
        pieces = [one["payload"]["text"] for one in everything if one["type"] == kind]
        assert "".join(pieces) == "".join(text or "" for which, text in added if which == kind)
    last_seen = data.draw(st.integers(-2, latest + 2))
    missed = log.since(last_seen)
    assert missed.truncated == (not 0 <= last_seen <= latest)
    if not missed.truncated:
        assert [frame["params"] for frame in missed.events] == everything[last_seen:]


def test_the_log_keeps_within_bounds() -> None:
    log = EventLog("sid", lambda line: None)
    for _ in range(event_log.MAX_EVENTS + 10):
        log.add("status.update")
    assert log.since(9).truncated
    assert len(log.since(10).events) == event_log.MAX_EVENTS
    for _ in range(30):
        log.add("status.update", {"text": "x" * 100_000})
    assert 1 <= sum(not log.since(n).truncated for n in range(2010, 2040)) <= 10
