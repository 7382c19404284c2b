"""Two servers and one conversation: one turn at a time, each answered by exactly one of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cut_off import age_turns, answers, kill, kill_during, until
from scripted_provider import ScriptedProvider, say, script
from serving import Child, configure, event, stdio_client, store, turn_ends

from agent.running import WAITING
from conversation.abandoned import TAKEN_AWAY
from tui_gateway.client import Client
from tui_gateway.turn_ends import NOT_BEGUN


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider, display={"busy_input_mode": "queue"})


async def test_exactly_one_of_two_has_a_turn_that_was_cut_off(
    home: Path, provider: ScriptedProvider
) -> None:
    text = script("p", say("The end.", gate="gate"))
    key = await kill_during(home, text, lambda _: provider.reached("gate"))
    async with stdio_client(home) as one, stdio_client(home) as other:
        opened = await asyncio.gather(one.resume(key), other.resume(key))
        clients = [one, other]
        async with asyncio.timeout(60):  # both may try to take it over
            while sorted(each["status"] for each in opened) != ["elsewhere", "running"]:
                opened = [
                    await client.activate(each["session_id"])
                    for client, each in zip(clients, opened, strict=True)
                ]
        if opened[0]["status"] == "elsewhere":
            clients.reverse()
            opened.reverse()
        runs, watches = clients
        provider.open_gate("gate")
        assert (await turn_ends(runs, opened[0]["session_id"])).payload["text"] == "The end."
        shown = opened[1]
        while shown["status"] != "idle":
            await event(watches, "history.changed", opened[1]["session_id"])
            shown = await watches.activate(opened[1]["session_id"])
        assert shown["messages"][-1]["content"] == "The end."
    assert answers(home, key) == ["The end."]
    assert len(provider.requests) == 2


async def test_a_server_that_runs_goes_on_with_what_another_left(
    home: Path, provider: ScriptedProvider
) -> None:
    """Also if it has the conversation open, and then its viewer sees the turn."""
    async with stdio_client(home) as client:
        first = await client.create()
        await client.submit(first["session_id"], script("before"))
        await turn_ends(client)
        key = first["session_key"]
        child = Child(home)
        async with Client(child, reconnect=False) as doomed:
            sid = (await doomed.resume(key))["session_id"]
            await doomed.submit(sid, script("p", say("The end.", gate="gate")))
            await provider.reached("gate")
            await kill(child, doomed)
        provider.open_gate("gate")
        complete = await turn_ends(client, first["session_id"])
        assert complete.payload["text"] == "The end."
    assert answers(home, key) == ["answer before", "The end."]


@contextlib.asynccontextmanager
async def one_runs_and_one_waits(
    home: Path, provider: ScriptedProvider
) -> AsyncIterator[tuple[Child, Client, Client, str, str]]:
    """A server that answers up to a gate, and one whose prompt waits for it."""
    child = Child(home)
    async with Client(child, reconnect=False) as first, stdio_client(home) as second:
        opened = await first.create()
        key = opened["session_key"]
        await first.submit(opened["session_id"], script("first", say("The first.", gate="gate")))
        await provider.reached("gate")
        again = await second.resume(key)
        sid = again["session_id"]
        assert again["status"] == "elsewhere"
        await second.submit(sid, script("second"))
        waits = await event(second, "status.update", sid)
        assert waits.payload == {"kind": "notice", "text": WAITING}
        yield child, first, second, sid, key


async def test_the_second_waits_and_then_answers(home: Path, provider: ScriptedProvider) -> None:
    async with one_runs_and_one_waits(home, provider) as (_, first, second, sid, key):
        assert await second.submit(sid, script("third")) == "queued"
        provider.open_gate("gate")
        await event(second, "history.changed", sid)
        texts = [(await turn_ends(second, sid)).payload["text"] for _ in range(2)]
        assert texts == ["answer second", "answer third"]
        await turn_ends(first)
    assert answers(home, key) == ["The first.", "answer second", "answer third"]


async def test_the_first_makes_way_where_messages_interrupt(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, display={"busy_input_mode": "interrupt"})
    async with one_runs_and_one_waits(home, provider) as (_, first, second, sid, key):
        assert (await turn_ends(first)).payload["status"] == "interrupted"
        while (await turn_ends(second, sid)).payload["text"] != "answer second":
            pass  # it is shown the end of the other's turn
        provider.open_gate("gate")
    with store(home) as db:
        said = [row["content"] for row in db.get_messages(key) if row["role"] == "user"]
    assert [json.loads(text)["name"] for text in said] == ["first", "second"]


async def test_escape_ends_the_wait(home: Path, provider: ScriptedProvider) -> None:
    async with one_runs_and_one_waits(home, provider) as (_, first, second, sid, key):
        assert await second.interrupt(sid)
        complete = (await turn_ends(second, sid)).payload
        assert (complete["status"], complete["warning"]) == ("interrupted", NOT_BEGUN)
        with store(home) as db:
            assert db.list_waiting() == []
        provider.open_gate("gate")
        await turn_ends(first)
    assert answers(home, key) == ["The first."]


async def test_the_second_goes_on_if_the_first_dies(home: Path, provider: ScriptedProvider) -> None:
    async with one_runs_and_one_waits(home, provider) as (child, first, second, sid, key):
        await kill(child, first)
        provider.open_gate("gate")
        texts = [(await turn_ends(second, sid)).payload["text"] for _ in range(2)]
        assert texts == ["The first.", "answer second"]
    assert answers(home, key) == ["The first.", "answer second"]


async def test_the_first_answers_what_a_server_left_that_ended_while_it_waited(
    home: Path, provider: ScriptedProvider
) -> None:
    async with one_runs_and_one_waits(home, provider) as (_, first, second, _, key):
        await second.aclose()
        provider.open_gate("gate")
        texts = [(await turn_ends(first)).payload["text"] for _ in range(2)]
        assert texts == ["The first.", "answer second"]
    assert answers(home, key) == ["The first.", "answer second"]


async def test_a_server_that_slept_too_long_writes_nothing_more(
    home: Path, provider: ScriptedProvider
) -> None:
    child = Child(home)
    async with Client(child, reconnect=False) as sleeper, stdio_client(home) as other:
        opened = await sleeper.create()
        sid, key = opened["session_id"], opened["session_key"]
        await sleeper.submit(sid, script("p", say("The end.", pieces=2, gate="half")))
        await provider.reached("half")
        child.send_signal(signal.SIGSTOP)
        age_turns(home)
        await other.resume(key)
        await until(lambda: len(provider.requests) == 2, "it is asked again")
        provider.open_gate("half")
        assert (await turn_ends(other)).payload["text"] == "The end."
        child.send_signal(signal.SIGCONT)
        complete = (await turn_ends(sleeper, sid)).payload
        assert (complete["status"], complete["warning"]) == ("interrupted", TAKEN_AWAY)
        await event(sleeper, "history.changed", sid)
        shown = (await sleeper.activate(sid))["messages"]
        assert [one["content"] for one in shown if one["role"] == "assistant"] == ["The end."]
        await sleeper.submit(sid, script("more"))
        assert (await turn_ends(sleeper, sid)).payload["text"] == "answer more"
    assert answers(home, key) == ["The end.", "answer more"]
