"""A gateway that is killed in the middle of a turn: the next one brings it to its end, once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.running import unknown_outcome
from conversation.abandoned import CUT_OFF
from hermes_state import SessionDB

from .. import forked, server_store
from .chats import CONFIG

CHILD = Path(__file__).with_name("dying_child.py")
UNKNOWN = unknown_outcome(["leave_mark"])
WORK = "re: work"


class Child:
    """A gateway that can be killed."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.pid = process.pid
        self._passed: list[str] = []

    async def at(self, point: str) -> None:
        """Wait until it is or was somewhere: it takes turns over while it starts."""
        assert self.process.stdout is not None
        if point in self._passed:
            self._passed.remove(point)
            return
        async with asyncio.timeout(60):
            while line := await self.process.stdout.readline():
                if (passed := json.loads(line)["at"]) == point:
                    return
                self._passed.append(passed)
        raise AssertionError(f"it ended before {point}")

    async def receive(self, text: str, **more: Any) -> None:
        """A message comes; returns when it is accepted."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"text": text, **more}).encode() + b"\n")
        await self.process.stdin.drain()
        await self.at("accepted")

    async def kill(self) -> None:
        """SIGKILL: no handler, no `finally`, no flush."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@contextlib.asynccontextmanager
async def child(home: Path, point: str = "", **environ: str) -> AsyncIterator[Child]:
    """A gateway that is killed at the end, at the latest."""
    if not (home / "config.yaml").exists():
        (home / "config.yaml").write_text(CONFIG)
    process = await forked.start(CHILD, str(home), point, environ={**os.environ, **environ})
    started = Child(process)
    try:
        yield started
    finally:
        await started.kill()


async def die_at(home: Path, point: str, *texts: str) -> None:
    """Let a gateway be killed at a point, after these messages or by what it finds."""
    async with child(home, point) as one:
        await one.at("start")
        for text in texts:
            await one.receive(text)
        await one.at(point)


def lines(home: Path, name: str) -> list[str]:
    path = home / name
    return path.read_text().splitlines() if path.exists() else []


def shown(home: Path) -> list[str]:
    """What the chat has read, from every gateway."""
    return [json.loads(line)[2] for line in lines(home, "shown")]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.02)


async def all_told(home: Path) -> None:
    """Wait until nothing is owed to a chat."""

    def is_told() -> bool:
        with SessionDB(home / "state.db") as db:
            return not db.list_deliveries(("pending", "sending"))

    await until(is_told)


async def quiet(home: Path) -> None:
    """Wait until nothing runs, waits or is owed."""

    def is_quiet() -> bool:
        with SessionDB(home / "state.db") as db:
            # In the order in which a message moves on, so that it is seen in one of them.
            if db.list_waiting():
                return False
            running = db._database.read(
                lambda conn: list(conn.execute("SELECT 1 FROM turns WHERE state = 'running'"))
            )
            return not (running or db.list_deliveries(("pending", "sending")))

    await until(is_quiet)


async def recovered(home: Path, **environ: str) -> list[str]:
    """What the chat has read when one more gateway has gone on with everything."""
    async with child(home, **environ) as one:
        await one.at("start")
        await quiet(home)
    return shown(home)


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ("model:1", []),
        ("model:2", []),
        ("tool:a", [UNKNOWN]),
        ("tool-done:a", [UNKNOWN]),
        ("tool:x", []),
        ("tool-done:x", []),
        ("tool:b", [UNKNOWN]),
        ("model:3", []),
        ("owed", []),
    ],
)
async def test_killed_anywhere_and_answered_once(
    tmp_path: Path, point: str, told: list[str]
) -> None:
    await die_at(tmp_path, point, "work")
    assert await recovered(tmp_path) == [*told, WORK]
    effects = lines(tmp_path, "effects")
    assert len(effects) == len(set(effects)), "no effect twice"
    if not told:
        assert effects == ["a", "b"]
    assert await recovered(tmp_path) == [*told, WORK], "a further start has nothing to do"


async def test_killed_in_the_recovery_too(tmp_path: Path) -> None:
    await die_at(tmp_path, "tool-done:a", "work")
    await die_at(tmp_path, "taken")
    assert await recovered(tmp_path) == [UNKNOWN, WORK], "told although nobody could before"
    assert lines(tmp_path, "effects") == ["a", "b"]


async def test_an_effect_is_unknown_in_each_of_two_crashes(tmp_path: Path) -> None:
    await die_at(tmp_path, "tool-done:a", "work")
    async with child(tmp_path, "tool-done:b") as second:
        await second.at("tool-done:b")
        await all_told(tmp_path)  # it tells of the first crash beside the turn
    assert await recovered(tmp_path) == [UNKNOWN, UNKNOWN, WORK]
    assert lines(tmp_path, "effects") == ["a", "b"]


@pytest.mark.parametrize(("point", "told"), [("telling", [UNKNOWN]), ("told", [UNKNOWN, UNKNOWN])])
async def test_a_notice_that_was_being_sent_is_sent_again(
    tmp_path: Path, point: str, told: list[str]
) -> None:
    await die_at(tmp_path, "tool-done:a", "work")
    # The answer is held back, or it would be shown before the kill or not.
    async with child(tmp_path, f"{point},model:1") as second:
        await second.at(point)
    assert await recovered(tmp_path) == [*told, WORK], "rather twice than not at all"


async def test_a_turn_that_kills_every_gateway_is_closed_and_told(tmp_path: Path) -> None:
    await die_at(tmp_path, "model:1", "work")
    await die_at(tmp_path, "model:1")
    await die_at(tmp_path, "model:1")
    assert await recovered(tmp_path) == [CUT_OFF]
    assert await recovered(tmp_path) == [CUT_OFF]


@pytest.mark.parametrize("mode", ["interrupt", "steer", "queue"])
async def test_what_came_meanwhile_is_answered_after_it_in_order(tmp_path: Path, mode: str) -> None:
    async with child(tmp_path, "model:1", HERMES_TEST_BUSY="queue") as first:
        await first.at("start")
        await first.receive("work")
        await first.at("model:1")
        for text in ("two", "three"):
            await first.receive(text)
    assert await recovered(tmp_path, HERMES_TEST_BUSY=mode) == [WORK, "re: two", "re: three"]
    assert lines(tmp_path, "effects") == ["a", "b"]


async def test_a_live_message_interrupts_a_turn_that_goes_on(tmp_path: Path) -> None:
    await die_at(tmp_path, "model:1", "work")
    async with child(tmp_path, "model:1") as second:
        await second.at("model:1")
        await second.receive("stop, rather this")
        await quiet(tmp_path)
    assert shown(tmp_path) == ["re: stop, rather this"]
    assert lines(tmp_path, "effects") == []


@pytest.mark.parametrize("read", [True, False])
async def test_killed_after_a_second_message_and_both_are_answered(
    tmp_path: Path, read: bool
) -> None:
    async with child(tmp_path, "model:1,model:2") as first:
        await first.at("start")
        await first.receive("one")
        await first.at("model:1")
        await first.receive("two")
        if read:  # it has joined the turn, which asks the model again
            await first.at("model:2")
    texts = await recovered(tmp_path)
    together = ["re: one\n\ntwo"]
    assert texts == together if read else texts in (together, ["re: one", "re: two"])
    with SessionDB(tmp_path / "state.db") as db:
        (session,) = db.list_sessions_rich()
        stored = [one["content"] for one in db.get_messages(session["id"])]
    assert [text for text in stored if not text.startswith("re: ")] == ["one", "two"]


async def test_two_gateways_and_one_that_was_asleep(tmp_path: Path) -> None:
    lease = {"HERMES_TEST_LEASE": "1.5", "HERMES_TEST_BUSY": "queue"}
    async with child(tmp_path, "model:1", **lease) as first:
        await first.at("start")
        await first.receive("work")
        await first.at("model:1")
        await first.receive("two")
        os.kill(first.pid, signal.SIGSTOP)
        async with child(tmp_path, **lease):
            await quiet(tmp_path)
            assert shown(tmp_path) == [WORK, "re: two"]
            os.kill(first.pid, signal.SIGCONT)
            # What it runs was taken away, so that its chat's line is free again.
            await first.receive("three")
            await until(lambda: len(shown(tmp_path)) > 2)
            await quiet(tmp_path)
    assert shown(tmp_path) == [WORK, "re: two", "re: three"]
    if not server_store.is_wanted():  # there it may have lost its chats too
        assert json.loads(lines(tmp_path, "shown")[2])[0] == first.pid
    assert lines(tmp_path, "effects") == ["a", "b"]


async def test_a_gateway_that_runs_takes_over_too(tmp_path: Path) -> None:
    async with child(tmp_path) as second:
        await second.at("start")
        await die_at(tmp_path, "model:1", "work")
        await until(lambda: shown(tmp_path) == [WORK])
