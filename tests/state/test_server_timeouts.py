"""What takes too long on a server: each limit is set, and what happens at it is told in a sentence.

Nothing is half there afterwards, and the store goes on. (Waiting for a lock and for a statement is
in `test_server_refusals`, a process that is stopped in the middle of a write in
`test_server_faults`.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import (
    SessionDB,
    StoreBusyError,
    StoreError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from hermes_state.server_connection import connect

from .. import postgres
from .interleaving import append, chat, live
from .raw import address, check_sound
from .test_server_refusals import is_sentence

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)


def with_options(url: str, **settings: int) -> str:
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    return f"{url}&options={options}"


@pytest.fixture(scope="module")
def own() -> Iterator[postgres.Server]:
    """A server for the tests that stop it."""
    with postgres.own_server() as server:
        yield server


@pytest.fixture
def stopping(own: postgres.Server, tmp_path: Path) -> Iterator[SessionDB]:
    """A store on a server that is stopped; it waits neither for answers nor connections."""
    name = f"x{len(tmp_path.name)}_{abs(hash(tmp_path.name))}"
    own.create(name)
    url = f"{own.url(name)}&connect_timeout=2"
    with SessionDB(tmp_path / "state.db", server=url, busy_timeout=0.2) as db:
        chat(db, "s")
        yield db


@contextlib.contextmanager
def stopped(server: postgres.Server) -> Iterator[None]:
    server.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal_all(signal.SIGCONT)


def hurry(db: SessionDB) -> None:
    """Let the connections of a store wait for half a second only."""
    database: Any = db._database
    for connection in database._idle:
        connection.raw.answer_seconds = 0.5


# What is set


def test_every_limit_is_set_at_both_ends(database: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    class WithPort(postgres.Server):
        def url(self, database: str) -> str:
            return f"postgresql://hermes@127.0.0.1:{port}/{database}"

    server = WithPort(listen_addresses="127.0.0.1", port=str(port))
    try:
        server.start()
        url = server.url("postgres")
        with contextlib.closing(connect(url, 30.0)) as raw:
            shown = {
                name: raw.execute(f"SHOW {name}").fetchone()[0]  # type: ignore[index]
                for name in (
                    "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout",
                    "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count",
                    "tcp_user_timeout",
                )
            }  # fmt: skip
            with socket.socket(fileno=os.dup(raw.fileno())) as ours:
                kept = [
                    ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                    ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                    ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                    ours.getsockopt(socket.IPPROTO_TCP, 18),  # TCP_USER_TIMEOUT
                ]
    finally:
        server.stop()
    assert shown == {
        "lock_timeout": "30s",
        "statement_timeout": "1min",
        "idle_in_transaction_session_timeout": "10s",
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "10000",
    }
    assert kept == [1, 5, 2, 3, 10_000]


# What happens at each


def test_connecting_takes_too_long(own: postgres.Server, tmp_path: Path) -> None:
    with stopped(own):
        url = f"{own.url('postgres')}&connect_timeout=2"
        with pytest.raises(StoreUnavailableError, match="cannot be reached") as error:
            SessionDB(tmp_path / "state.db", server=url)
    assert is_sentence(error) and "timeout" in str(error.value)


def test_a_server_that_says_nothing_is_given_up(own: postgres.Server, stopping: SessionDB) -> None:
    hurry(stopping)
    with stopped(own):
        with pytest.raises(StoreUnavailableError, match="cannot be reached") as error:
            append(stopping, "s")
        assert is_sentence(error)
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            stopping.get_messages("s")
    assert append(stopping, "s")
    assert live(stopping, "s") == ["one", "two", "late"]
    check_sound(stopping)


def test_a_server_that_says_nothing_to_a_commit(own: postgres.Server, stopping: SessionDB) -> None:
    """Nobody knows whether it counts: that is said, and it is there once or not at all."""
    hurry(stopping)

    def work(conn: Any) -> None:
        conn.execute("INSERT INTO state_meta (key, value) VALUES ('half', 'x')")
        own.signal_all(signal.SIGSTOP)

    try:
        with pytest.raises(StoreOutcomeUnknownError, match="Look before doing it again") as error:
            stopping._execute_write(work, "s")
        assert is_sentence(error)
    finally:
        own.signal_all(signal.SIGCONT)
    assert append(stopping, "s")
    check_sound(stopping)


def test_an_answer_that_comes_slowly_is_waited_for(db: SessionDB) -> None:
    """What counts is how long nothing comes, not how long it takes."""
    database: Any = db._database
    with database._connection() as connection:
        connection.raw.answer_seconds = 1.0
        ((count,),) = connection.execute("SELECT count(*) FROM (SELECT pg_sleep(0.4)) a").fetchall()
        assert count == 1
        script = "; ".join(["SELECT repeat('x', 100000), pg_sleep(0.4)"] * 4)
        connection.run_script(script)


def test_a_vacuum_may_take_as_long_as_it_likes(db: SessionDB) -> None:
    database: Any = db._database
    with database._connection() as connection:
        connection.raw.answer_seconds = 0.2
    assert database.outside_transaction(
        lambda conn: conn.execute("SELECT 1 FROM pg_sleep(0.6)").fetchall()
    ) == [(1,)]
    with database._connection() as connection:
        assert connection.raw.answer_seconds == 0.2


def test_a_statement_time_out_of_somebody_elses_choice_holds(db: SessionDB) -> None:
    url = with_options(address(db), statement_timeout=600_000)
    with contextlib.closing(connect(url, 1.0)) as raw:
        assert raw.answer_seconds is None
        assert raw.execute("SHOW statement_timeout").fetchone() == ("10min",)


def test_a_process_that_is_silent_in_every_write(db: SessionDB) -> None:
    chat(db, "s")
    url = with_options(address(db), idle_in_transaction_session_timeout=50)
    times = []

    def dawdle(conn: Any) -> None:
        times.append(1)
        conn.execute("UPDATE sessions SET title = 'half' WHERE id = 's'")
        threading.Event().wait(0.3)  # so long that the server ends it
        conn.execute("UPDATE sessions SET title = 'whole' WHERE id = 's'")

    with SessionDB(db.db_path, server=url) as store:
        with pytest.raises(StoreBusyError, match="silent in the middle of a write") as error:
            store._execute_write(dawdle, "s")
        assert is_sentence(error) and len(times) > 1
        assert append(store, "s")
    assert db.get_session_title("s") is None


def test_a_machine_that_goes_on_waiting_tells_what_it_waited_for(
    own: postgres.Server, stopping: SessionDB
) -> None:
    """Every thread that needs the server is told, not only the first."""
    hurry(stopping)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            stopping.get_messages("s")
        except StoreError as error:
            errors.append(error)

    with stopped(own):
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(errors) == 4 and all("cannot be reached" in str(error) for error in errors)
    assert live(stopping, "s") == ["one", "two"]
