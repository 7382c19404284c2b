"""Sessions, servers and connections that end in the middle of a write: nothing lost or done twice.

A commit whose answer was lost is usually there; each write marks its commit, so that whoever lost
the connection can ask (`hermes_state.server`).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_state import SessionDB, StoreClosedError, StoreError, StoreOutcomeUnknownError
from hermes_state.server import _next_mark

from .. import postgres, seeds
from .children import Child
from .cut_proxy import CutProxy
from .interleaving import Call, Pair, begin, chat, live, say
from .raw import address, check_sound, query
from .test_promises import FailingOnServer
from .writers import PATIENCE, await_state

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)


@pytest.fixture
def elsewhere(db: SessionDB) -> Iterator[Any]:
    """A connection of another program to the store's database."""
    with psycopg.connect(address(db), autocommit=True) as connection:
        yield connection


def end_backend(connection: Any, pid: int) -> None:
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


class Ended(FailingOnServer):
    """A connection whose server process is ended before its n-th statement."""

    def __init__(self, real: Any, statements: list[int], end: Callable[[int], None]) -> None:
        self.__dict__.update(real=real, statements=statements, end=end)

    def _count(self, sql: str) -> None:
        self.statements[0] -= 1
        if self.statements[0] == 0:  # once, whatever comes after
            self.end(self.real.raw.info.backend_pid)


def end_at(
    db: SessionDB, work: Callable[[], Any], statement: int, end: Callable[[int], None]
) -> tuple[Any, bool]:
    """Do some work whose session is ended before a statement; whether it came to that one."""
    left = [statement]
    with pytest.MonkeyPatch.context() as patch:
        run = db._database._run  # type: ignore[union-attr]
        patch.setattr(db._database, "_run", lambda conn, *args: run(Ended(conn, left, end), *args))
        return work(), left[0] <= 0


def test_a_session_that_is_ended_before_any_statement_of_a_write(
    db: SessionDB, elsewhere: Any
) -> None:
    statement = 0
    reached = True
    while reached:
        statement += 1
        name = f"s{statement}"
        lease, reached = end_at(
            db,
            lambda name=name: begin(db, name),
            statement,
            lambda pid: end_backend(elsewhere, pid),
        )
        assert (lease.conversation_id, lease.fence) == (name, 1)
        assert live(db, name) == ["question"]
        assert db.beat_turns([lease]) == []
    assert statement > 8
    assert db.session_count() == statement
    check_sound(db)


def test_a_session_that_is_ended_while_it_commits(db: SessionDB, elsewhere: Any) -> None:
    """Held within the statement that marks and commits, before it counts."""
    chat(db, "s")
    ((mark,),) = query(db, "SELECT id FROM commit_marks")
    with psycopg.connect(address(db)) as holder:
        holder.execute("SELECT 1 FROM commit_marks WHERE id = %s FOR UPDATE", (mark,))
        call = Call(db, lambda store: store.append_message("s", "user", "x"))
        waiting = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%COMMIT'"
        )
        await_state(lambda: bool(elsewhere.execute(waiting).fetchall()))
        end_backend(elsewhere, elsewhere.execute(waiting).fetchall()[0][0])
    assert call.outcome().result == db.get_messages("s")[-1]["id"]
    assert live(db, "s") == ["one", "two", "x"]


# Connections that are cut


@pytest.fixture
def proxy(db: SessionDB) -> Iterator[CutProxy]:
    host = psycopg.conninfo.conninfo_to_dict(address(db))["host"]
    cutting = CutProxy(Path(str(host)))
    yield cutting
    cutting.close()


def through(db: SessionDB, proxy: CutProxy, **more: Any) -> SessionDB:
    """The same store, reached through the proxy."""
    name = psycopg.conninfo.conninfo_to_dict(address(db))["dbname"]
    return SessionDB(db.db_path, server=proxy.url(str(name)), **more)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_cut_with_the_commit(
    db: SessionDB, proxy: CutProxy, cut: str, is_first: bool
) -> None:
    chat(db, "s")
    with through(db, proxy) as store:
        if not is_first:
            store.append_message("s", "user", "before")
        proxy.cut = cut
        message_id = store.append_message("s", "user", "x")
        assert proxy.cuts == 1
        assert db.get_messages("s")[-1]["id"] == message_id
        assert live(db, "s").count("x") == 1
        store.append_message("s", "user", "goes on")
        assert live(db, "s")[-2:] == ["x", "goes on"]
        assert (db.get_session("s") or {})["message_count"] == len(live(db, "s"))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_commit_that_comes_after_it_was_given_up(
    db: SessionDB, proxy: CutProxy, is_first: bool
) -> None:
    chat(db, "s")
    with through(db, proxy) as store:
        if not is_first:
            store.append_message("s", "user", "before")
        proxy.cut = "late"
        call = Call(store, lambda store: store.append_message("s", "user", "x"))
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
        await_state(lambda: bool(query(db, waiting)))  # the next try waits for the first
        proxy.deliver()
        assert call.outcome().result == db.get_messages("s")[-1]["id"]
        assert live(db, "s").count("x") == 1


def test_a_write_counts_once_although_its_notification_is_refused(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    def insert(conn: Any) -> None:
        conn.execute("INSERT INTO state_meta (key, value) VALUES ('told', '1')")

    db._database.write(insert, tell="x" * 9_000)  # longer than a notification can be
    assert query(db, "SELECT value FROM state_meta WHERE key = 'told'") == [("1",)]
    assert "not notified" in caplog.text
    db.set_meta("next", "2")
    assert db.get_meta("next") == "2"


def test_asking_twice_does_not_let_an_old_commit_through(db: SessionDB) -> None:
    database: Any = db._database
    chat(db, "s")
    with database._connection() as connection:
        connection.run_script("BEGIN")
        connection.execute("INSERT INTO state_meta (key, value) VALUES ('late', 'x')")
        mark = _next_mark(connection)
        assert database._was_committed(*mark) is False
        assert database._was_committed(*mark) is False
        with pytest.raises(psycopg.errors.SerializationFailure):
            database._commit(connection, mark, [False])
    assert db.get_meta("late") is None


def test_a_lost_commit_of_which_nobody_can_be_asked(db: SessionDB, proxy: CutProxy) -> None:
    chat(db, "s")
    with through(db, proxy, busy_timeout=0.3) as store:
        store.append_message("s", "user", "before")
        proxy.cut, proxy.stay_away = "after", True
        with pytest.raises(StoreOutcomeUnknownError, match="Look before doing it again"):
            store.append_message("s", "user", "x")
        proxy.stay_away = False
        assert store.append_message("s", "user", "goes on")
        assert [m["content"] for m in store.get_messages("s")][-2:] == ["x", "goes on"]


# Many writers, and a server that suffers


class Writers:
    """Threads that append one message after the other, and keep what they were told.

    They are more than lead transactions in each of two stores: some are taken along.
    """

    def __init__(self, address: str, path: Path, count: int = 12) -> None:
        self.stores = [SessionDB(path, server=address) for _ in range(2)]
        self.acknowledged: list[tuple[int, str, int]] = []
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        for number, thread in enumerate(self._threads):
            self.stores[0].create_session(f"w{number}", "cli")
            thread.start()

    def _work(self, number: int) -> None:
        store, done = self.stores[number % 2], 0
        while not self._stop.is_set():
            text = f"{number}.{done}"
            done += 1
            try:
                message_id = store.append_message(f"w{number}", "user", text)
            except StoreError as error:
                self.errors.append(error)
                return
            self.acknowledged.append((number, text, message_id))

    def await_each(self, count: int = 1) -> None:
        """Wait until each has written so many more."""
        before = Counter(number for number, _, _ in self.acknowledged)

        def is_further() -> bool:
            now = Counter(number for number, _, _ in self.acknowledged)
            return all(now[one] >= before[one] + count for one in range(len(self._threads)))

        await_state(lambda: is_further() or bool(self.errors))

    def check(self) -> None:
        """Each was told that it is there, and is there once."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert self.errors == []
        db = self.stores[0]
        for number in range(len(self._threads)):
            told = [(text, at) for one, text, at in self.acknowledged if one == number]
            stored = [(m["content"], m["id"]) for m in db.get_messages(f"w{number}")]
            assert stored == told
        check_sound(db)
        for store in self.stores:
            store.close()


def backends(connection: Any) -> list[int]:
    found = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'hermes%'"
        " AND datname = current_database()"
    ).fetchall()
    return [pid for (pid,) in found]


def test_sessions_that_are_ended_at_any_moment(db: SessionDB, elsewhere: Any) -> None:
    writers = Writers(address(db), db.db_path)
    chance = random.Random(seeds.seed())
    for _ in range(seeds.times(40, 400)):
        found = backends(elsewhere)
        if found:
            elsewhere.execute("SELECT pg_terminate_backend(%s)", (chance.choice(found),))
        writers.await_each()
        time.sleep(chance.uniform(0, 0.01))  # the moment of the end, not a wait for something
    writers.check()


@pytest.fixture(scope="module")
def own() -> Iterator[postgres.Server]:
    """A server for the tests that kill it."""
    with postgres.own_server() as server:
        yield server


@contextlib.contextmanager
def connected(server: postgres.Server, database: str = "postgres") -> Iterator[Any]:
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("what", ["a backend", "the server"])
def test_a_server_that_is_killed(own: postgres.Server, tmp_path: Path, what: str) -> None:
    name = f"killed_{what.split()[1]}"
    with connected(own) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    writers = Writers(own.url(name), tmp_path / "state.db")
    for _ in range(seeds.times(2, 20)):
        writers.await_each(3)
        if what == "a backend":  # all others are ended by the server, which recovers
            with contextlib.suppress(psycopg.OperationalError), connected(own, name) as connection:
                os.kill(backends(connection)[0], signal.SIGKILL)
        else:
            own.kill()
            own.start()
        own.wait_until_ready()
        writers.await_each(3)
    writers.check()


def test_a_server_that_is_away_is_waited_for(own: postgres.Server, tmp_path: Path) -> None:
    with connected(own) as connection:
        connection.execute("CREATE DATABASE away TEMPLATE template0")
    with SessionDB(tmp_path / "state.db", server=own.url("away")) as db:
        chat(db, "s")
        own.kill()
        call = Call(db, lambda store: store.append_message("s", "user", "x"))
        own.start()
        assert call.outcome().result
        assert live(db, "s") == ["one", "two", "x"]


# Processes


def test_a_process_that_is_stopped_in_the_middle_of_a_write(db: SessionDB) -> None:
    """Others go on when its time is over; what it had begun is done anew when it wakes up."""
    chat(db, "s")
    impatient = f"{address(db)}&options=-c%20idle_in_transaction_session_timeout%3D500"

    def write() -> int:
        times = []

        def work(conn: Any) -> int:
            times.append(1)
            conn.execute("UPDATE sessions SET version = version + 1 WHERE id = 's'")
            if len(times) == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            conn.execute("INSERT INTO state_meta (key, value) VALUES ('by', 'the stopped')")
            return len(times)

        with SessionDB(db.db_path, server=impatient) as store:
            return int(store._execute_write(work, "s"))

    child = Child(write)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    db.append_messages("s", say("meanwhile"))
    assert live(db, "s") == ["one", "two", "meanwhile"]
    assert db.get_meta("by") is None
    os.kill(child.pid, signal.SIGCONT)
    assert child.result() == 2
    assert db.get_meta("by") == "the stopped"


def test_a_store_that_was_opened_before_a_fork(db: SessionDB) -> None:
    chat(db, "s")

    def use() -> str:
        with pytest.raises(StoreClosedError, match="before a fork"):
            db.append_message("s", "user", "x")
        with pytest.raises(StoreClosedError, match="before a fork"):
            db.get_messages("s")
        db.close()
        with SessionDB(db.db_path) as own:
            own.append_message("s", "user", "from the child")
        return "done"

    assert Child(use).result() == "done"
    db.append_message("s", "user", "from the parent")
    assert live(db, "s")[2:] == ["from the child", "from the parent"]


def test_ctrl_c_while_a_write_waits(db: SessionDB, db_path: Path) -> None:
    """It is given up as a whole, and its connection is good for the next."""
    chat(db, "s")

    def interrupted(conn: Any) -> None:
        conn.execute("UPDATE sessions SET title = 'half' WHERE id = 's'")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db._execute_write(interrupted, "s")
    with SessionDB(db_path) as other:
        pair = Pair(other, db)
        held = pair.hold(lambda store: store.append_message("s", "user", "held"))
        call = pair.start(lambda store: store.append_message("s", "user", "x"))
        assert held.let_go().result < call.outcome().result
    assert db.get_session_title("s") is None
