"""A turn of another process in a conversation that is open here, seen as it streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cut_off import answers, kill
from scripted_provider import ScriptedProvider, call, say, script
from serving import SECONDS, Child, configure, event, stdio_client, turn_ends

from agent.running import WAITING
from tui_gateway.client import Client
from tui_gateway.turn_ends import NOT_BEGUN


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


async def text_until(client: Client, sid: str, wanted: str) -> str:
    """What was streamed, as soon as it is so much."""
    text = ""
    async with asyncio.timeout(SECONDS):
        while wanted not in text:
            text += (await client.wait_for("message.delta", sid)).payload["text"]
    return text


async def test_a_window_that_is_open_sees_it_from_its_beginning(
    home: Path, provider: ScriptedProvider
) -> None:
    async with stdio_client(home) as runs, stdio_client(home) as watches:
        first = await runs.create()
        await runs.submit(first["session_id"], script("before"))
        await turn_ends(runs)
        sid = (await watches.resume(first["session_key"]))["session_id"]
        question = script("p", call("todo"), say("First half, second half.", pieces=2, gate="gate"))
        await runs.submit(first["session_id"], question)
        began = await event(watches, "message.start", sid)
        assert began.payload["prompt"] == question
        assert "First half" in await text_until(watches, sid, "First half")
        provider.open_gate("gate")
        complete = await turn_ends(watches, sid)
        assert complete.payload["text"] == "First half, second half."
        await event(watches, "history.changed", sid)
        shown = await watches.activate(sid)
        assert (shown["status"], shown["inflight"]) == ("idle", None)
        assert shown["messages"][-1]["content"] == "First half, second half."
        await turn_ends(runs)


async def test_a_message_sent_meanwhile_is_not_what_the_other_turn_answers(
    home: Path, provider: ScriptedProvider
) -> None:
    """And its client is told which message was stopped before it began."""
    async with stdio_client(home) as runs, stdio_client(home) as watches:
        first = await runs.create()
        await runs.submit(first["session_id"], script("before"))
        await turn_ends(runs)
        sid = (await watches.resume(first["session_key"]))["session_id"]
        text = script("p", call("todo"), say("First half, second half.", pieces=2, gate="gate"))
        await runs.submit(first["session_id"], text)
        began = await event(watches, "message.start", sid)
        await text_until(watches, sid, "First half")
        assert began.payload["prompt_id"] == ""
        await watches.submit(sid, script("later"), message_id="later-1")
        assert (await event(watches, "status.update", sid)).payload["text"] == WAITING
        assert await watches.interrupt(sid)
        complete = (await turn_ends(watches, sid)).payload
        assert (complete["warning"], complete["dropped"]) == (NOT_BEGUN, "later-1")
        await watches.submit(sid, script("last"), message_id="last-1")
        assert (await event(watches, "status.update", sid)).payload["text"] == WAITING
        provider.open_gate("gate")
        starts = [await event(watches, "message.start", sid)]
        while starts[-1].payload["prompt_id"] != "last-1":
            assert starts[-1].payload["prompt_id"] == "", "the other turn's"
            starts.append(await event(watches, "message.start", sid))
        assert (await turn_ends(watches, sid)).payload["text"] == "answer last"
        await turn_ends(runs)


async def test_an_answer_that_was_quicker_than_the_look_is_seen_too(home: Path) -> None:
    async with stdio_client(home) as runs, stdio_client(home) as watches:
        first = await runs.create()
        await runs.submit(first["session_id"], script("before"))
        await turn_ends(runs)
        sid = (await watches.resume(first["session_key"]))["session_id"]
        for number in range(3):
            await runs.submit(first["session_id"], script(str(number)))
            await turn_ends(runs)
        async with asyncio.timeout(SECONDS):
            while (await watches.activate(sid))["messages"][-1]["content"] != "answer 2":
                await event(watches, "history.changed", sid)


async def test_a_window_that_comes_late_gets_what_was_said_so_far(
    home: Path, provider: ScriptedProvider
) -> None:
    async with stdio_client(home) as runs, stdio_client(home) as watches:
        first = await runs.create()
        await runs.submit(
            first["session_id"], script("p", say("Half. The end.", pieces=2, gate="gate"))
        )
        await provider.reached("gate")
        await text_until(runs, first["session_id"], "Half")
        opened = await watches.resume(first["session_key"])
        sid = opened["session_id"]
        assert opened["status"] == "elsewhere"
        if not (opened["inflight"] or {"assistant": ""})["assistant"]:
            await text_until(watches, sid, "Half")
        provider.open_gate("gate")
        assert (await turn_ends(watches, sid)).payload["text"] == "Half. The end."
        await turn_ends(runs)


async def test_when_its_process_is_killed_the_viewer_goes_on_with_it(
    home: Path, provider: ScriptedProvider
) -> None:
    async with stdio_client(home) as watches:
        child = Child(home)
        async with Client(child, reconnect=False) as doomed:
            first = await doomed.create()
            await doomed.submit(
                first["session_id"], script("p", say("Whole text.", pieces=2, gate="gate"))
            )
            await provider.reached("gate")
            opened = await watches.resume(first["session_key"])
            sid = opened["session_id"]
            if not (opened["inflight"] or {"assistant": ""})["assistant"]:
                await text_until(watches, sid, "Whole")
            await kill(child, doomed)
        provider.open_gate("gate")
        async with asyncio.timeout(SECONDS):
            while (await turn_ends(watches, sid)).payload["text"] != "Whole text.":
                pass  # what was shown of the other one is closed first
    assert answers(home, first["session_key"]) == ["Whole text."]


async def test_a_question_of_the_other_turn_is_shown_and_answered_in_any_window(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, approvals={"mode": "manual"})
    async with stdio_client(home) as runs, stdio_client(home) as watches:
        first = await runs.create(cwd=str(home))
        await runs.submit(first["session_id"], script("before"))
        await turn_ends(runs)
        sid = (await watches.resume(first["session_key"]))["session_id"]
        steps = [
            call("clarify", question="Which one?", choices=["red", "blue"]),
            call("terminal", command="rm -rf doomed"),
        ]
        await runs.submit(first["session_id"], script("p", *steps))
        own = await event(runs, "clarify.request", first["session_id"])
        asked = await event(watches, "clarify.request", sid)
        assert (asked.payload["question"], asked.payload["choices"]) == (
            "Which one?",
            ["red", "blue"],
        )
        (pending,) = (await watches.activate(sid))["pending"]
        assert pending == {"type": "clarify.request", "payload": asked.payload}
        assert await watches.clarify(asked.payload["request_id"], "red")
        await event(watches, "request.closed", sid)
        assert not await runs.clarify(own.payload["request_id"], "blue")  # somebody was first
        own = await event(runs, "approval.request", first["session_id"])
        asked = await event(watches, "approval.request", sid)
        assert asked.payload == own.payload
        async with stdio_client(home) as late:
            opened = await late.resume(first["session_key"])
            pending_there = opened["pending"]
            if not pending_there:  # it is told as soon as it is known there
                await event(late, "approval.request", opened["session_id"])
                pending_there = (await late.activate(opened["session_id"]))["pending"]
            assert [question["payload"] for question in pending_there] == [own.payload]
            assert await late.approve(opened["session_id"], "deny") == 1
        async with asyncio.timeout(SECONDS):
            while (await runs.activate(first["session_id"]))["pending"]:
                await event(runs, "request.closed", first["session_id"])
        assert await runs.approve(first["session_id"], "once") == 0
        assert await watches.approve(sid, "once") == 0
        assert (await turn_ends(watches, sid)).payload["text"] == "answer p"
        assert (await watches.activate(sid))["pending"] == []
        await turn_ends(runs)
