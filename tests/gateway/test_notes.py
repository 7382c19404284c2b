"""What chats are told that nobody asked for: processes ended, tasks lost, turns steered."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent.scripted import call, say
from gateway.config import Platform

from .chats import echo, gateway

LOCAL = {Platform.LOCAL}


async def until_told(chats: Any) -> None:
    while not await chats.runner.recovery.notes.look(LOCAL):
        await asyncio.sleep(0.01)


async def test_steering_by_a_command_is_read_by_the_running_turn(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps: list[Any] = [say(begun.set, release, "thinking"), echo]
    async with gateway(tmp_path, steps, busy_input_mode="interrupt") as chats:
        await chats.say("first")
        await begun.wait()
        assert (await chats.ask("/steer more")).startswith("Kept")
        assert [one["content"] for one in chats.db.list_waiting()] == ["more"]
        release.set()
        assert (await chats.local.wait_for(3))[1:] == ["thinking", "re: more"]
        assert chats.db.list_waiting() == []


async def test_what_was_steered_and_not_read_is_answered_after_a_restart(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps: list[Any] = [say(begun.set, asyncio.Event(), "never")]
    async with gateway(tmp_path, steps, drain_timeout=0.0) as chats:
        await chats.say("first")
        await begun.wait()
        assert (await chats.ask("/steer more")).startswith("Kept")
    async with gateway(tmp_path) as chats:
        while "re: more" not in chats.local.texts("1"):
            await asyncio.sleep(0.01)
        said = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert said.count("more") == 1


async def test_the_end_of_a_process_is_a_turn_of_its_own(tmp_path: Path) -> None:
    command = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.02; done; exit 3"
    steps = [
        call("terminal", command=command, background=True, notify_on_complete=True),
        say("It runs."),
    ]
    async with gateway(tmp_path, itertools.chain(steps, itertools.repeat(echo))) as chats:
        assert await chats.ask("start it") == "It runs."
        assert await chats.runner.recovery.notes.look(LOCAL) == 0
        (tmp_path / "go").touch()
        await until_told(chats)
        told = (await chats.local.wait_for(2))[1]
        assert told.startswith("re: [proc_") and "exit code 3" in told
        assert await chats.runner.recovery.notes.look(LOCAL) == 0
        assert await chats.ask("and?") == "re: and?"


async def test_a_task_that_was_lost_with_its_process_is_told_once(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        from agent.background import _here

        chats.db.create_delegation(
            "bg_1",
            chats.session_id(),
            {"goals": ["count the stars"], "sessions": [], "machine": _here()},
            owner_pid=gone.pid,
            owner_started_at=1,
        )
        await until_told(chats)
        told = (await chats.local.wait_for(2))[1]
        assert "outcome unknown" in told and "count the stars" in told
        assert await chats.runner.recovery.notes.look(LOCAL) == 0
        # One that lives is left alone.
        chats.db.create_delegation(
            "bg_2", chats.session_id(), {"goals": ["x"], "machine": _here()}, owner_pid=os.getppid()
        )
        assert await chats.runner.recovery.notes.look(LOCAL) == 0


async def test_whoever_may_no_longer_talk_is_told_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        session_id = chats.session_id()
    async with gateway(tmp_path, allow_all=False) as chats:
        chats.db.add_note("n", session_id, "it has ended")
        assert await chats.runner.recovery.notes.look(LOCAL) == 0
        assert chats.db.has_notes(session_id)


async def test_a_note_turn_that_cannot_begin_is_not_tried_all_the_time(
    tmp_path: Path, monkeypatch: Any
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("no agent")

    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        monkeypatch.setattr("gateway.agent_source.AgentSource.agent_for", broken)
        chats.db.add_note("n", chats.session_id(), "it has ended")
        await until_told(chats)
        while chats.runner.turns.is_busy(chats.key()):
            await asyncio.sleep(0.01)
        assert await chats.runner.recovery.notes.look(LOCAL) == 0
        assert chats.local.texts("1") == ["re: hello"], "nobody asked, so nobody is told of it"
        monkeypatch.undo()
        chats.runner.recovery.notes.resting_until.clear()
        await until_told(chats)
        assert (await chats.local.wait_for(2))[1] == "re: it has ended"
