"""What a chat leaves running in the background, and what it is begun with."""

from __future__ import annotations

import asyncio
import itertools
import os
from datetime import timedelta
from pathlib import Path

from agent.scripted import call, say
from gateway.config import ResetPolicy

from .chats import Chats, echo, gateway


def pid_of(chats: Chats) -> int:
    """The process that the chat's agent has started."""
    from tools.processes.background import table_of

    (process,) = table_of(chats.runner._agent_cache[chats.key()][0].workspace).all()
    return process.run.child.pid


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


STEPS = [call("terminal", command="sleep 300", background=True), say("It runs.")]


async def test_a_process_keeps_its_session_and_its_agent(tmp_path: Path) -> None:
    policy = ResetPolicy("idle", idle_minutes=60)
    steps = itertools.chain(STEPS, itertools.repeat(echo))
    async with gateway(tmp_path, steps, reset=policy, cache_idle_seconds=0.0) as chats:
        await chats.ask("start it")
        pid, session_id = pid_of(chats), chats.session_id()
        entry = chats.runner.session_store._entries[chats.key()]
        entry.updated_at -= timedelta(hours=2)
        assert await chats.runner.expiry().end_expired() == 0
        assert chats.runner._sweep_idle_cached_agents() == 0
        await chats.ask("still there?")
        assert chats.session_id() == session_id
        assert is_alive(pid)
        os.kill(pid, 9)
        while chats.runner.agents.works_for(chats.key()):
            await asyncio.sleep(0.01)
        assert chats.runner._sweep_idle_cached_agents() == 1


async def test_an_old_process_does_not_count(tmp_path: Path) -> None:
    policy = ResetPolicy("idle", idle_minutes=60, bg_process_max_age_hours=0.0)
    async with gateway(tmp_path, STEPS, reset=policy) as chats:
        await chats.ask("start it")
        pid = pid_of(chats)
        chats.runner.session_store._entries[chats.key()].updated_at -= timedelta(hours=2)
        assert await chats.runner.expiry().end_expired() == 1
        while is_alive(pid):
            await asyncio.sleep(0.01)


async def test_a_process_survives_that_somebody_else_writes(tmp_path: Path) -> None:
    steps = itertools.chain(STEPS, itertools.repeat(echo))
    async with gateway(tmp_path, steps) as chats:
        await chats.ask("start it")
        pid, before = pid_of(chats), chats.runner._agent_cache[chats.key()][0]
        chats.db.append_message(chats.session_id(), "user", "from elsewhere")
        await chats.ask("and now?")
        assert chats.runner._agent_cache[chats.key()][0] is not before
        assert pid_of(chats) == pid and is_alive(pid)
        await chats.ask("/new")
        while is_alive(pid):
            await asyncio.sleep(0.01)


async def test_a_conversation_is_begun_with_a_title(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("/new Harbour plans")
        assert chats.db.session_count() == 0
        await chats.ask("hello")
        assert chats.db.get_session_title(chats.session_id()) == "Harbour plans"
        await chats.ask("/new Harbour plans")
        await chats.say("again")
        told = await chats.local.wait_for(5)
        assert any("title was not set" in text for text in told)
        assert "re: again" in told


async def test_words_that_begin_anew(tmp_path: Path) -> None:
    async with gateway(tmp_path, reset_triggers=("start over",)) as chats:
        await chats.ask("one")
        first = chats.session_id()
        assert "New session" in await chats.ask("start over")
        assert chats.session_id() != first


async def test_chats_nobody_uses_are_forgotten(tmp_path: Path) -> None:
    async with gateway(tmp_path, session_store_max_age_days=30) as chats:
        await chats.ask("one")
        chats.runner.session_store._entries[chats.key()].updated_at -= timedelta(days=31)
        await chats.runner.expiry().look()
        assert not chats.runner.session_store.has_any_sessions()
        assert chats.db.session_count() == 1
