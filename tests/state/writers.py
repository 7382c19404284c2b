"""Helpers for tests of writers that share a transaction: what is executed, and who waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import apsw

from hermes_state import SessionDB
from hermes_state.dialect import Connection

PATIENCE = 30.0
"""How long to wait for a state that must come; only a hanging test ever waits that long."""

Work = Callable[[Connection], Any]


class Recorder:
    """A store's writing connection that keeps what is executed, and may fail to commit."""

    def __init__(self, db: SessionDB) -> None:
        self._real = db._database._writer
        self.executed: list[str] = []
        self.commit_error: Exception | None = None
        db._database._writer = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        self.executed.append(sql)
        if self.commit_error is not None and sql == "COMMIT":
            raise self.commit_error
        return self._real.execute(sql, *values)

    def count(self, sql: str) -> int:
        return self.executed.count(sql)


def note(text: str) -> Work:
    """A work that writes one row and returns the text."""

    def work(conn: Connection) -> str:
        conn.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (f"note:{text}", text))
        return text

    return work


def notes(db: SessionDB) -> list[str]:
    """What the works of `note` have written, in order."""
    sql = "SELECT value FROM state_meta WHERE key LIKE 'note:%' ORDER BY rowid"
    return [str(text) for (text,) in db._database.read(lambda conn: conn.execute(sql).fetchall())]


def failing(text: str, error: BaseException) -> Work:
    """A work that writes one row and then raises."""

    def work(conn: Connection) -> None:
        note(text)(conn)
        raise error

    return work


def await_state(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, "the awaited state never came"
        time.sleep(0.001)


class Call:
    """A write in a thread of its own, and what came of it."""

    def __init__(self, db: SessionDB, work: Work) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(db, work), daemon=True)
        self._thread.start()

    def _run(self, db: SessionDB, work: Work) -> None:
        try:
            self.result = db._execute_write(work)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def over(self) -> Call:
        self._thread.join(PATIENCE)
        assert self.is_over(), "a writer hangs"
        return self


class Gate:
    """A work that holds the store until it is let go, so that others queue up behind it."""

    def __init__(self, db: SessionDB, text: str = "gate") -> None:
        self._db = db
        self._inside, self._leave = threading.Event(), threading.Event()
        self._text = text
        self.call = Call(db, self._work)
        assert self._inside.wait(PATIENCE)

    def _work(self, conn: Connection) -> str:
        self._inside.set()
        assert self._leave.wait(PATIENCE)
        return str(note(self._text)(conn))

    def queue(self, *works: Work) -> list[Call]:
        """Start a writer for each, in this order, all waiting behind the gate."""
        calls = []
        waiting = self._db._database._write_lock._waiting
        for work in works:
            before = len(waiting)
            calls.append(Call(self._db, work))
            await_state(lambda before=before: len(waiting) > before)
        return calls

    def open(self) -> None:
        self._leave.set()
        self.call.over()


def locked_elsewhere(db: SessionDB) -> Connection:
    """A connection that holds the write lock until it is closed."""
    other = apsw.Connection(str(db.db_path))
    other.execute("BEGIN IMMEDIATE")
    return other
