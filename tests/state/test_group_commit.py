"""Threads that wait for each other share one transaction, and none feels the others' failures."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB, StoreClosedError, StoreError, StoreFullError
from hermes_state.connection import GROUP_WORKS
from hermes_state.dialect import Connection
from hermes_state.errors import StoreIOError

from .memory import memory_folder
from .writers import (
    PATIENCE,
    Call,
    Gate,
    Recorder,
    await_state,
    failing,
    note,
    notes,
)

pytestmark = pytest.mark.sqlite


R = TypeVar("R")


def test_those_who_wait_share_one_commit(db: SessionDB) -> None:
    recorder = Recorder(db)
    gate = Gate(db)
    calls = gate.queue(*[note(str(n)) for n in range(10)])
    gate.open()
    assert [call.over().result for call in calls] == [str(n) for n in range(10)]
    assert notes(db) == ["gate", *(str(n) for n in range(10))]
    assert recorder.count("COMMIT") == recorder.count("BEGIN IMMEDIATE") == 1


def test_a_single_write_has_no_savepoint(db: SessionDB) -> None:
    recorder = Recorder(db)
    db._execute_write(note("alone"))
    assert not [sql for sql in recorder.executed if "SAVEPOINT" in sql]


def test_one_that_fails_leaves_nothing_and_harms_nobody(db: SessionDB) -> None:
    recorder = Recorder(db)
    gate = Gate(db)
    own = ValueError("mine alone")
    good, bad, late = gate.queue(note("a"), failing("b", own), note("c"))
    gate.open()
    assert (good.over().result, late.over().result) == ("a", "c")
    assert bad.over().error is own
    assert notes(db) == ["gate", "a", "c"]
    assert recorder.count("COMMIT") == 1


def test_errors_of_sqlite_have_the_stores_names_for_each(db: SessionDB) -> None:
    gate = Gate(db)
    twice, unknown = gate.queue(note("gate"), lambda conn: conn.execute("SELECT nonsense"))
    gate.open()
    for call in (twice, unknown):
        assert type(call.over().error) is StoreError
        assert isinstance(call.error.__cause__, apsw.Error)  # type: ignore[union-attr]
    assert notes(db) == ["gate"]


def test_the_first_that_fails_harms_nobody_either(db: SessionDB) -> None:
    inside, leave = threading.Event(), threading.Event()

    def fail(conn: Connection) -> None:
        note("first")(conn)
        inside.set()
        assert leave.wait(PATIENCE)
        raise ValueError("mine alone")

    first = Call(db, fail)
    assert inside.wait(PATIENCE)
    others = [Call(db, note(str(n))) for n in range(3)]
    await_state(lambda: len(db._database._write_lock._waiting) == 3)
    leave.set()
    assert isinstance(first.over().error, ValueError)
    assert {call.over().result for call in others} == {"0", "1", "2"}
    assert sorted(notes(db)) == ["0", "1", "2"]


def test_a_commit_that_fails_is_told_to_all(db: SessionDB) -> None:
    recorder = Recorder(db)
    recorder.commit_error = apsw.FullError("injected")
    own = ValueError("mine alone")
    gate = Gate(db)
    calls = gate.queue(note("a"), failing("b", own), note("c"))
    gate.open()
    for call in (gate.call, calls[0].over(), calls[2].over()):
        assert isinstance(call.error, StoreFullError)
        assert call.result is None
    assert calls[1].over().error is own
    errors = {id(call.error) for call in (gate.call, calls[0], calls[2])}
    assert len(errors) == 3, "each has an error of its own to raise"
    assert notes(db) == []
    recorder.commit_error = None
    assert db._execute_write(note("after")) == "after"
    assert notes(db) == ["after"]


def fill_up(conn: Connection) -> None:
    """Make SQLite give the whole transaction up, as a full disk does."""
    conn.execute("PRAGMA max_page_count = 1")
    conn.execute("INSERT INTO state_meta VALUES ('big', ?)", ("x" * 5_000_000,))


def give_up(conn: Connection) -> None:
    conn.execute("ROLLBACK")


@pytest.mark.parametrize("how", [fill_up, give_up])
def test_when_sqlite_gives_up_all_so_far_have_failed_and_the_others_go_on(
    db: SessionDB, how: Callable[[Connection], None]
) -> None:
    def make_room(conn: Connection) -> str:
        conn.execute("PRAGMA max_page_count = 1000000")
        return "room"

    gate = Gate(db)
    before, culprit, behind, last = gate.queue(note("a"), how, make_room, note("z"))
    gate.open()
    expected = StoreFullError if how is fill_up else StoreIOError
    for call in (gate.call, before.over(), culprit.over()):
        assert isinstance(call.error, expected), call.error
    assert (behind.over().result, last.over().result) == ("room", "z")
    assert notes(db) == ["z"]


def test_a_failed_work_whose_statement_is_kept_alive_harms_nobody(db: SessionDB) -> None:
    def stop_in_the_middle(conn: Connection) -> None:
        rows = conn.execute(
            "INSERT INTO state_meta VALUES ('half 1', ''), ('half 2', '') RETURNING key"
        )
        next(rows)
        raise KeyboardInterrupt

    gate = Gate(db)
    before, half, behind = gate.queue(note("a"), stop_in_the_middle, note("z"))
    gate.open()
    assert (before.over().result, behind.over().result) == ("a", "z")
    assert isinstance(half.over().error, KeyboardInterrupt)
    assert notes(db) == ["gate", "a", "z"]
    assert db.get_meta("half 1") is None
    db._execute_write(note("after"))


def test_a_group_is_not_endless(db: SessionDB) -> None:
    recorder = Recorder(db)
    gate = Gate(db)
    wanted = [str(n) for n in range(GROUP_WORKS + 20)]
    calls = gate.queue(*[note(text) for text in wanted])
    gate.open()
    assert [call.over().result for call in calls] == wanted
    assert notes(db) == ["gate", *wanted]
    assert recorder.count("COMMIT") >= 2


def test_those_who_want_the_store_for_themselves_get_it_in_their_turn(db: SessionDB) -> None:
    order: list[str] = []

    def told(text: str) -> Callable[[Connection], str]:
        def work(conn: Connection) -> str:
            order.append(text)
            return str(note(text)(conn))

        return work

    def alone(conn: Connection) -> None:
        assert not conn.in_transaction
        order.append("alone")

    gate = Gate(db)
    before = gate.queue(told("a"), told("b"))
    thread = threading.Thread(target=db._database.outside_transaction, args=(alone,), daemon=True)
    thread.start()
    await_state(lambda: len(db._database._write_lock._waiting) == 3)
    behind = gate.queue(told("c"))
    gate.open()
    for call in (*before, *behind):
        call.over()
    thread.join(PATIENCE)
    assert order == ["a", "b", "alone", "c"]


def test_closing_waits_for_those_before_it_and_refuses_those_behind(db_path: Path) -> None:
    db = SessionDB(db_path)
    gate = Gate(db)
    before = gate.queue(note("before"))
    closer = threading.Thread(target=db.close, daemon=True)
    closer.start()
    await_state(lambda: len(db._database._write_lock._waiting) == 2)
    behind = gate.queue(note("behind"))
    gate.open()
    closer.join(PATIENCE)
    assert before[0].over().result == "before"
    assert isinstance(behind[0].over().error, StoreClosedError)
    with SessionDB(db_path) as again:
        assert notes(again) == ["gate", "before"]


def test_whoever_wraps_a_write_sees_each_of_them(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    plain = SessionDB._execute_write

    def wrapped(self: SessionDB, work: Callable[[Connection], R]) -> R:
        def inner(conn: Connection) -> R:
            done = work(conn)
            seen.append(str(done))
            return done

        return plain(self, inner)

    monkeypatch.setattr(SessionDB, "_execute_write", wrapped)
    gate = Gate(db)
    calls = gate.queue(note("a"), note("b"))
    gate.open()
    assert [call.over().result for call in calls] == ["a", "b"]
    assert seen == ["gate", "a", "b"]


# Ctrl-C


def test_the_main_thread_runs_nobodys_work_but_its_own(db: SessionDB) -> None:
    """Ctrl-C is raised there, and is to hit what the main thread does."""
    ran_by: list[threading.Thread] = []

    def who(conn: Connection) -> None:
        ran_by.append(threading.current_thread())

    calls: list[Call] = []

    def main_work(conn: Connection) -> None:
        calls.extend(Call(db, who) for _ in range(3))
        await_state(lambda: len(db._database._write_lock._waiting) == 3)

    db._execute_write(main_work)
    for call in calls:
        call.over()
    assert len(ran_by) == 3
    assert threading.main_thread() not in ran_by


class Interrupts:
    """SIGUSR1 raises KeyboardInterrupt in the main thread, as Ctrl-C does.

    With `armed` set to False none is raised; with `is_single`, each time it is set one is.
    """

    armed = True
    is_single = False

    def __enter__(self) -> "Interrupts":
        def interrupt(_number: int, _frame: object) -> None:
            if self.armed:
                self.armed = not self.is_single
                raise KeyboardInterrupt

        self._before = signal.signal(signal.SIGUSR1, interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, self._before)

    @staticmethod
    def send() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def test_interrupted_while_another_runs_its_work_the_outcome_is_awaited(db: SessionDB) -> None:
    gate = Gate(db)
    running, finish = threading.Event(), threading.Event()
    told: list[bool] = []

    def slow(conn: Connection) -> None:
        running.set()
        assert finish.wait(PATIENCE)
        note("main")(conn)

    def disturb() -> None:
        await_state(lambda: len(db._database._write_lock._waiting) == 1)
        threading.Thread(target=gate.open, daemon=True).start()
        assert running.wait(PATIENCE)
        for _ in range(3):
            Interrupts.send()
        told.append(finish.is_set())
        finish.set()

    disturber = threading.Thread(target=disturb, daemon=True)
    with Interrupts():
        disturber.start()
        with pytest.raises(KeyboardInterrupt):
            db._execute_write(slow)
        disturber.join(PATIENCE)
    assert told == [False]
    assert notes(db) == ["gate", "main"]
    assert db._execute_write(note("after")) == "after"


def test_interrupts_at_any_moment_stop_nobody_else(db: SessionDB) -> None:
    stop = threading.Event()
    written: list[list[str]] = [[], [], []]
    chance = random.Random(4)

    def write(number: int) -> None:
        while not stop.is_set():
            text = f"{number}:{len(written[number])}"
            db._execute_write(note(text))
            written[number].append(text)

    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(3)]
    quiet = threading.Event()

    def disturb() -> None:
        while not quiet.wait(chance.uniform(0, 0.002)):
            Interrupts.send()

    disturber = threading.Thread(target=disturb, daemon=True)
    tried, acknowledged, interrupted = 0, [], 0
    for thread in threads:
        thread.start()
    with Interrupts() as interrupts:
        # Only while it writes: one that hits the test between two lines would end the whole run.
        interrupts.armed, interrupts.is_single = False, True
        disturber.start()
        while interrupted < 150:
            try:
                tried += 1
                interrupts.armed = True
                acknowledged.append(db._execute_write(note(f"main:{tried}")))
                interrupts.armed = False
            except KeyboardInterrupt:
                interrupted += 1
            except StoreError as error:  # its own, from within an interrupted statement
                pytest.fail(f"{error!r}")
        quiet.set()
        disturber.join(PATIENCE)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"
    stored = notes(db)
    assert len(stored) == len(set(stored))
    for mine in written:
        assert mine, "a writer never had a turn"
        assert set(mine) <= set(stored)
    assert set(acknowledged) <= set(stored)
    assert {text for text in stored if not text.startswith("main")} == {
        text for mine in written for text in mine
    }


# Any mixture


Plan = list[tuple[int, str]]
"""For each work: which of three threads has it, and what becomes of it."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionDB]:
    otherwise = tmp_path_factory.mktemp("many")
    with memory_folder(otherwise) as folder, SessionDB(folder / "state.db") as db:
        yield db


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    plan=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["ok", "ok", "ok", "raise", "constraint"])),
        max_size=40,
    )
)
def test_whatever_is_mixed_each_work_is_whole_or_nothing_and_run_once(
    many: SessionDB, plan: Plan
) -> None:
    db = many
    db._execute_write(lambda conn: conn.execute("DELETE FROM state_meta WHERE key LIKE 'note:%'"))
    runs: list[int] = []

    def made(number: int, kind: str) -> Callable[[Connection], Any]:
        def work(conn: Connection) -> str:
            runs.append(number)
            note(f"{number}/1")(conn)
            if kind == "raise":
                raise ValueError(number)
            note(f"{number}/1" if kind == "constraint" else f"{number}/2")(conn)
            return f"done {number}"

        return work

    results: dict[int, Any] = {}

    def run(mine: list[tuple[int, str]]) -> None:
        for number, kind in mine:
            try:
                results[number] = db._execute_write(made(number, kind))
            except (ValueError, StoreError) as error:
                results[number] = error

    shares = [[(n, kind) for n, (who, kind) in enumerate(plan) if who == one] for one in range(5)]
    threads = [threading.Thread(target=run, args=(share,), daemon=True) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a writer hangs"
    assert sorted(runs) == list(range(len(plan)))
    expected = set()
    for number, (_, kind) in enumerate(plan):
        if kind == "ok":
            assert results[number] == f"done {number}"
            expected |= {f"{number}/1", f"{number}/2"}
        elif kind == "raise":
            assert type(results[number]) is ValueError and results[number].args == (number,)
        else:
            assert type(results[number]) is StoreError
    assert set(notes(db)) == expected
