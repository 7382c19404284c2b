"""AsyncSessionDB: the same store, awaited, without holding up the event loop."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes_state import AsyncSessionDB, SessionDB, StoreClosedError, UnknownSessionError
from hermes_state.dialect import Connection


@pytest.fixture
async def store(db_path: Path) -> AsyncIterator[AsyncSessionDB]:
    wrapped = AsyncSessionDB(SessionDB(db_path))
    yield wrapped
    await wrapped.close()


async def test_what_is_awaited_is_in_the_wrapped_store(store: AsyncSessionDB) -> None:
    assert await store.create_session("s1", "cli", model="m") == "s1"
    message_id = await store.append_message("s1", "user", content="hello")
    assert [m["id"] for m in store._db.get_messages("s1")] == [message_id]
    assert await store.get_messages_as_conversation("s1", repair_alternation=True)


async def test_errors_reach_the_one_who_awaits(store: AsyncSessionDB) -> None:
    with pytest.raises(UnknownSessionError):
        await store.append_message("nobody", "user", "hello")
    with pytest.raises(TypeError):
        await store.create_session("s1", "cli", colour="red")


async def test_the_synchronous_store_has_a_public_name(store: AsyncSessionDB) -> None:
    assert store.sync is store._db
    assert store.db_path == store.sync.db_path
    assert store.salvage_report is None


async def test_every_method_is_declared_with_its_signature(store: AsyncSessionDB) -> None:
    """A name that is only made up at run time is one mypy knows nothing about."""
    methods = {
        name
        for name, member in inspect.getmembers(SessionDB)
        if not name.startswith("_") and callable(member)
    }
    assert methods <= set(vars(AsyncSessionDB))
    assert not hasattr(AsyncSessionDB, "__getattr__")
    for name in sorted(methods):
        declared = inspect.signature(getattr(store, name))
        assert declared == inspect.signature(getattr(store.sync, name)), name


@pytest.mark.sqlite
async def test_steps_of_turns_share_transactions(store: AsyncSessionDB) -> None:
    """Two turns that begin at once are committed together, and each has its own result."""
    writes = 0
    execute = store.sync._execute_write

    def count(work: Callable[[Connection], object]) -> object:
        nonlocal writes
        writes += 1
        return execute(work)

    store.sync._execute_write = count  # type: ignore[method-assign, assignment]
    first, second = await asyncio.gather(
        *(
            store.begin_turn(
                name, {"role": "user", "content": name}, source="cli", facts={}, leased=True
            )
            for name in ("s1", "s2")
        )
    )
    assert (first.session_id, second.session_id) == ("s1", "s2")
    assert writes == 1
    assert first.lease is not None
    await store.end_turn(first.lease)
    assert store.sync.list_abandoned_turns() == []


async def test_the_event_loop_runs_on_while_the_store_is_busy(store: AsyncSessionDB) -> None:
    busy, release = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        busy.set()
        assert release.wait(30)

    await store.create_session("s1", "cli")
    holding = asyncio.create_task(store._execute_write(hold))
    while not busy.is_set():
        await asyncio.sleep(0)
    waiting = asyncio.create_task(store.append_message("s1", "user", "behind"))
    # The loop got here, and reads are answered, with the write lock taken all the while.
    assert await store.get_session("s1")
    assert not waiting.done()
    release.set()
    await holding
    assert await waiting


async def test_many_at_once_lose_nothing(store: AsyncSessionDB) -> None:
    await store.create_session("s1", "cli")
    ids = await asyncio.gather(
        *(store.append_message("s1", "user", f"m{number}") for number in range(60))
    )
    assert len(set(ids)) == 60
    session = await store.get_session("s1")
    assert session is not None
    assert session["message_count"] == await store.message_count("s1") == 60


async def test_closing_twice_is_fine_and_a_closed_store_says_so(db_path: Path) -> None:
    store = AsyncSessionDB(SessionDB(db_path))
    await store.create_session("s1", "cli")
    await store.close()
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.get_session("s1")
    with pytest.raises(StoreClosedError):
        await store.append_message("s1", "user", "too late")
    with SessionDB(db_path) as again:
        assert again.get_session("s1")
        assert again.message_count() == 0
