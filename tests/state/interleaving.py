"""Two writes at once, one of them held in the middle of its transaction."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hermes_state import SessionDB
from hermes_state.turns import Lease

from .writers import PATIENCE, await_state

POINTS = ("first change", "commit")
"""Where a write is held: when it has read and decided, and when it has written."""

Work = Callable[[SessionDB], Any]


class Outcome(NamedTuple):
    """What a write returned, or raised."""

    result: Any
    error: Exception | None

    @property
    def is_error(self) -> bool:
        return self.error is not None


class _Pause:
    """Where a write waits until it is let go; once."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.reached, self.go = threading.Event(), threading.Event()

    def before(self, statement: str) -> None:
        if self.reached.is_set():
            return
        is_change = statement.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE")
        if "COMMIT" in statement or (self._point == "first change" and is_change):
            self.reached.set()
            assert self.go.wait(PATIENCE), "nobody let the write go"


class _PausingConnection:
    """A connection, of either database, that waits before a statement."""

    def __init__(self, real: Any, pause: _Pause) -> None:
        self.__dict__.update(_real=real, _pause=pause)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def execute(self, statement: str, *values: Any) -> Any:
        self._pause.before(statement)
        return self._real.execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> Any:
        self._pause.before(statement)
        return self._real.executemany(statement, rows)

    def run_script(self, script: str) -> Any:
        self._pause.before(script)
        return self._real.run_script(script)


class Call:
    """A call in a thread of its own, and what came of it."""

    def __init__(self, db: SessionDB, work: Work) -> None:
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._run, args=(db, work), daemon=True)
        self._thread.start()

    def _run(self, db: SessionDB, work: Work) -> None:
        try:
            self._outcome = Outcome(work(db), None)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self._outcome = Outcome(None, error)

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def outcome(self) -> Outcome:
        self._thread.join(PATIENCE)
        assert self._outcome is not None, "a write hangs"
        return self._outcome


class Held(Call):
    """A write that has got as far as a point, and goes on when it is let go."""

    def __init__(self, db: SessionDB, work: Work, point: str) -> None:
        self._pause = _Pause(point)
        super().__init__(db, work)
        await_state(lambda: self._pause.reached.is_set() or self.is_over())

    def _run(self, db: SessionDB, work: Work) -> None:
        database: Any = db._database
        name = "_run" if db.is_on_server else "_writer"
        real = getattr(database, name)
        if db.is_on_server:
            database._run = lambda connection, *rest: real(
                _PausingConnection(connection, self._pause), *rest
            )
        else:
            database._writer = _PausingConnection(real, self._pause)
        try:
            super()._run(db, work)
        finally:
            setattr(database, name, real)

    def is_held(self) -> bool:
        """Whether it got to the point at all: some have nothing to write."""
        return self._pause.reached.is_set()

    def let_go(self) -> Outcome:
        self._pause.go.set()
        return self.outcome()


class Pair:
    """Two stores on one database, as two processes have them."""

    def __init__(self, one: SessionDB, other: SessionDB) -> None:
        self.one, self.other = one, other
        self._numbers = itertools.count(1)
        self._waits = threading.Event()
        if not one.is_on_server:
            other._database._writer.set_busy_handler(self._busy)  # type: ignore[union-attr]

    def _busy(self, _: int) -> bool:
        self._waits.set()
        time.sleep(0.002)  # SQLite asks again by itself
        return True

    def is_waiting(self) -> bool:
        """Whether somebody waits for a lock that another holds."""
        if not self.one.is_on_server:
            return self._waits.is_set()
        return (
            self.one._database.read(
                lambda conn: conn.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock' LIMIT 1"
                ).fetchone()
            )
            is not None
        )

    def hold(self, work: Work, point: str = "commit") -> Held:
        return Held(self.one, work, point)

    def start(self, work: Work) -> Call:
        """Begin a call in the other store; returns when it is over or waits."""
        self._waits.clear()
        call = Call(self.other, work)
        await_state(lambda: call.is_over() or self.is_waiting())
        return call

    def run(self, held: Work, meanwhile: Work, point: str) -> tuple[Outcome, Outcome]:
        """Hold one, begin the other, let the first one go on."""
        first = self.hold(held, point)
        second = self.start(meanwhile)
        return first.let_go(), second.outcome()

    def fresh(self) -> str:
        return f"s{next(self._numbers)}"

    def every_way(
        self,
        prepare: Callable[[SessionDB, str], Any],
        first: Callable[[SessionDB, str], Any],
        second: Callable[[SessionDB, str], Any],
        check: Callable[[SessionDB, str, Outcome, Outcome], None],
    ) -> None:
        """Each of two held at each point while the other comes, each time with a new session."""
        for point in POINTS:
            for is_swapped in (False, True) if first is not second else (False,):
                name = self.fresh()
                prepare(self.one, name)
                works = (second, first) if is_swapped else (first, second)
                # Named here, since the loop goes on to the next.
                held, meanwhile = (_named(work, name) for work in works)
                outcomes = self.run(held, meanwhile, point)
                check(self.one, name, *(reversed(outcomes) if is_swapped else outcomes))


def _named(work: Callable[[SessionDB, str], Any], name: str) -> Work:
    return lambda db: work(db, name)


def one_of(first: Outcome, second: Outcome) -> Any:
    """The result of the one that did not come away empty-handed or with an error."""
    good = [
        outcome.result for outcome in (first, second) if outcome.result and not outcome.is_error
    ]
    assert len(good) == 1, (first, second)
    return good[0]


# What most of these tests begin with, and look at


def say(*texts: str, role: str = "user") -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for text in texts]


def chat(db: SessionDB, name: str) -> None:
    db.create_session(name, "cli")
    db.append_messages(name, say("one"))
    db.append_messages(name, say("two", role="assistant"))


def begin(db: SessionDB, name: str, text: str = "question", **more: Any) -> Lease:
    message = say(text)[0]
    recorded = db.begin_turn(name, message, source="cli", facts={}, leased=True, **more)
    assert recorded.lease is not None
    return recorded.lease


def nothing(db: SessionDB, name: str) -> None:
    pass


def live(db: SessionDB, name: str) -> list[str]:
    view = db.load_live(name)
    assert view is not None
    return [str(message["content"]) for message in view.messages]


def newest(db: SessionDB, name: str) -> int:
    return int(db.get_messages(name)[-1]["id"])


def append(db: SessionDB, name: str) -> int:
    return db.append_message(name, "user", "late")
