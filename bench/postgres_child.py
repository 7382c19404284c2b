"""A process of `bench.postgres`: writes to a server as it is asked, with our store or bare psycopg.

The bare side runs the statements of an append, and no others, on one connection per thread.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from hermes_state import SessionDB
from hermes_state.inbox import INBOX_ID
from hermes_state.outbox import OUTBOX
from hermes_state.tool_runs import Started

from .lines import answer_lines

_COUNT = (
    b"UPDATE sessions SET message_count = message_count + $1, tool_call_count = tool_call_count +"
    b" $2, version = version + 1, last_active = CASE WHEN last_active > $3 THEN last_active ELSE $3"
    b" END WHERE id = $4"
)
_INSERT = (
    b"INSERT INTO messages (session_id, role, content, timestamp) VALUES ($1, $2, $3, $4)"
    b" RETURNING id"
)
TEXT = "It was the best of times, it was the worst of times. " * 5

_numbers = itertools.count()


class Writers:
    """Threads that append, each to a session of its own."""

    def __init__(self) -> None:
        self._db: SessionDB | None = None
        self._address = ""
        self._bare: list[psycopg.Connection[Any]] = []

    def open(self, address: str, home: str) -> dict[str, Any]:
        """Open the store, and remember where it is for the bare side."""
        self._address = address
        self._db = SessionDB(Path(home) / "state.db", server=address)
        return {}

    def append(self, side: str, threads: int, each: int) -> dict[str, Any]:
        """Messages per second of some threads, a commit for each message."""
        assert self._db is not None
        names = [f"w{id(self)}-{next(_numbers)}-{time.time_ns()}" for _ in range(threads)]
        for name in names:
            self._db.create_session(name, "bench")
        if side == "bare":
            while len(self._bare) < threads:
                connection = psycopg.connect(
                    self._address, autocommit=True, cursor_factory=psycopg.RawCursor
                )
                connection.prepare_threshold = 3
                self._bare.append(connection)
            works = [
                self._bare_append(connection, name)
                for connection, name in zip(self._bare, names, strict=False)
            ]
        else:
            works = [self._our_append(name) for name in names]
        return {"rate": threads * each / _seconds_of(works, each)}

    def turns(self, count: int, tools: int) -> dict[str, Any]:
        """Seconds of each of some turns, one after the other: what a chat's turn writes."""
        assert self._db is not None
        db, took = self._db, []
        for _ in range(count):
            name = f"turn-{time.time_ns()}"
            began = time.perf_counter()
            db.accept_message(name, name, "Hello?", source="telegram", session_key=name)
            turn = db.begin_turn(
                name, {"role": "user", "content": "Hello?", INBOX_ID: name}, source="telegram",
                facts={}, leased=True,
            )  # fmt: skip
            version = turn.version
            for number in range(tools):
                call = f"c{number}"
                asked = db.record_step(
                    name, [{"role": "assistant", "content": None, "tool_calls": [_call(call)]}],
                    None, version, lease=turn.lease, starts=[Started(call, "read", "none")],
                )  # fmt: skip
                given = db.record_step(
                    name, [{"role": "tool", "content": TEXT, "tool_call_id": call}],
                    None, asked.version, lease=turn.lease,
                )  # fmt: skip
                version = given.version
            db.record_step(
                name, [{"role": "assistant", "content": TEXT, OUTBOX: _owed(name)}],
                {"input_tokens": 10, "output_tokens": 10, "model": "m"}, version,
                lease=turn.lease, ends=True,
            )  # fmt: skip
            db.begin_delivery(name)
            db.finish_delivery(name, "delivered")
            took.append(time.perf_counter() - began)
        return {"seconds": took}

    def close(self) -> dict[str, Any]:
        """Close what is open."""
        for connection in self._bare:
            connection.close()
        if self._db is not None:
            self._db.close()
        return {}

    def _our_append(self, name: str) -> Callable[[], object]:
        db = self._db
        assert db is not None
        return lambda: db.append_message(name, "user", TEXT)

    def _bare_append(self, connection: psycopg.Connection[Any], name: str) -> Callable[[], object]:
        def append() -> None:
            connection.execute(b"BEGIN")
            now = time.time()
            connection.execute(_COUNT, (1, 0, now, name))
            connection.execute(_INSERT, (name, "user", TEXT, now)).fetchone()
            connection.execute(b"COMMIT")

        return append


def _owed(name: str) -> dict[str, Any]:
    chat = {"session_key": name, "platform": "telegram", "chat_id": "42"}
    return {"id": name, "to": chat}


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}


def _seconds_of(works: list[Callable[[], object]], each: int) -> float:
    """How long it takes to run every work so often, in a thread for each."""
    begin, failed = threading.Barrier(len(works) + 1), []

    def run(work: Callable[[], object]) -> None:
        begin.wait()
        try:
            for _ in range(each):
                work()
        except Exception as error:  # noqa: BLE001 - raised below, where it is asked for
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    begin.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - began


if __name__ == "__main__":
    writers = Writers()
    answer_lines(writers)
