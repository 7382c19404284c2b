"""A write-ahead log or index that is deleted while processes have the store open.

Nothing that was acknowledged vanishes: whoever is in the way of that is told so.
"""

import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_state import SessionDB, StoreUnavailableError, lost_log

from .damage import check_sound

pytestmark = pytest.mark.sqlite


class StoreProcess:
    """A process that has the store open and does with it what it is sent."""

    def __init__(self, path: Path) -> None:
        self._pipe, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._pipe.close()
            self._serve(path, theirs)
        theirs.close()
        self._answer()  # it is open

    @staticmethod
    def _serve(path: Path, pipe: Any) -> None:
        try:
            db: SessionDB | None = None
            pending: Callable[..., Any] = SessionDB
            arguments: tuple[Any, ...] = (path,)
            while True:
                try:
                    answer = pending(*arguments)
                    if isinstance(answer, SessionDB):
                        db, answer = answer, None
                    if db is not None:
                        db._database._in_place_until = 0.0  # looked at with every write
                except Exception as error:  # noqa: BLE001 - raised where it was asked for
                    answer = error
                pipe.send(answer)
                name, arguments = pipe.recv()
                pending = getattr(db, name)
        finally:
            os._exit(0)

    def _answer(self) -> Any:
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __call__(self, method: str, *arguments: Any) -> Any:
        self._pipe.send((method, arguments))
        return self._answer()

    def end(self) -> None:
        """Kill it, if it is still there."""
        if not self._pipe.closed:
            self._pipe.close()
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


Start = Callable[[], StoreProcess]


@pytest.fixture
def start(db_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(lost_log, "PATIENCE", 0.2)
    started: list[StoreProcess] = []

    def begin() -> StoreProcess:
        started.append(StoreProcess(db_path))
        return started[-1]

    yield begin
    for process in started:
        process.end()


@pytest.fixture
def two(start: Start) -> tuple[StoreProcess, StoreProcess]:
    """Two processes, each with an acknowledged message that is only in the log."""
    first, second = start(), start()
    for name, process in (("a", first), ("b", second)):
        process("create_session", name, "cli")
        process("append_message", name, "user", f"{name}0")
    return first, second


GONE = {"log": ["-wal"], "index": ["-shm"], "log and index": ["-wal", "-shm"]}


def delete(path: Path, which: str) -> None:
    for suffix in GONE[which]:
        path.with_name(path.name + suffix).unlink()


def texts(path: Path) -> list[str]:
    with SessionDB(path) as db:
        assert db.salvage_report is None
        found = [row["content"] for name in "abc" for row in db.get_messages(name)]
        check_sound(db)
    return found


@pytest.mark.parametrize("which", GONE)
def test_one_process_goes_on_by_itself(start: Start, db_path: Path, which: str) -> None:
    only = start()
    only("create_session", "a", "cli")
    only("append_message", "a", "user", "a0")
    assert only("search_messages", "a0")  # the search index has the store open too
    delete(db_path, which)
    only("append_message", "a", "user", "a1")
    assert only("search_messages", "a1")
    only.end()  # killed: what it was told is stored is in the files that others see
    assert texts(db_path) == ["a0", "a1"]


@pytest.mark.parametrize("which", GONE)
def test_the_last_of_two_goes_on_and_the_first_joins_it(
    two: tuple[StoreProcess, StoreProcess], db_path: Path, which: str
) -> None:
    first, second = two
    delete(db_path, which)
    with pytest.raises(StoreUnavailableError, match="Close every other program"):
        first("append_message", "a", "user", "refused")
    second("append_message", "b", "user", "b1")
    first("append_message", "a", "user", "a1")
    second("append_message", "b", "user", "b2")
    assert [row["content"] for row in first("get_messages", "b")] == ["b0", "b1", "b2"]
    first.end()
    second.end()
    assert texts(db_path) == ["a0", "a1", "b0", "b1", "b2"]


@pytest.mark.parametrize("which", GONE)
def test_nobody_begins_a_new_log_while_others_have_the_old(
    two: tuple[StoreProcess, StoreProcess], start: Start, db_path: Path, which: str
) -> None:
    first, second = two
    delete(db_path, which)
    with pytest.raises(StoreUnavailableError, match="was deleted while Hermes had it open"):
        start()
    first("close")
    with pytest.raises(StoreUnavailableError):
        start()
    second("close")
    third = start()
    third("create_session", "c", "cli")
    third("append_message", "c", "user", "c0")
    third("close")
    assert texts(db_path) == ["a0", "b0", "c0"]


@pytest.mark.parametrize("which", GONE)
def test_one_killed_leaves_what_it_stored_to_the_other(
    two: tuple[StoreProcess, StoreProcess], db_path: Path, which: str
) -> None:
    first, second = two
    delete(db_path, which)
    first.end()
    second("append_message", "b", "user", "b1")
    second.end()
    assert texts(db_path) == ["a0", "b0", "b1"]


def test_a_log_that_another_program_began_is_not_overwritten(
    two: tuple[StoreProcess, StoreProcess], db_path: Path
) -> None:
    first, second = two
    delete(db_path, "log and index")
    stranger = apsw.Connection(str(db_path))
    stranger.execute("CREATE TABLE strange (x)")
    for name, process in (("a", first), ("b", second)):
        with pytest.raises(StoreUnavailableError, match="is kept at"):
            process("append_message", name, "user", "refused")
        process("close")
    asides = list(db_path.parent.glob("state.db.before-lost-log-*"))
    assert len(asides) == 2
    assert all(aside.stat().st_mode & 0o077 == 0 for aside in asides)
    for aside in asides:
        assert texts(aside) == ["a0", "b0"]
    assert stranger.execute("SELECT COUNT(*) FROM strange").get == 0
    stranger.close()


def test_an_empty_log_in_its_place_is_noticed(start: Start, db_path: Path) -> None:
    only = start()
    only("create_session", "a", "cli")
    only("append_message", "a", "user", "a0")
    delete(db_path, "log")
    db_path.with_name("state.db-wal").touch()
    only("append_message", "a", "user", "a1")
    only.end()
    assert texts(db_path) == ["a0", "a1"]


def test_no_reader_makes_another_log(db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", "a0")
        delete(db_path, "log")
        db._database._close_readers()
        with pytest.raises(StoreUnavailableError, match="open it anew"):
            db.get_messages("a")
        assert not db_path.with_name("state.db-wal").exists()
    assert texts(db_path) == ["a0"]
