"""Turns that another process left, as their chats see them: in line, shown, told, or closed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.loop import STILL_OPEN
from agent.scripted import say
from conversation.abandoned import CUT_OFF
from gateway.config import Platform
from gateway.pipeline import Inbound
from gateway.platforms.base import MessageEvent
from gateway.session import SessionSource
from hermes_base.process import this_process
from hermes_state import Lease, SessionDB
from hermes_state.dialect import Connection
from hermes_state.turn_log import CUT_OFF as CLOSED

from .chats import Chats, echo, gateway
from .test_links import link
from .test_webhook import TO_CHAT, hooked

KEY = "agent:main:local:dm:1"
ELSEWHERE = "machine|boot|space|4242|1"
"""A process that cannot be seen from here: only its heartbeat tells."""


def target(chat_id: str = "1", platform: str = "local") -> dict[str, Any]:
    to = {"session_key": f"agent:main:{platform}:dm:{chat_id}", "platform": platform}
    return {"id": f"{platform}:{chat_id}:m1", "to": {**to, "chat_id": chat_id, "thread_id": None}}


def change_turn(db: SessionDB, session_id: str, changes: str, *values: Any) -> None:
    """Let the row of a conversation's turn be as another process would have left it."""

    def work(conn: Connection) -> None:
        conn.execute(
            f"UPDATE turns SET {changes} WHERE conversation_id ="
            " (SELECT conversation_id FROM sessions WHERE id = ?)",
            (*values, session_id),
        )

    db._execute_write(work)


def leave(
    db: SessionDB,
    session_id: str,
    text: str = "left",
    *,
    deliver_to: dict[str, Any] | None = None,
    source: str = "local",
    age: float = 60.0,
    alive: bool = False,
    **facts: Any,
) -> None:
    """A turn that another process began, and that it does not run any more unless `alive`."""
    db.begin_turn(
        session_id, {"role": "user", "content": text}, source=source,
        facts={"user_id": f"{source}:u1", **facts}, leased=True, deliver_to=deliver_to,
    )  # fmt: skip
    now = time.time()
    change_turn(
        db, session_id, "owner = ?, started_at = ?, heartbeat_at = ?",
        ELSEWHERE, now - age, now if alive else 0,
    )  # fmt: skip


async def left_behind(home: Path, text: str = "left", **more: Any) -> str:
    """A home whose only chat has a turn that nobody runs; returns its session."""
    async with gateway(home) as chats:
        await chats.ask("before")
        leave(chats.db, chats.session_id(), text, **{"deliver_to": target(), **more})
        return chats.session_id()


def told(db: SessionDB, session_id: str) -> list[str]:
    return [one["content"] for one in db.get_messages(session_id)]


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def look(chats: Chats, platforms: set[Platform]) -> int:
    """Look for abandoned turns now; returns how many chats begin with one."""
    recovery = chats.runner.recovery
    return await recovery.abandoned.look(platforms, recovery.turns.begin_with)


def state(db: SessionDB, session_id: str) -> str:
    turn = db.get_turn(session_id)
    assert turn is not None
    return str(turn["state"])


async def test_it_counts_as_the_chats_running_turn(tmp_path: Path) -> None:
    session_id = await left_behind(tmp_path)
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [say("a first piece of the answer", begun.set, release, ", the rest"), echo]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with gateway(tmp_path, steps, streaming=streaming, busy_input_mode="queue") as chats:
        await begun.wait()
        runner = chats.runner
        assert runner._running_agents[KEY].session_id == session_id
        assert (runner.conversations.in_flight, runner.turns.running_key(KEY)) == (1, KEY)
        assert "first piece" in (await chats.local.wait_for(1))[0]
        assert chats.local.typed == ["1"]
        await chats.say("next")
        release.set()
        await chats.local.wait_for(2)
        assert chats.local.texts() == ["a first piece of the answer, the rest", "re: next"]
        (first, _) = chats.local.shown
        assert first.versions, "the answer took the place of its preview"
        await until(lambda: runner.conversations.finished == 2)
        assert runner.conversations.failed == 0
        assert told(chats.db, session_id)[2:] == [
            "left", "a first piece of the answer, the rest", "next", "re: next",
        ]  # fmt: skip


async def test_only_what_is_sent_live_interrupts_it(tmp_path: Path) -> None:
    await left_behind(tmp_path)
    begun = asyncio.Event()
    steps = [say(begun.set, asyncio.Event()), echo, echo, echo]
    async with gateway(tmp_path, steps) as chats:
        await begun.wait()
        source = SessionSource(Platform.LOCAL, "1", user_id="u1")
        runner = chats.runner
        # Kept by an earlier run.
        await runner._session_db.accept_message(
            "local:1:kept", chats.session_id(), "kept", source="local", session_key=KEY,
            facts={"source": source.to_dict()},
        )  # fmt: skip
        await runner.turns.take(
            Inbound(MessageEvent("kept", source, "kept"), KEY, "local:1:kept", waited=True)
        )
        # Kept by its platform.
        sent = datetime.now(UTC) - timedelta(minutes=5)
        await runner.handle_message(MessageEvent("late", source, "late", timestamp=sent))
        await until(lambda: runner.turns.waiting == 2)
        assert chats.local.texts() == [] and KEY in runner._running_agents
        sent = datetime.now(UTC) + timedelta(seconds=1)
        await runner.handle_message(MessageEvent("live", source, "live", timestamp=sent))
        # What it interrupts is still open, and the other two join the first that waited.
        assert await chats.local.wait_for(1) == ["re: kept\n\nlate\n\nlive"]
        said = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert said[-5:-1] == [STILL_OPEN, "kept", "late", "live"]
        assert chats.db.list_waiting() == []


async def test_a_turn_that_was_taken_away_is_left_without_a_word(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [say(begun.set, release, "too late"), echo]
    async with gateway(tmp_path, steps, busy_input_mode="queue") as chats:
        await chats.say("one")
        await begun.wait()
        session_id = chats.session_id()
        change_turn(chats.db, session_id, "fence = fence + 1, owner = ?", ELSEWHERE)
        await chats.say("two")
        release.set()
        await until(lambda: KEY not in chats.runner._running_agents)
        await until(lambda: chats.runner.conversations.holder(session_id) is None)
        assert chats.local.texts() == [] and told(chats.db, session_id) == ["one"]
        assert [row["content"] for row in chats.db.list_waiting()] == ["two"], "it waits its turn"
        assert chats.runner.conversations.failed == 0
        # The other process answers.
        turn = chats.db.get_turn(session_id)
        assert turn is not None
        lease = Lease(session_id, turn["fence"], turn["owner"])
        chats.db.record_step(
            session_id, [{"role": "assistant", "content": "theirs"}], lease=lease, ends=True
        )
        assert await chats.local.wait_for(1) == ["re: two"]
        assert told(chats.db, session_id) == ["one", "theirs", "two", "re: two"]


async def test_a_message_that_another_process_began_with_is_left_to_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await chats.ask("one")
        await until(lambda: not chats.runner.turns.is_busy(KEY))
        inbox_id = "local:1:x"
        source = SessionSource(Platform.LOCAL, "1", user_id="u1")
        chats.db.accept_message(inbox_id, chats.session_id(), "two", session_key=KEY)
        chats.db.drop_message(inbox_id)
        await chats.runner.turns.take(Inbound(MessageEvent("two", source, "x"), KEY, inbox_id))
        await until(lambda: chats.runner.conversations.finished == 2)
        assert await chats.ask("three") == "re: three"
        assert chats.local.texts() == ["re: one", "re: three"]


@pytest.mark.parametrize(
    ("age", "yaml"), [(7200.0, ""), (60.0, "agent: {cut_off_turns: ask}\n")], ids=["old", "ask"]
)
async def test_a_turn_that_is_not_gone_on_with_is_told(
    tmp_path: Path, age: float, yaml: str
) -> None:
    session_id = await left_behind(tmp_path, age=age)
    async with gateway(tmp_path, yaml=yaml) as chats:
        assert await chats.local.wait_for(1) == [CUT_OFF]
        assert told(chats.db, session_id)[-2:] == ["left", CLOSED]
        assert await chats.ask("go on") == "re: go on"
    async with gateway(tmp_path, yaml=yaml) as chats:
        assert await chats.ask("again") == "re: again"
        assert chats.local.texts() == ["re: again"]


async def test_turns_that_nobody_waits_for_are_closed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        leave(chats.db, "of a sub-agent", source="tool", parent_session_id=chats.session_id())
        leave(chats.db, "of a program", source="api_server")
        leave(chats.db, "of a terminal", source="cli")
        platforms = {Platform.LOCAL, Platform.API_SERVER}
        assert await look(chats, platforms) == 0
        assert (
            told(chats.db, "of a sub-agent") == told(chats.db, "of a program") == ["left", CLOSED]
        )
        assert state(chats.db, "of a terminal") == "running", "that is not ours"
        assert chats.db.list_deliveries() == [] and len(chats.local.texts()) == 1


async def test_a_webhook_is_answered_where_its_route_says(tmp_path: Path) -> None:
    routes = {"builds": {"deliver": TO_CHAT}, "quiet": {"deliver": "none"}}
    async with hooked(tmp_path, routes) as chats:
        for route in routes:
            to = target(route, "webhook")
            to["to"] |= {"session_key": f"agent:main:webhook:dm:{route}:d1", "thread_id": "d1"}
            leave(chats.db, route, deliver_to=to, source="webhook", user_id=f"webhook:{route}")
    async with hooked(tmp_path, routes) as chats:
        assert await chats.local.wait_for(1) == ["re: left"]
        await until(lambda: state(chats.db, "quiet") == "ended")
        assert told(chats.db, "quiet") == told(chats.db, "builds") == ["left", "re: left"]
        await until(lambda: not chats.db.list_deliveries(("pending", "sending")))
        assert chats.local.texts() == ["re: left"]


async def test_a_chat_that_began_anew_is_not_answered(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        session_id = chats.session_id()
        leave(chats.db, session_id, deliver_to=target())
        await chats.ask("/new")
    async with gateway(tmp_path) as chats:
        await until(lambda: state(chats.db, session_id) == "ended")
        assert await chats.ask("hello") == "re: hello"
        assert chats.local.texts() == ["re: hello"]
        assert told(chats.db, session_id)[-1] == CLOSED


async def test_whoever_may_no_longer_talk_is_not_answered(tmp_path: Path) -> None:
    session_id = await left_behind(tmp_path)
    async with gateway(tmp_path, allow_all=False) as chats:
        await until(lambda: state(chats.db, session_id) == "ended")
        assert chats.model.calls == 0 and chats.local.texts() == []


async def test_a_chat_without_a_kept_entry_is_answered(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        leave(chats.db, "s1", deliver_to=target("7"), session_key="agent:main:local:dm:7")
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(1, "7") == ["re: left"]
        assert await chats.ask("more", chat_id="7") == "re: more"
        assert chats.session_id("7") == "s1"


async def test_a_turn_of_a_window_in_a_chats_conversation_is_answered_in_the_chat(
    tmp_path: Path,
) -> None:
    await left_behind(tmp_path, deliver_to=None)
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(1) == ["re: left"]


async def test_linked_chats_see_the_answer_and_wait_for_it(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        await link(chats)
        leave(chats.db, chats.session_id(), deliver_to=target())
        source = SessionSource(Platform.LOCAL, "2", user_id="u1", user_name="u1")
        chats.db.accept_message(
            "local:2:w", chats.session_id(), "waiting", source="local",
            session_key="agent:main:local:dm:2", facts={"source": source.to_dict()},
        )  # fmt: skip
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(3) == [
            "re: left",
            "💬 u1 (local): waiting",
            "🤖 re: waiting",
        ]
        assert await chats.local.wait_for(2, "2") == ["🤖 re: left", "re: waiting"]


async def test_a_message_goes_on_with_what_is_left_in_its_conversation(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        await link(chats)
        leave(chats.db, chats.session_id(), deliver_to=target())
        assert await chats.ask("next", chat_id="2") == "🤖 re: left"
        assert (await chats.local.wait_for(3, "2"))[-1] == "re: next"
        assert told(chats.db, chats.session_id())[-4:] == ["left", "re: left", "next", "re: next"]


async def test_what_runs_here_is_never_taken_for_abandoned(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    async with gateway(tmp_path, [say(begun.set, release, "whole")]) as chats:
        await chats.say("one")
        await begun.wait()
        change_turn(chats.db, chats.session_id(), "heartbeat_at = 0")
        leave(chats.db, "of a sub-agent", source="tool")
        change_turn(
            chats.db, "of a sub-agent", "owner = ?, started_at = ?", this_process(), time.time()
        )
        assert len(chats.db.list_abandoned_turns()) == 2, "it was asleep"
        assert await look(chats, {Platform.LOCAL}) == 0
        assert state(chats.db, "of a sub-agent") == "running"
        release.set()
        assert await chats.local.wait_for(1) == ["whole"]


async def test_a_turn_that_cannot_be_gone_on_with_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await left_behind(tmp_path)

    async def broken(*args: Any) -> Any:
        raise RuntimeError("no agent")

    with monkeypatch.context() as patched:
        patched.setattr("gateway.agent_source.AgentSource.agent_for", broken)
        async with gateway(tmp_path) as chats:
            assert "no agent" in (await chats.local.wait_for(1))[0]
            await until(lambda: state(chats.db, session_id) == "ended")
    async with gateway(tmp_path) as chats:
        assert await chats.ask("more") == "re: more"
        assert chats.local.texts() == ["re: more"]


async def test_a_message_that_was_stopped_before_it_began_is_dropped(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("before")
        leave(chats.db, chats.session_id(), "in the terminal", alive=True)
        await chats.say("not now")
        await until(lambda: hasattr(chats.runner._running_agents.get(KEY), "run"))
        await chats.say("/stop")
        await until(lambda: not chats.runner.turns.is_busy(KEY))
        assert chats.db.list_waiting() == []
        assert told(chats.db, chats.session_id())[-1] == "in the terminal"


async def test_a_message_that_had_not_begun_outlives_a_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path, drain_timeout=0.05) as chats:
        await chats.ask("before")
        local, session_id = chats.local, chats.session_id()
        leave(chats.db, session_id, "in the terminal", alive=True)
        await chats.say("later")
        await until(lambda: hasattr(chats.runner._running_agents.get(KEY), "run"))
        chats.runner.restart.wanted = True
        await chats.runner.stop()
        assert local.texts() == ["re: before"], "nothing was broken off"
        change_turn(chats.db, session_id, "state = 'ended'")
    async with gateway(tmp_path) as chats:
        assert await chats.local.wait_for(1) == ["re: later"]
        assert await chats.ask("more") == "re: more"


async def test_a_turn_that_does_not_heed_the_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversation.service.LAST_SECONDS", 0.05)
    begun, release = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        begun.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    async with gateway(tmp_path, [say(deaf, "never")], drain_timeout=0.05) as chats:
        await chats.say("work")
        await begun.wait()
        chats.runner.restart.wanted = True
        stopping = asyncio.ensure_future(chats.runner.stop())
        session_id = chats.session_id()
        try:
            await until(lambda: state(chats.db, session_id) == "ended")
        finally:
            release.set()
        await stopping
    async with gateway(tmp_path, [say("the rest"), echo]) as chats:
        assert await chats.local.wait_for(1) == ["the rest"], "gone on with by the restart alone"
        assert await chats.ask("more") == "re: more"
        assert "never" not in told(chats.db, session_id)
