"""What a live conversation is told that nobody asked for, over kills of its server too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cut_off import kill, until
from scripted_provider import ScriptedProvider, call, say, script
from serving import Child, configure, said_by_user, stdio_client, store, turn_ends

from tui_gateway.client import Client


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


def started(folder: Path) -> str:
    """A prompt that starts a process which ends when the file `go` is there."""
    command = f"while [ ! -e {folder / 'go'} ]; do sleep 0.02; done; exit 3"
    return script(
        "0",
        call("terminal", command=command, background=True, notify_on_complete=True),
        say("It runs."),
    )


async def test_what_is_steered_by_a_command_outlives_the_server(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider)
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        sid, key = opened["session_id"], opened["session_key"]
        await client.submit(sid, script("0", say("slow answer", pieces=2, gate="half")))
        await provider.reached("half")
        told = await client.request("slash.exec", session_id=sid, command="/steer Look left.")
        assert told["output"].startswith("Kept")
        await kill(child, client)
    provider.open_gate("half")
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        answers = [(await turn_ends(client, sid)).payload["text"] for _ in range(2)]
    assert answers == ["slow answer", "You said: Look left."]
    with store(home) as db:
        assert said_by_user(db, key) == ["0", "Look left."]
        assert db.list_waiting() == []


async def test_the_end_of_a_process_is_a_turn_of_its_own(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider)
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, started(tmp_path))
        assert (await turn_ends(client, sid)).payload["text"] == "It runs."
        (tmp_path / "go").touch()
        answer = (await turn_ends(client, sid)).payload["text"]
        assert answer.startswith("You said: [proc_") and "exit code 3" in answer
    with store(home) as db:
        assert len(said_by_user(db, opened["session_key"])) == 2


async def test_a_process_that_went_with_its_server_is_told_once(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider)
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        key = opened["session_key"]
        await client.submit(opened["session_id"], started(tmp_path))
        await turn_ends(client)
        await kill(child, client)
    async with stdio_client(home) as client:
        with store(home) as db:
            await until(lambda: db.has_notes(key), "the process is reaped")
        sid = (await client.resume(key))["session_id"]
        assert "is not running any more" in (await turn_ends(client, sid)).payload["text"]
    async with stdio_client(home) as client:
        assert not (await client.resume(key))["running"]
    with store(home) as db:
        assert len(said_by_user(db, key)) == 2


async def test_a_task_that_went_with_its_server_is_ended_and_told_once(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider)
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        sid, key = opened["session_id"], opened["session_key"]
        await client.submit(sid, script("0"))
        await turn_ends(client, sid)
        task = script("the task", say("never told", pieces=2, gate="half"))
        started_as = await client.request("prompt.background", session_id=sid, text=task)
        await provider.reached("half")
        await kill(child, client)
    async with stdio_client(home) as client:
        with store(home) as db:
            await until(lambda: db.has_notes(key), "the task is ended")
            (row,) = db.list_delegations(key)
            assert (row["state"], row["delegation_id"]) == ("lost", started_as["task_id"])
            *_, last = db.get_messages(row["sessions"][0])
            assert "cut off" in last["content"] and db.list_abandoned_turns() == []
        sid = (await client.resume(key))["session_id"]
        assert "outcome unknown" in (await turn_ends(client, sid)).payload["text"]
    async with stdio_client(home) as client:
        assert not (await client.resume(key))["running"]
    with store(home) as db:
        notes = [text for text in said_by_user(db, key) if "outcome unknown" in text]
        assert len(notes) == 1
