"""A conversation that is open here, in which another machine runs a turn: told and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from machines import Machines, machines
from scripted_provider import ScriptedProvider, call, script
from serving import event, turn_ends


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


async def open_elsewhere(there: Machines, provider: ScriptedProvider) -> tuple[str, str]:
    """A conversation with a turn that waits at a gate, opened on the other machine; its key, and
    its id there."""
    first = await there.runs.create()
    await there.runs.submit(first["session_id"], script("p", call("todo", gate="gate")))
    await provider.reached("gate")
    opened = await there.watches.resume(first["session_key"])
    assert opened["status"] == "elsewhere"
    return first["session_key"], opened["session_id"]


async def test_a_message_is_read_by_the_turn_of_the_other_machine(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with machines(tmp_path, provider) as there:
        key, sid = await open_elsewhere(there, provider)
        assert await there.watches.steer(sid, "Look left") == "steered"
        await there.acted_on(1)
        assert await there.watches.steer(sid, "Look right") == "steered"
        await there.acted_on(2)
        provider.open_gate("gate")
        assert (await turn_ends(there.runs)).payload["text"] == "You said: Look left\n\nLook right"
        shown = await turn_ends(there.watches, sid)
        assert shown.payload["text"] == "You said: Look left\n\nLook right"
        await there.watches.submit(sid, "And now?")
        assert (await turn_ends(there.watches, sid)).payload["text"] == "You said: And now?"
        assert there.said(key) == [
            "Look left", "Look right", "You said: Look left\n\nLook right",
            "And now?", "You said: And now?",
        ]  # fmt: skip


async def test_a_prompt_steers_where_prompts_are_to(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with machines(tmp_path, provider, display={"busy_input_mode": "steer"}) as there:
        key, sid = await open_elsewhere(there, provider)
        assert await there.watches.submit(sid, "Look left") == "streaming"
        await there.acted_on(1)
        assert await there.watches.submit(sid, "Look right") == "steered"
        await there.acted_on(2)
        provider.open_gate("gate")
        shown = await turn_ends(there.watches, sid)
        assert shown.payload["text"] == "You said: Look left\n\nLook right"
        await turn_ends(there.runs)
        assert there.said(key)[:2] == ["Look left", "Look right"]


async def test_a_message_that_its_sender_took_back_is_not_read(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with machines(tmp_path, provider) as there:
        key, sid = await open_elsewhere(there, provider)
        await there.watches.steer(sid, "Look left")
        await there.acted_on(1)
        assert await there.watches.interrupt(sid)
        shown = await turn_ends(there.watches, sid)
        assert shown.payload["status"] == "interrupted"
        await there.until(lambda: not there.db.list_waiting(key))
        provider.open_gate("gate")
        assert (await turn_ends(there.runs)).payload["text"] == "answer p"
        assert there.said(key) == ["answer p"]


async def test_a_message_for_a_turn_that_has_ended_is_answered_by_itself(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with machines(tmp_path, provider) as there:
        key, sid = await open_elsewhere(there, provider)
        provider.open_gate("gate")
        await turn_ends(there.runs)
        await event(there.watches, "history.changed", sid)
        await there.watches.steer(sid, "Look left")
        await there.until(lambda: there.said(key)[1:] == ["Look left", "You said: Look left"])


async def test_questions_of_the_other_machine_are_answered_here_once(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    async with machines(tmp_path, provider, approvals={"mode": "manual"}) as there:
        first = await there.runs.create()
        steps = [
            call("clarify", question="Which one?", choices=["red", "blue"], gate="gate"),
            call("terminal", command=f"rm -rf {doomed}"),
        ]
        await there.runs.submit(first["session_id"], script("p", *steps))
        await provider.reached("gate")
        sid = (await there.watches.resume(first["session_key"]))["session_id"]
        provider.open_gate("gate")
        asked = await event(there.watches, "clarify.request", sid)
        assert await there.watches.clarify(asked.payload["request_id"], "red")
        assert not await there.watches.clarify(asked.payload["request_id"], "blue")
        own = await event(there.runs, "approval.request")
        asked = await event(there.watches, "approval.request", sid)
        assert asked.payload == own.payload
        answers = await asyncio.gather(
            there.watches.approve(sid, "once"), there.runs.approve(first["session_id"], "once")
        )
        # Each has the first answer that it knows of; the row has one, and the command ran once.
        assert sum(answers) >= 1
        await turn_ends(there.runs)
        assert (await turn_ends(there.watches, sid)).payload["text"] == "answer p"
        assert not doomed.exists()
        (decided,) = there.db.list_approvals(first["session_key"])
        assert (decided["state"], decided["choice"], decided["how"]) == (
            "approved",
            "once",
            "person",
        )
        results = [m["content"] for m in there.db.get_messages(first["session_key"])]
        assert [text for text in results if text and "red" in text and not text.startswith("{")]
