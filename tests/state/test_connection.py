"""Threads on one file: writers take turns in order, readers never wait, counts are exact."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB, StoreClosedError
from hermes_state.connection import FairLock
from hermes_state.dialect import Connection

pytestmark = pytest.mark.sqlite


PATIENCE = 30.0
"""How long to wait for a state that must come; only a hanging test ever waits that long."""


def await_state(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, "the awaited state never came"
        time.sleep(0.001)


def run_all(*targets: Callable[[], object]) -> None:
    """Run every target in a thread of its own; raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded(target: Callable[[], object]) -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def test_the_lock_serves_threads_in_the_order_they_came() -> None:
    lock = FairLock()
    served: list[int] = []

    def take(number: int) -> None:
        with lock:
            served.append(number)

    threads = [threading.Thread(target=take, args=(n,), daemon=True) for n in range(20)]
    with lock:
        for queued, thread in enumerate(threads, start=1):
            thread.start()
            await_state(lambda queued=queued: len(lock._waiting) == queued)
    for thread in threads:
        thread.join(PATIENCE)
    assert served == list(range(20))


def test_the_lock_is_held_by_one_thread_at_a_time() -> None:
    lock = FairLock()
    inside = overlaps = total = 0

    def work() -> None:
        nonlocal inside, overlaps, total
        for _ in range(300):
            with lock:
                inside += 1
                overlaps += inside != 1
                total += 1
                inside -= 1

    run_all(*[work] * 8)
    assert (overlaps, total) == (0, 2400)


def test_the_lock_is_free_again_after_an_error() -> None:
    lock = FairLock()
    with pytest.raises(RuntimeError), lock:
        raise RuntimeError
    with lock:
        assert lock._held
    assert not lock._held


@pytest.mark.parametrize("behind_it", [0, 2])
def test_a_thread_interrupted_while_it_waits_leaves_the_queue(behind_it: int) -> None:
    lock = FairLock()
    release, holds = threading.Event(), threading.Event()
    served: list[int] = []

    def hold() -> None:
        with lock:
            holds.set()
            release.wait(PATIENCE)

    def take(number: int) -> None:
        with lock:
            served.append(number)

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    main = threading.main_thread().ident
    assert main is not None
    others = [threading.Thread(target=take, args=(n,), daemon=True) for n in range(behind_it)]

    def disturb() -> None:
        await_state(lambda: len(lock._waiting) == 1)
        for queued, thread in enumerate(others, start=2):
            thread.start()
            await_state(lambda queued=queued: len(lock._waiting) == queued)
        signal.pthread_kill(main, signal.SIGUSR1)

    holder = threading.Thread(target=hold, daemon=True)
    disturber = threading.Thread(target=disturb, daemon=True)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        holder.start()
        assert holds.wait(PATIENCE)
        disturber.start()
        with pytest.raises(KeyboardInterrupt), lock:
            pytest.fail("the lock was given to a thread that had left")
    finally:
        signal.signal(signal.SIGUSR1, before)
    release.set()
    for thread in (holder, disturber, *others):
        thread.join(PATIENCE)
    assert served == list(range(behind_it))
    run_all(lambda: take(99))
    assert served[-1] == 99


def test_readers_do_not_wait_for_a_writer(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "before")
    opened, finish = threading.Event(), threading.Event()

    def slow_write(conn: Connection) -> None:
        conn.execute("UPDATE sessions SET title = 'half done' WHERE id = 's'")
        opened.set()
        assert finish.wait(PATIENCE)

    writer = threading.Thread(target=lambda: db._execute_write(slow_write), daemon=True)
    writer.start()
    assert opened.wait(PATIENCE)
    seen: list[Any] = []

    def read() -> None:
        seen.append((db.get_session_title("s"), len(db.get_messages("s")), db.session_count()))

    run_all(*[read] * 6)
    assert writer.is_alive()
    assert seen == [(None, 1, 1)] * 6
    finish.set()
    writer.join(PATIENCE)
    assert db.get_session_title("s") == "half done"


def test_a_reader_sees_one_state_and_does_not_hold_up_a_writer(db: SessionDB) -> None:
    db.create_session("s", "cli")

    def count_twice(conn: Connection) -> tuple[int, int]:
        count = "SELECT COUNT(*) FROM messages"
        first = conn.execute(count).fetchone()[0]
        run_all(lambda: db.append_message("s", "user", "meanwhile"))
        return first, conn.execute(count).fetchone()[0]

    assert db._database.read(count_twice) == (0, 0)
    assert db.message_count() == 1


def test_a_read_that_failed_half_way_does_not_pin_what_later_reads_see(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": str(n)} for n in range(10)])

    def stop_in_the_middle(conn: Connection) -> None:
        cursor = conn.execute("SELECT * FROM messages")
        next(cursor)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # its traceback keeps the cursor alive
        db._database.read(stop_in_the_middle)
    for written in range(11, 31):
        db.append_message("s", "user", "later")
        assert db.message_count() == written
    assert kept.value is not None


def test_a_write_that_failed_half_way_does_not_block_later_ones(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": str(n)} for n in range(10)])

    def stop_in_the_middle(conn: Connection) -> None:
        conn.execute("DELETE FROM messages WHERE content = '3'")
        cursor = conn.execute("SELECT * FROM messages")
        next(cursor)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:
        db._execute_write(stop_in_the_middle)
    with SessionDB(db.db_path) as other:
        other.append_message("s", "user", "from elsewhere")
    db.append_message("s", "user", "here")
    assert [m["content"] for m in db.get_messages("s")] == [
        *(str(n) for n in range(10)), "from elsewhere", "here",
    ]  # fmt: skip
    assert kept.value is not None


def test_a_store_opened_by_a_relative_path_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SessionDB("state.db") as db:
        db.create_session("s", "cli")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        for _ in range(3):
            db.append_message("s", "user", "x")
        held = [db._database.read(lambda _: db.message_count("s"))]  # needs a second reader
    assert held == [3]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_many_threads_lose_nothing(db: SessionDB) -> None:
    writers, each = 8, 30
    for number in range(writers):
        db.create_session(f"own{number}", "cli")
    db.create_session("shared", "cli")
    stop = threading.Event()
    returned: list[list[int]] = [[] for _ in range(writers)]

    def write(number: int) -> None:
        for n in range(each):
            calls = [{"id": f"c{n}", "function": {"name": "f"}}] if n % 3 == 0 else None
            returned[number] += [
                db.append_message(f"own{number}", "assistant", f"{number}:{n}", tool_calls=calls),
                db.append_message("shared", "user", f"{number}:{n}"),
            ]

    def read() -> None:
        while not stop.is_set():
            session = db.get_session("shared")
            messages = db.get_messages("shared")
            assert session is not None
            assert session["message_count"] <= len(messages)
            ids = [message["id"] for message in messages]
            assert ids == sorted(set(ids))

    def write_all() -> None:
        try:
            run_all(*[lambda number=number: write(number) for number in range(writers)])
        finally:
            stop.set()

    run_all(write_all, read, read)
    ids = [one for mine in returned for one in mine]
    assert len(set(ids)) == writers * each * 2 == db.message_count()
    shared = db.get_session("shared")
    assert shared and shared["message_count"] == writers * each
    said = [message["content"] for message in db.get_messages("shared")]
    for number in range(writers):
        mine = [f"{number}:{n}" for n in range(each)]
        assert [m["content"] for m in db.get_messages(f"own{number}")] == mine
        assert [text for text in said if text.startswith(f"{number}:")] == mine
        own = db.get_session(f"own{number}")
        assert own and (own["message_count"], own["tool_call_count"]) == (each, each // 3)
        assert own["version"] == each + 1


def test_closing_while_threads_work_ends_each_of_them_with_a_named_error(db_path: Path) -> None:
    db = SessionDB(db_path)
    db.create_session("s", "cli")
    acknowledged: list[int] = []
    started = threading.Barrier(5)

    def work() -> None:
        started.wait(PATIENCE)
        while True:
            try:
                acknowledged.append(db.append_message("s", "user", "x"))
                db.get_messages("s", limit=1)
            except StoreClosedError:
                return

    def close() -> None:
        started.wait(PATIENCE)
        await_state(lambda: len(acknowledged) >= 50)
        db.close()

    run_all(work, work, work, work, close)
    with SessionDB(db_path) as again:
        assert sorted(acknowledged) == [m["id"] for m in again.get_messages("s")]
