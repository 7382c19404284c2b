"""Writes of several threads in one transaction of a server (`hermes_state.server_group`)."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import SessionDB, StoreError, server, server_group
from hermes_state.locks import ROW, Scope
from hermes_state.server_group import lock_at_once

from .. import seeds
from .cut_proxy import CutProxy
from .interleaving import Call, chat, live
from .raw import address, check_sound, query, tamper
from .test_server_faults import end_backend, through
from .writers import PATIENCE, await_state

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)

NAMES = tuple(f"s{number}" for number in range(6))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write is taken along, however long the machine takes for it."""
    monkeypatch.setattr(server_group, "PATIENCE", PATIENCE)


class Leaders:
    """Writes that hold all the places of a store's leaders until they are let go."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._queue = db._database._queue  # type: ignore[union-attr]
        self._reached = threading.Semaphore(0)
        self._go = [threading.Event() for _ in range(server_group.LEADERS)]
        self.calls = [Call(db, self._holding(go)) for go in self._go]
        for _ in self._go:
            assert self._reached.acquire(timeout=PATIENCE)

    def _holding(self, go: threading.Event) -> Callable[[SessionDB], Any]:
        def hold(conn: Any) -> str:
            self._reached.release()
            assert go.wait(PATIENCE)
            return "led"

        return lambda db: write(db, hold)

    def queue(self, *works: Callable[[SessionDB], Any]) -> list[Call]:
        """Begin writes that are queued in this order."""
        calls = []
        for work in works:
            count = len(self._queue._waiting)
            calls.append(Call(self._db, work))
            await_state(lambda count=count: len(self._queue._waiting) == count + 1)
        return calls

    def let_one_go(self) -> None:
        """The first goes on, and takes along what is queued; the others still hold."""
        self._go[0].set()
        assert self.calls[0].outcome().result == "led"

    def let_go(self) -> None:
        for go in self._go:
            go.set()
        for call in self.calls:
            call.outcome()


@pytest.fixture
def store(db: SessionDB) -> Iterator[SessionDB]:
    for name in NAMES:
        chat(db, name)
    yield db
    assert db._database._queue._leading == 0  # type: ignore[union-attr]
    assert not db._database._queue._waiting  # type: ignore[union-attr]
    check_sound(db)


@contextlib.contextmanager
def led(db: SessionDB) -> Iterator[Leaders]:
    leaders = Leaders(db)
    try:
        yield leaders
    finally:
        leaders.let_go()


def write(db: SessionDB, work: Callable[[Any], Any], scope: Scope = ROW) -> Any:
    return db._database.write(work, scope)


def append(name: str, text: str = "x") -> Callable[[SessionDB], int]:
    return lambda db: db.append_message(name, "user", text)


def transactions(db: SessionDB, text: str = "x") -> list[int]:
    """The transactions that stored messages of a text, in the order of the messages."""
    rows = query(
        db, "SELECT CAST(CAST(xmin AS text) AS bigint) FROM messages WHERE content = ? ORDER BY id",
        (text,),
    )  # fmt: skip
    return [xmin for (xmin,) in rows]


def test_what_is_queued_shares_a_transaction_and_keeps_its_order(store: SessionDB) -> None:
    with led(store) as leaders:
        calls = leaders.queue(*map(append, NAMES))
        leaders.let_one_go()
        ids = [call.outcome().result for call in calls]
    assert ids == sorted(ids)
    assert [store.get_messages(name)[-1]["id"] for name in NAMES] == ids
    assert len(transactions(store)) == len(NAMES)
    assert len(set(transactions(store))) == 1


def test_several_writes_of_one_conversation_in_a_group(store: SessionDB) -> None:
    with led(store) as leaders:
        calls = leaders.queue(append("s0", "1"), append("s1", "x"), append("s0", "2"))
        leaders.let_one_go()
        assert all(call.outcome().result for call in calls)
    assert live(store, "s0")[2:] == ["1", "2"]
    assert (store.get_session("s0") or {})["message_count"] == 4


def test_one_that_fails_fails_alone(store: SessionDB) -> None:
    runs = []

    def fail(conn: Any) -> None:
        runs.append(1)
        conn.execute("INSERT INTO state_meta (key, value) VALUES ('half', 'x')")
        raise ValueError("its own")

    with led(store) as leaders:
        calls = leaders.queue(append("s0"), lambda db: write(db, fail), append("s1"))
        leaders.let_one_go()
        first, failed, last = (call.outcome() for call in calls)
    assert isinstance(failed.error, ValueError)
    assert len(runs) == 2, "once with the others, once alone"
    assert (first.result, last.result) == tuple(
        store.get_messages(name)[-1]["id"] for name in ("s0", "s1")
    )
    assert len(set(transactions(store))) == 2
    assert store.get_meta("half") is None


def test_a_leader_that_fails_takes_nobody_along(store: SessionDB) -> None:
    with led(store) as leaders:

        def fail(conn: Any) -> None:
            leaders.calls.extend(leaders.queue(append("s0")))
            raise ValueError("its own")

        (failed,) = leaders.queue(lambda db: write(db, fail))
        leaders._queue.leave()  # a place is free, without anybody who takes the rest along
        assert isinstance(failed.outcome().error, ValueError)
        assert leaders.calls[-1].outcome().result == store.get_messages("s0")[-1]["id"]
        leaders._queue._leading += 1


@pytest.mark.parametrize("named", ["s1", "s5"])
def test_a_lock_of_another_process_keeps_nobody_else_waiting(store: SessionDB, named: str) -> None:
    """Whether the session is named as its conversation is, or not."""
    tamper(store, "UPDATE sessions SET conversation_id = 's1' WHERE id = 's5'")
    with psycopg.connect(address(store)) as holder:
        with led(store) as leaders:
            holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('s1', 0))")
            first, held, last = leaders.queue(append("s0"), append(named), append("s2"))
            leaders.let_one_go()
            assert first.outcome().result
            assert last.outcome().result
            assert not held.is_over()
            assert len(set(transactions(store))) == 1
            holder.rollback()
        assert held.outcome().result == store.get_messages(named)[-1]["id"]


def test_a_session_that_gets_another_conversation_meanwhile(
    store: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was locked is not its conversation any more: it waits for another group."""
    moved = []

    def move(connection: Any, writes: Any) -> Any:
        run_scripts = connection.run_scripts

        def between(script: str) -> Any:
            locks, again = script.split("; ")
            locked = run_scripts(locks)
            if not moved:
                moved.append(1)
                other.execute("UPDATE sessions SET conversation_id = 's5' WHERE id = 's4'")
            return [*locked, *run_scripts(again)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "run_scripts", between)
            return lock_at_once(connection, writes)

    with psycopg.connect(address(store), autocommit=True) as other, led(store) as leaders:
        monkeypatch.setattr(server, "lock_at_once", move)
        first, changed = leaders.queue(append("s0"), append("s4"))
        leaders.let_one_go()
        assert first.outcome().result
        assert changed.outcome().result == store.get_messages("s4")[-1]["id"]
    assert moved
    assert len(set(transactions(store))) == 2


def test_one_that_nobody_takes_along_goes_on_by_itself(
    store: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    with led(store):
        monkeypatch.setattr(server_group, "PATIENCE", 0.01)
        assert append("s0")(store) == store.get_messages("s0")[-1]["id"]


def test_all_whom_a_group_concerns_are_told(store: SessionDB) -> None:
    with psycopg.connect(address(store), autocommit=True) as listener:
        listener.execute("LISTEN hermes")
        with led(store) as leaders:
            calls = leaders.queue(
                lambda db: db._database.write(lambda conn: 1, ROW, "signals"),
                lambda db: db._database.write(lambda conn: 2, ROW, "events"),
                lambda db: db._database.write(lambda conn: 3, ROW, False),
            )
            leaders.let_one_go()
            assert [call.outcome().result for call in calls] == [1, 2, 3]
            told = {note.payload for note in listener.notifies(timeout=PATIENCE, stop_after=3)}
    assert told == {"", "signals", "events"}


# Faults


@pytest.mark.parametrize("at", ["its first write", "a member", "the last one"])
def test_a_session_that_ends_in_the_middle_of_a_group(store: SessionDB, at: str) -> None:
    with psycopg.connect(address(store), autocommit=True) as elsewhere, led(store) as leaders:
        ended = []

        def end(conn: Any) -> str:
            if not ended:
                ended.append(1)
                end_backend(elsewhere, conn.raw.info.backend_pid)
            conn.execute("SELECT 1")
            return "goes on"

        works: list[Callable[[SessionDB], Any]] = [append(name) for name in NAMES]
        number = {"its first write": 0, "a member": 3, "the last one": len(works)}[at]
        works.insert(number, lambda db: write(db, end))
        calls = leaders.queue(*works)
        leaders.let_one_go()
        results = [call.outcome().result for call in calls]
    assert results.pop(number) == "goes on"
    assert results == [store.get_messages(name)[-1]["id"] for name in NAMES]
    assert [live(store, name).count("x") for name in NAMES] == [1] * len(NAMES)


@pytest.mark.parametrize("cut", ["before", "after", "late"])
def test_a_commit_of_a_group_that_is_lost(store: SessionDB, cut: str) -> None:
    host = str(psycopg.conninfo.conninfo_to_dict(address(store))["host"])
    proxy = CutProxy(Path(host))
    try:
        with through(store, proxy) as cut_off:
            with led(cut_off) as leaders:
                calls = leaders.queue(*map(append, NAMES))
                proxy.cut = cut
                leaders._go[0].set()
                await_state(lambda: proxy.cuts == 1)
                if cut == "late":
                    proxy.deliver()
                results = [call.outcome().result for call in calls]
            assert results == [store.get_messages(name)[-1]["id"] for name in NAMES]
    finally:
        proxy.close()
    assert [live(store, name).count("x") for name in NAMES] == [1] * len(NAMES)


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_in_a_leader_that_commits(
    store: SessionDB, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Each of the others finds out for itself whether it counts."""
    database: Any = store._database
    real = database._commit
    interrupted = []

    def commit(connection: Any, mark: Any, tells: Any) -> None:
        if interrupted or len(taken) < 3:
            return real(connection, mark, tells)
        interrupted.append(1)
        if when == "after":
            real(connection, mark, tells)
        connection.raw.close()
        raise KeyboardInterrupt

    taken: list[Any] = []
    take = database._queue.take

    def noted() -> Any:
        taken.extend(queued := take())
        return queued

    monkeypatch.setattr(database._queue, "take", noted)
    with led(store) as leaders:
        calls = leaders.queue(*map(append, NAMES))
        monkeypatch.setattr(database, "_commit", commit)
        leaders.calls.pop(0)
        with hushed_interrupts():
            leaders._go[0].set()
            results = [call.outcome().result for call in calls]
    assert interrupted
    assert results == [store.get_messages(name)[-1]["id"] for name in NAMES]
    assert [live(store, name).count("x") for name in NAMES] == [1] * len(NAMES)
    assert len(set(transactions(store))) == (1 if when == "after" else len(NAMES))


@contextlib.contextmanager
def hushed_interrupts() -> Iterator[None]:
    """A thread that ends by Ctrl-C is no news to the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda args: None)
        yield


@pytest.mark.parametrize("state", ["waiting", "taken", "leads"])
def test_ctrl_c_in_a_write_that_is_queued(store: SessionDB, state: str) -> None:
    """What waits is not written; what others have begun for it is over before it goes on."""
    queue: Any = store._database._queue  # type: ignore[union-attr]
    queued: list[Any] = []

    class Interrupted(server_group.Queued[int]):
        def wait(self, seconds: float = -1) -> bool:
            if seconds < 0:
                return super().wait(seconds)
            queued.append(self)
            assert asked.wait(PATIENCE)
            raise KeyboardInterrupt

    asked, over = threading.Event(), threading.Event()
    runs = []

    def enter() -> None:
        with pytest.raises(KeyboardInterrupt):
            queue.enter(Interrupted(lambda conn: runs.append(1) or 7, "", False))
        over.set()

    with led(store) as leaders:
        thread = threading.Thread(target=enter)
        thread.start()
        await_state(lambda: bool(queued))
        if state == "waiting":
            asked.set()
            assert over.wait(PATIENCE)
            leaders.let_one_go()
        elif state == "taken":
            (taken,) = queue.take()
            asked.set()
            taken.result = taken.work(None)
            assert not over.is_set()
            taken.settle(server_group.State.DONE)
            assert over.wait(PATIENCE)
        else:
            queue.leave()  # its place is handed on
            asked.set()
            assert over.wait(PATIENCE)
            assert queue._leading == server_group.LEADERS - 1
            queue._leading += 1
        thread.join(PATIENCE)
    assert runs == ([1] if state == "taken" else [])


# Many


def test_many_threads_of_which_some_fail_and_some_conflict(store: SessionDB) -> None:
    """Each knows its own outcome, and what it was told is what is there."""
    count, each = 24, seeds.times(12, 200)
    told: dict[str, list[int]] = {name: [] for name in NAMES}
    failures: list[BaseException] = []
    errors: list[BaseException] = []

    def work(number: int) -> None:
        chance = random.Random(f"{seeds.seed()}-{number}")
        for _ in range(each):
            name = chance.choice(NAMES)
            try:
                if chance.random() < 0.1:
                    write(store, lambda conn: conn.execute("SELECT 1 / 0"), name)
                elif chance.random() < 0.1:
                    store.set_meta("shared", str(number))
                elif chance.random() < 0.05:
                    store.set_session_title(name, f"title {name}")
                else:
                    told[name].append(store.append_message(name, "user", "x"))
            except StoreError as error:
                failures.append(error)
            except BaseException as error:  # noqa: BLE001 - shown below
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    assert failures
    for name in NAMES:
        stored = [m["id"] for m in store.get_messages(name) if m["content"] == "x"]
        assert stored == sorted(told[name])
        assert (store.get_session(name) or {})["message_count"] == len(stored) + 2
    assert len(set(transactions(store))) < len(transactions(store)), "some shared a transaction"
