"""Limits over several processes that are killed: never more than one call beyond per process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from limited_child import OWNER

from hermes_state import Limit, SessionDB
from hermes_state.dialect import tuples

from .. import forked, postgres, seeds

CHILD = Path(__file__).with_name("limited_child.py")
SECONDS = 120.0

pytestmark = pytest.mark.both_databases


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the processes have their store; empty for a file."""
    if request.param == "sqlite":
        yield ""
        return
    yield postgres.database_for(tmp_path / "server", str(tmp_path))
    postgres.give_back(str(tmp_path))


async def start(folder: Path, address: str, turns: int, most: int, *dies: str) -> Any:
    return await forked.start(
        CHILD, str(folder), address, str(turns), str(most), *dies, environ=os.environ
    )


def made(folder: Path) -> int:
    """The calls that were made, whoever knows of them."""
    ledger = folder / "ledger"
    return len(ledger.read_text().split()) if ledger.exists() else 0


def counted(folder: Path, address: str) -> tuple[float, dict[str, int]]:
    """What the store has as spent, and how its calls ended."""
    with SessionDB(folder / "state.db", server=address or None) as db:
        (use,) = db.list_limit_uses([Limit("person", OWNER, "dollars", "month", 1)])
        outcomes = "SELECT outcome, COUNT(*) FROM model_calls GROUP BY outcome"
        return use.spent, dict(db._database.read(lambda conn: tuples(conn, outcomes)))


@pytest.mark.long
@pytest.mark.fuzz
async def test_a_hundred_turns_at_once_in_two_processes_that_are_killed(
    tmp_path: Path, address: str
) -> None:
    chance = random.Random(seeds.seed())
    turns, most = 50, seeds.times(200, 400)
    running = [await start(tmp_path, address, turns, most) for _ in range(2)]
    try:
        async with asyncio.timeout(SECONDS):
            for _ in range(seeds.times(3, 12)):
                victim = chance.randrange(2)
                child = running[victim]
                assert await child.stdout.readline() == b"runs\n"
                enough = made(tmp_path) + chance.randint(1, 20)
                while made(tmp_path) < enough and child.returncode is None:
                    await asyncio.sleep(0.002)
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
                running[victim] = await start(tmp_path, address, turns, most)
            for child in running:
                assert await child.wait() == 0
    finally:
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    spent, outcomes = counted(tmp_path, address)
    assert made(tmp_path) <= most + 2
    assert made(tmp_path) <= spent  # what was made is counted, also where nobody saw its end
    assert most <= spent <= most + 2
    assert outcomes.keys() <= {"complete", "lost"}
    assert outcomes["complete"] <= made(tmp_path) <= sum(outcomes.values())


@pytest.mark.parametrize(("dies", "calls"), [("before", 0), ("after", 1)])
async def test_a_process_that_dies_around_a_call_leaves_it_counted(
    tmp_path: Path, address: str, dies: str, calls: int
) -> None:
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, address, 1, 3, dies)
        assert await child.wait() == -signal.SIGKILL
        assert made(tmp_path) == calls
        assert counted(tmp_path, address)[1] == {"reserved": 1}
        assert await (await start(tmp_path, address, 1, 3)).wait() == 0
    assert counted(tmp_path, address) == (3.0, {"complete": 2, "lost": 1})
    assert made(tmp_path) == calls + 2
