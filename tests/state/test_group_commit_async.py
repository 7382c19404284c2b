"""Coroutines that write in one iteration share a commit; a locked store stops no event loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import apsw
import pytest

from hermes_state import SessionDB, StoreBusyError, StoreClosedError, StoreError, StoreFullError
from hermes_state.connection import GROUP_WORKS
from hermes_state.dialect import Connection
from hermes_state.group_commit import GroupWriter

from .writers import PATIENCE, Recorder, failing, locked_elsewhere, note, notes

pytestmark = pytest.mark.sqlite


R = TypeVar("R")


@pytest.fixture
def writer(db: SessionDB) -> GroupWriter:
    return GroupWriter(db)


def held_over(writer: GroupWriter) -> bool:
    """Whether a batch is with the waiting thread."""
    queue = writer._queues.get(asyncio.get_running_loop())
    return queue is not None and queue._thread is not None and queue.is_due


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not reached():
            await asyncio.sleep(0.001)


async def test_what_comes_in_one_iteration_has_one_commit(
    db: SessionDB, writer: GroupWriter
) -> None:
    recorder = Recorder(db)
    texts = [str(n) for n in range(50)]
    assert await asyncio.gather(*[writer.write(note(text)) for text in texts]) == texts
    assert notes(db) == texts
    assert recorder.count("COMMIT") == 1


async def test_one_alone_is_a_plain_write(db: SessionDB, writer: GroupWriter) -> None:
    recorder = Recorder(db)
    assert await writer.write(note("a")) == "a"
    assert (recorder.count("COMMIT"), recorder.count("SAVEPOINT apart")) == (1, 0)
    assert notes(db) == ["a"]


async def test_one_alone_among_coroutines_that_do_not_write_is_a_plain_write_too(
    db: SessionDB, writer: GroupWriter
) -> None:
    recorder = Recorder(db)
    await asyncio.gather(asyncio.sleep(0), writer.write(note("a")), asyncio.sleep(0))
    assert (recorder.count("COMMIT"), recorder.count("SAVEPOINT apart")) == (1, 0)


async def test_more_than_a_group_takes_several_commits(db: SessionDB, writer: GroupWriter) -> None:
    recorder = Recorder(db)
    texts = [str(n) for n in range(3 * GROUP_WORKS + 1)]
    assert await asyncio.gather(*[writer.write(note(text)) for text in texts]) == texts
    assert notes(db) == texts
    assert recorder.count("COMMIT") == 4


async def test_one_that_fails_leaves_nothing_and_harms_nobody(
    db: SessionDB, writer: GroupWriter
) -> None:
    own = ValueError("mine alone")
    done = await asyncio.gather(
        *[writer.write(work) for work in (note("a"), failing("b", own), note("a"), note("c"))],
        return_exceptions=True,
    )
    assert done[0] == "a" and done[3] == "c"
    assert done[1] is own
    assert type(done[2]) is StoreError and isinstance(done[2].__cause__, apsw.ConstraintError)
    assert notes(db) == ["a", "c"]


async def test_alone_an_error_is_the_same(db: SessionDB, writer: GroupWriter) -> None:
    await writer.write(note("a"))
    own = ValueError("mine alone")
    with pytest.raises(ValueError, match="mine alone") as raised:
        await writer.write(failing("b", own))
    assert raised.value is own
    with pytest.raises(StoreError):
        await writer.write(note("a"))
    assert notes(db) == ["a"]


async def test_a_commit_that_fails_is_told_to_all(db: SessionDB, writer: GroupWriter) -> None:
    recorder = Recorder(db)
    recorder.commit_error = apsw.FullError("injected")
    done = await asyncio.gather(
        *[writer.write(note(str(n))) for n in range(5)], return_exceptions=True
    )
    assert [type(one) for one in done] == [StoreFullError] * 5
    assert notes(db) == []
    recorder.commit_error = None
    assert await writer.write(note("after")) == "after"


async def test_when_sqlite_gives_up_those_behind_have_a_try_left(
    db: SessionDB, writer: GroupWriter
) -> None:
    def fill_up(conn: Connection) -> None:
        conn.execute("PRAGMA max_page_count = 1")
        conn.execute("INSERT INTO state_meta VALUES ('big', ?)", ("x" * 5_000_000,))

    def make_room(conn: Connection) -> None:
        conn.execute("PRAGMA max_page_count = 1000000")

    done = await asyncio.gather(
        *[writer.write(work) for work in (note("a"), fill_up, make_room, note("z"))],
        return_exceptions=True,
    )
    assert [type(one) for one in done[:2]] == [StoreFullError] * 2
    assert done[2:] == [None, "z"]
    assert notes(db) == ["z"]


async def test_a_closed_store_says_so(db: SessionDB, writer: GroupWriter) -> None:
    db.close()
    done = await asyncio.gather(
        *[writer.write(note(str(n))) for n in range(3)], return_exceptions=True
    )
    assert [type(one) for one in done] == [StoreClosedError] * 3


async def test_whoever_wraps_a_write_is_asked(
    db: SessionDB, writer: GroupWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await writer.write(note("before"))
    seen = 0
    plain = SessionDB._execute_write

    def wrapped(self: SessionDB, work: Callable[[Connection], R]) -> R:
        nonlocal seen
        seen += 1
        return plain(self, work)

    monkeypatch.setattr(SessionDB, "_execute_write", wrapped)
    await writer.write(note("a"))
    await asyncio.gather(writer.write(note("b")), writer.write(note("c")))
    assert seen == 2
    assert notes(db) == ["before", "a", "b", "c"]


# A store that others hold


async def test_the_loop_goes_on_while_others_hold_the_store(
    db: SessionDB, writer: GroupWriter
) -> None:
    other = locked_elsewhere(db)
    first = [asyncio.create_task(writer.write(note(f"1.{n}"))) for n in range(3)]
    await until(lambda: held_over(writer))
    later = [asyncio.create_task(writer.write(note(f"2.{n}"))) for n in range(3)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in (*first, *later))
    other.close()
    done = await asyncio.gather(*first, *later)
    assert done == notes(db) == [f"{batch}.{n}" for batch in (1, 2) for n in range(3)]


async def test_a_single_write_waits_off_the_loop_too(db: SessionDB, writer: GroupWriter) -> None:
    other = locked_elsewhere(db)
    one = asyncio.create_task(writer.write(note("one")))
    await until(lambda: held_over(writer))
    other.close()
    assert await one == "one"


async def test_a_thread_of_this_process_that_holds_the_store_is_waited_for_off_the_loop(
    db: SessionDB, writer: GroupWriter
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        inside.set()
        assert leave.wait(PATIENCE)

    holder = threading.Thread(target=db._execute_write, args=(slow,), daemon=True)
    holder.start()
    assert inside.wait(PATIENCE)
    one = asyncio.create_task(writer.write(note("one")))
    await until(lambda: held_over(writer))
    leave.set()
    assert await one == "one"
    holder.join(PATIENCE)


async def test_a_store_that_does_not_become_free_is_named_to_each(db_path: Any) -> None:
    with SessionDB(db_path, busy_timeout=0.05) as db:
        writer = GroupWriter(db)
        other = locked_elsewhere(db)
        done = await asyncio.gather(
            *[writer.write(note(str(n))) for n in range(3)], return_exceptions=True
        )
        assert [type(one) for one in done] == [StoreBusyError] * 3
        other.close()
        assert await writer.write(note("after")) == "after"
        assert notes(db) == ["after"]


# Cancellation


async def test_cancelled_before_it_was_begun_it_is_not_done(
    db: SessionDB, writer: GroupWriter
) -> None:
    tasks = [asyncio.create_task(writer.write(note(str(n)))) for n in range(3)]
    # Between the coroutines, which queue their works, and the flush.
    asyncio.get_running_loop().call_soon(tasks[1].cancel)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert done[0] == "0" and done[2] == "2"
    assert isinstance(done[1], asyncio.CancelledError)
    assert notes(db) == ["0", "2"]


async def test_cancelled_behind_a_store_that_is_held_it_is_not_done(
    db: SessionDB, writer: GroupWriter
) -> None:
    other = locked_elsewhere(db)
    first = asyncio.create_task(writer.write(note("first")))
    await until(lambda: held_over(writer))
    second = asyncio.create_task(writer.write(note("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not first.done()
    other.close()
    assert await first == "first"
    assert notes(db) == ["first"]


@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_when_it_was_handed_over_it_knows_the_outcome_first(
    db: SessionDB, writer: GroupWriter, fails: bool
) -> None:
    other = locked_elsewhere(db)
    work = failing("handed", ValueError("of the work")) if fails else note("handed")
    outcomes: list[object] = []

    async def write_and_go_on() -> None:
        try:
            outcomes.append(await writer.write(work))
        except ValueError as error:
            outcomes.append(str(error))
        await asyncio.sleep(60)  # where the cancellation comes

    task = asyncio.create_task(write_and_go_on())
    await until(lambda: held_over(writer))
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.002)
        assert not task.done()
    other.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes(db) == ([] if fails else ["handed"])
    assert outcomes == ["of the work" if fails else "handed"]
    assert await writer.write(note("after")) == "after"


async def test_a_time_limit_ends_a_write_that_waits(db: SessionDB, writer: GroupWriter) -> None:
    other = locked_elsewhere(db)
    first = asyncio.create_task(writer.write(note("first")))
    await until(lambda: held_over(writer))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await writer.write(note("second"))
    other.close()
    assert await first == "first"
    assert notes(db) == ["first"]


# Several loops


def test_loops_of_several_threads_share_the_store(db: SessionDB, writer: GroupWriter) -> None:
    errors: list[BaseException] = []

    async def talk(name: str) -> None:
        for round_ in range(10):
            wanted = [f"{name}:{round_}:{n}" for n in range(8)]
            assert await asyncio.gather(*[writer.write(note(text)) for text in wanted]) == wanted

    def run(name: str) -> None:
        try:
            asyncio.run(talk(name))
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a loop hangs"
    assert not errors
    stored = notes(db)
    assert len(stored) == len(set(stored)) == 240
    for name in "abc":
        mine = [text for text in stored if text.startswith(name)]
        assert mine == [f"{name}:{round_}:{n}" for round_ in range(10) for n in range(8)]


def test_a_writer_outlives_the_loops_that_use_it(db: SessionDB, writer: GroupWriter) -> None:
    for n in range(3):
        assert asyncio.run(writer.write(note(str(n)))) == str(n)
    assert notes(db) == ["0", "1", "2"]
