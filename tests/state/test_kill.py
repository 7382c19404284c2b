"""Killed at any moment: what was acknowledged is there; what was not is whole or not there."""

import os
import pickle
import random
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB

from .. import seeds
from .children import Child, in_child
from .kill_model import Operation, State, check_whole, choose, observe, perform
from .memory import memory_folder

ROUNDS = seeds.times(20, 200)
SEED = seeds.seed()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """In memory: a kill does not care, and there is more to kill when no disk is waited for."""
    with memory_folder(tmp_path) as folder:
        yield folder / "home" / "state.db"


def work_until_killed(path: Path, state: State, chance: random.Random, mark: int, out: int) -> None:
    """Do one operation after the other; say what comes next, and what is done."""
    number = 0
    while True:
        db = SessionDB(path)
        for _ in range(chance.randrange(5, 60)):
            number += 1
            operation = choose(chance, state, f"{mark}-{number}")
            os.write(out, pickle.dumps(("next", operation)))
            perform(db, operation)
            os.write(out, pickle.dumps(("done", operation)))
            state.apply(operation)
        db.close()


def run_and_kill(path: Path, state: State, mark: int, delay: float) -> list[tuple[str, Operation]]:
    """Let a child work for a moment, kill it, and give back everything it said."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            work_until_killed(path, state, random.Random(f"{SEED}/{mark}"), mark, writer)
        except BaseException:  # noqa: BLE001 - a child must never return into the tests
            import traceback

            traceback.print_exc()
        os._exit(1)
    os.close(writer)
    if mark % 4:  # else wherever it is, be it at the start
        select.select([reader], [], [], 20)
    time.sleep(delay)  # the moment of the kill, not a wait for something
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the child failed by itself (seed {SEED}, round {mark})"
    said = []
    with os.fdopen(reader, "rb") as pipe:
        while True:
            try:
                said.append(pickle.load(pipe))
            except (EOFError, pickle.UnpicklingError):
                return said


def look(path: Path) -> State:
    """Open the store as the next process would, and check everything that must always hold."""
    db = SessionDB(path)
    assert db.salvage_report is None
    state = observe(db)
    check_whole(db, state)
    return state  # a child ends without closing: the next one finds the log as it was


@pytest.mark.fuzz
def test_killed_again_and_again(path: Path, database: str) -> None:
    longest = 0.06 if database == "sqlite" else 0.2  # a server is told more, and over a socket
    chance = random.Random(SEED)
    state = State()
    acknowledged = in_flight = survived = 0
    for mark in range(ROUNDS):
        said = run_and_kill(path, state, mark, chance.uniform(0.0, longest))
        for word, operation in said:
            if word == "done":
                state.apply(operation)
                acknowledged += 1
        found = in_child(lambda: look(path))
        where = f"seed {SEED}, round {mark}"
        if said and said[-1][0] == "next":
            in_flight += 1
            whole = state.after(said[-1][1])
            survived += found == whole
            state = whole if found == whole else state
        assert found == state, where
    print(f"{acknowledged} acknowledged, {in_flight} in flight, {survived} of them done")
    assert acknowledged > ROUNDS
    assert in_flight > ROUNDS / 10
    with SessionDB(path) as db:
        assert observe(db) == state


def test_a_process_that_is_killed_does_not_disturb_another(path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("survivor", "cli")
    stop_reader, stop_writer = os.pipe()
    os.set_blocking(stop_reader, False)

    def survive() -> list[int]:
        os.close(stop_writer)
        ids = []
        with SessionDB(path) as db:
            while True:
                ids.append(db.append_message("survivor", "user", f"{len(ids)}"))
                try:
                    if os.read(stop_reader, 1) == b"":
                        return ids
                except BlockingIOError:
                    continue

    survivor = Child(survive)
    chance = random.Random(SEED)
    expected = 0
    for mark in range(seeds.times(10, 40)):
        said = run_and_kill(path, State(), 1000 + mark, chance.uniform(0.01, 0.08))
        expected += sum(word == "done" for word, _ in said)
    os.close(stop_writer)
    os.close(stop_reader)
    ids = survivor.result()
    assert expected and ids
    with SessionDB(path) as db:
        messages = db.get_messages("survivor")
        assert [m["id"] for m in messages] == ids
        assert [m["content"] for m in messages] == [f"{n}" for n in range(len(ids))]
        check_whole(db, observe(db))
