"""The life of a session in a real server process: born with a message, ended by every way out."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_provider import ScriptedProvider, call, say, script
from serving import Child, configure, event, said_by_user, stdio_client, store, turn_ends

from tui_gateway.client import Client, RpcFailedError


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


async def test_nothing_is_stored_before_the_first_message(home: Path) -> None:
    async with stdio_client(home) as client:
        opened = await client.create(title="Plans")
        assert (opened["message_count"], opened["running"]) == (0, False)
        assert await client.sessions() == []
        await client.close_session(opened["session_id"])
    with store(home) as db:
        assert db.session_count() == 0


async def test_a_prompt_is_answered_and_the_title_is_set(home: Path) -> None:
    async with stdio_client(home) as client:
        opened = await client.create(title="Plans")
        sid = opened["session_id"]
        assert await client.submit(sid, "Hello") == "streaming"
        started = await event(client, "message.start", sid)
        assert started.payload["prompt"] == "Hello"
        complete = await turn_ends(client, sid)
        assert complete.payload["text"] == "You said: Hello"
        assert complete.payload["status"] == "complete"
        snapshot = await client.activate(sid)
        shown = [(one["timestamp"], one["role"], one["content"]) for one in snapshot["messages"]]
        assert shown == [
            (started.payload["timestamp"], "user", "Hello"),
            (complete.payload["timestamp"], "assistant", "You said: Hello"),
        ]
    with store(home) as db:
        row = db.get_session(opened["session_key"])
        assert (row["title"], row["end_reason"], row["source"]) == ("Plans", "tui_close", "tui")


async def test_a_title_that_is_taken_is_dropped(home: Path) -> None:
    async with stdio_client(home) as client:
        for _ in range(2):
            opened = await client.create(title="Plans")
            await client.submit(opened["session_id"], "Hello")
            await turn_ends(client, opened["session_id"])
        snapshot = await client.activate(opened["session_id"])
        assert snapshot["info"]["title"] == ""


async def test_resume_joins_a_live_session(home: Path, provider: ScriptedProvider) -> None:
    async with stdio_client(home) as client:
        opened = await client.create()
        sid, key = opened["session_id"], opened["session_key"]
        joined = await client.resume(key)
        assert joined["session_id"] == sid
        prompt = script("a", say("one two three", pieces=3, gate="half"))
        await client.submit(sid, prompt)
        await provider.reached("half")
        await event(client, "message.delta", sid)
        joined = await client.resume(key[:-2])
        assert (joined["session_id"], joined["running"]) == (sid, True)
        assert joined["inflight"] is not None
        assert joined["inflight"]["user"] == prompt
        assert "one two three".startswith(joined["inflight"]["assistant"])
        provider.open_gate("half")
        assert (await turn_ends(client, sid)).payload["text"] == "one two three"


async def test_closing_twice_at_once_ends_once(home: Path) -> None:
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, "Hello")
        await turn_ends(client, sid)
        closed = await asyncio.gather(*(client.close_session(sid) for _ in range(4)))
        assert any(closed)
        assert not await client.close_session(sid)
        with pytest.raises(RpcFailedError) as refused:
            await client.submit(sid, "Are you there?")
        assert refused.value.code == 4001
        again = await client.resume(opened["session_key"])
        assert again["session_id"] != sid
        assert [one["content"] for one in again["messages"]] == ["Hello", "You said: Hello"]


@pytest.mark.parametrize("way", ["close", "eof", "SIGTERM", "SIGHUP"])
async def test_every_way_out_ends_the_row_and_loses_nothing(
    way: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, display={"busy_input_mode": "queue"})
    child = Child(home)
    client = Client(child, reconnect=False)
    await client.connect()
    opened = await client.create()
    sid, key = opened["session_id"], opened["session_key"]
    await client.submit(sid, script("first", say("half of it", pieces=2, gate="half")))
    await provider.reached("half")
    await event(client, "message.delta", sid)
    assert await client.submit(sid, script("second")) == "queued"
    if way == "close":
        await client.close_session(sid)
    elif way != "eof":
        child.send_signal(signal.Signals[way])
        async with asyncio.timeout(60):
            await child.process.wait()
    await client.aclose()
    assert child.process.returncode == 0
    with store(home) as db:
        row = db.get_session(key)
        wanted = {"close": "tui_close", "eof": "tui_close"}.get(way, way.lower())
        assert row["end_reason"] == wanted
        assert said_by_user(db, key) == ["first"]
        assert db.get_messages(key)[-1]["content"].startswith("half")
        assert len(db.list_waiting(key)) == 1
    async with stdio_client(home) as client:
        again = await client.resume(key)
        assert (await turn_ends(client, again["session_id"])).payload["text"] == "answer second"
    with store(home) as db:
        assert said_by_user(db, key) == ["first", "second"]
        assert db.list_waiting(key) == []


async def test_a_tool_that_hangs_does_not_hold_up_the_end(
    home: Path, provider: ScriptedProvider
) -> None:
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        await client.submit(
            opened["session_id"], script("a", call("terminal", command="sleep 300"))
        )
        await event(client, "tool.start")
        child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await child.process.wait() == 0
    with store(home) as db:
        assert db.get_session(opened["session_key"])["end_reason"] == "sigterm"
        roles = [one["role"] for one in db.get_messages(opened["session_key"])]
        assert roles == ["user", "assistant", "tool", "assistant"]


async def test_a_signal_right_at_the_start_leaves_nothing_behind(home: Path) -> None:
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        await event(client, "gateway.ready")
        child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await child.process.wait() == 0
    with store(home) as db:
        assert db.session_count() == 0


async def test_what_a_killed_run_left_is_ended_at_the_next_start(home: Path) -> None:
    child_of_tests = Path(__file__).parent.parent / "agent" / "commanding_child.py"
    killed = await asyncio.create_subprocess_exec(
        sys.executable, str(child_of_tests), str(home), stdout=asyncio.subprocess.PIPE
    )
    assert killed.stdout is not None
    assert await killed.stdout.readline() == b"under way\n"
    while not sleeping_in(home):  # a shell says so before it has become them
        await asyncio.sleep(0.02)
    killed.kill()
    await killed.wait()
    assert sleeping_in(home)
    async with stdio_client(home):
        while sleeping_in(home):
            await asyncio.sleep(0.02)


def sleeping_in(folder: Path) -> list[str]:
    """The processes that the killed agent had started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
            if command.startswith(b"sleep 98") and (process / "cwd").readlink() == folder:
                found.append(process.name)
        except OSError:
            continue  # it has just ended
    return found
