"""Room for turns: so many at once, over all processes that share a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conversation.room import Room
from conversation.tasks import Tasks
from hermes_state import AsyncSessionDB, SessionDB, StoreBusyError


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[AsyncSessionDB]:
    store = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
    yield store
    await store.close()


class All:
    """What all processes together run."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running: dict[str, int] = {}
        self.most = 0
        self.failures: list[Exception] = []

    def room_of(self, name: str, db: AsyncSessionDB, tasks: Tasks) -> Room:
        async def has_room(count: int) -> bool:
            if self.failures:
                raise self.failures.pop()
            others = sum(turns for other, turns in self.running.items() if other != name)
            if count > self.running.get(name, 0) and others + count > self.limit:
                return False
            self.running[name] = count
            self.most = max(self.most, others + count)
            db.wake.ring()
            return True

        return Room(self.limit, db, tasks.spawn, has_room)


async def test_all_together_run_no_more_than_the_limit(db: AsyncSessionDB) -> None:
    both, tasks = All(3), Tasks("a test")
    rooms = [both.room_of(name, db, tasks) for name in ("a", "b")]
    done: list[int] = []

    async def turn(number: int) -> None:
        async with rooms[number % 2].place():
            await asyncio.sleep(0.005)
            done.append(number)

    await asyncio.gather(*(turn(number) for number in range(40)))
    assert sorted(done) == list(range(40))
    assert both.most == 3
    while tasks.running:
        await asyncio.wait(tasks.running)
    assert both.running == {"a": 0, "b": 0}


async def test_room_that_another_gives_back_is_taken(db: AsyncSessionDB) -> None:
    both, tasks = All(1), Tasks("a test")
    both.running["other"] = 1
    room = both.room_of("a", db, tasks)
    waiting = asyncio.ensure_future(room.place().__aenter__())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    both.running["other"] = 0
    db.wake.ring()
    await waiting


async def test_a_store_in_trouble_is_waited_for(
    db: AsyncSessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversation.patience.FIRST_PAUSE", 0.01)
    both, tasks = All(1), Tasks("a test")
    both.failures = [StoreBusyError("busy"), StoreBusyError("busy")]
    async with both.room_of("a", db, tasks).place():
        assert both.running == {"a": 1}


async def test_without_a_limit_nobody_is_asked(db: AsyncSessionDB) -> None:
    async def has_room(count: int) -> bool:
        raise AssertionError("there is always room")

    async with Room(None, db, Tasks("a test").spawn, has_room).place():
        pass
