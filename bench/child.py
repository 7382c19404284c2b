"""A process of its own with one store open, driven by JSON lines: `python -m bench.child`.

It imports whatever `hermes_state` its interpreter has, so the same loop measures our store and any
other with the same methods; `kind: "bare"` measures SQLite without a store. What is timed is the
loop alone: messages are made before, results are sent after.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bench.corpus import Corpus, Message
from bench.lines import answer_lines


class Target(Protocol):
    """What is measured."""

    def create(self, session_id: str) -> None:
        """Make a session."""

    def appender(self, session_id: str) -> Callable[[Message], int]:
        """A function that appends one message, durably, and returns its id."""

    def prepared(self, message: Message) -> Message | tuple[Any, ...]:
        """The message in the form the appender takes."""

    def load(self, session_id: str) -> int:
        """Load a whole session; returns how many messages it has."""

    def fill(self, session_id: str, messages: list[Message]) -> None:
        """Put a new session with these messages there, in the quickest way there is."""

    def search(self, text: str, limit: int) -> int:
        """Search, reading what is shown of a hit; returns how many hits there are."""

    def durability(self) -> tuple[str, int]:
        """The journal mode and the value of PRAGMA synchronous that writes run under."""

    def close(self) -> None:
        """Close the file."""


class StoreTarget:
    """A SessionDB, ours or another."""

    def __init__(self, path: Path) -> None:
        from hermes_state import SessionDB

        self._db: Any = SessionDB(db_path=path)

    def create(self, session_id: str) -> None:
        self._db.create_session(session_id, "bench")

    def prepared(self, message: Message) -> Message:
        return message

    def appender(self, session_id: str) -> Callable[[Message], int]:
        append = self._db.append_message
        return lambda message: append(session_id, **message)

    def load(self, session_id: str) -> int:
        return len(self._db.get_messages_as_conversation(session_id))

    def fill(self, session_id: str, messages: list[Message]) -> None:
        self.create(session_id)
        self._db.replace_messages(session_id, messages)

    def search(self, text: str, limit: int) -> int:
        return len(self._db.search_messages(text, limit=limit))

    def durability(self) -> tuple[str, int]:
        def settings(conn: Any) -> tuple[str, int]:
            mode = conn.execute("PRAGMA journal_mode").fetchone()[0]
            return mode, conn.execute("PRAGMA synchronous").fetchone()[0]

        return self._db._execute_write(settings)

    def close(self) -> None:
        self._db.close()


class BareTarget:
    """The table of our store and its indexes, and nothing above them.

    The connection has the store's own settings, so that what differs is the store's work.
    """

    def __init__(self, path: Path) -> None:
        from hermes_state import SessionDB, connection, messages, schema

        SessionDB(db_path=path).close()
        self._conn = connection.open_connection(path, readonly=False, busy_timeout=30.0)
        # SQLite's own way of waiting for other processes.
        self._conn.set_busy_timeout(30_000)
        self._select = messages.CONVERSATION_SQL
        self._index = ""
        # What the database itself fills in is left to it, as the store does.
        left_out = ("id", "active", "compacted")
        self._columns = [name for name in schema.MESSAGE_COLUMNS if name not in left_out]
        self._insert = (
            f"INSERT INTO messages ({', '.join(self._columns)})"
            f" VALUES ({', '.join('?' * len(self._columns))})"
        )

    def fill(self, session_id: str, messages: list[Message]) -> None:
        raise NotImplementedError("A bare store is filled by the store itself.")

    def search(self, text: str, limit: int) -> int:
        if not self._index:
            self._index = str(Path(self._conn.filename).parent / "bare-index.db")
            self._conn.execute("ATTACH ? AS bare", (self._index,))
            self._conn.execute("CREATE VIRTUAL TABLE bare.words USING fts5(content, content='')")
            self._conn.execute(
                "INSERT INTO bare.words (rowid, content) SELECT id, content FROM messages"
            )
        found = self._conn.execute(
            "SELECT rowid FROM bare.words WHERE words MATCH ? ORDER BY rank LIMIT ?", (text, limit)
        ).fetchall()
        read = "SELECT session_id, role, content, timestamp FROM messages WHERE id = ?"
        return sum(len(self._conn.execute(read, hit).fetchall()) for hit in found)

    def create(self, session_id: str) -> None:
        self._conn.execute(
            "INSERT INTO sessions (id, source, started_at, conversation_id) VALUES (?, ?, ?, ?)",
            (session_id, "bench", time.time(), session_id),
        )

    def prepared(self, message: Message) -> tuple[Any, ...]:
        filled: Message = {**message, "timestamp": time.time(), "observed": 0}
        if "tool_calls" in message:
            filled["tool_calls"] = json.dumps(message["tool_calls"], separators=(",", ":"))
        return tuple(filled.get(name) for name in self._columns)

    def appender(self, session_id: str) -> Callable[[Any], int]:
        execute, last_id, insert = self._conn.execute, self._conn.last_insert_rowid, self._insert

        def append(row: tuple[Any, ...]) -> int:
            execute(insert, (session_id, *row[1:]))
            return last_id()

        return append

    def load(self, session_id: str) -> int:
        return len(self._conn.execute(self._select, (session_id, 1)).fetchall())

    def durability(self) -> tuple[str, int]:
        mode = self._conn.execute("PRAGMA journal_mode").fetchone()
        synchronous = self._conn.execute("PRAGMA synchronous").fetchone()
        assert mode is not None and synchronous is not None
        return str(mode[0]), int(str(synchronous[0]))

    def close(self) -> None:
        self._conn.wal_checkpoint(mode=3)  # TRUNCATE, as the store does when it is closed
        self._conn.close()


KINDS: dict[str, Callable[[Path], Target]] = {"store": StoreTarget, "bare": BareTarget}


class Worker:
    """The commands; each takes and returns what JSON can hold."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._target: Target | None = None
        self._waiting: list[Any] = []
        self._filling: Corpus | None = None

    @functools.cached_property
    def _corpus(self) -> Corpus:
        return Corpus(self._seed, stream=100_000)

    @property
    def target(self) -> Target:
        """The open store."""
        if self._target is None:
            raise RuntimeError("No store is open; send the command 'open' first")
        return self._target

    def open(self, kind: str, path: str) -> dict[str, Any]:
        """Open a store and say how durable its writes are."""
        self._target = KINDS[kind](Path(path))
        mode, synchronous = self._target.durability()
        return {"journal_mode": mode, "synchronous": synchronous}

    def close(self) -> dict[str, Any]:
        """Close it again."""
        self.target.close()
        self._target = None
        return {}

    def create(self, session: str) -> dict[str, Any]:
        """Make a session."""
        self.target.create(session)
        return {}

    def prepare(self, count: int) -> dict[str, Any]:
        """Make the messages that the next `append` will write."""
        self._waiting = [self.target.prepared(m) for m in self._corpus.messages(count)]
        return {}

    def append(self, session: str) -> dict[str, Any]:
        """Append the prepared messages one by one; says how long that and each one took."""
        append = self.target.appender(session)
        clock = time.monotonic  # one clock for all processes
        ids: list[int] = []
        errors: list[str] = []
        waits: list[float] = []
        started = before = clock()
        for message in self._waiting:
            try:
                ids.append(append(message))
            except Exception as error:  # noqa: BLE001 - whatever a store raises is to be counted
                errors.append(repr(error))
            after = clock()
            waits.append(after - before)
            before = after
        self._waiting = []
        return {
            "started": started,
            "ended": before,
            "ids": ids,
            "errors": errors,
            "waits": sorted(waits),
        }

    def load(self, session: str) -> dict[str, Any]:
        """Load a session once; says how long it took, and how long this process ran for it."""
        started, cpu_started = time.perf_counter(), time.process_time()
        count = self.target.load(session)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
        return {"seconds": seconds, "cpu": cpu, "count": count}

    def fill(self, stored: int, length: int, stream: int, first: int = 0) -> dict[str, Any]:
        """Fill a store with the conversations of `store_lab.Lab.big`, from `first` to `stored`."""
        self._filling = self._filling or Corpus(seed=3, stream=stream)
        for start in range(first, stored, length):
            messages = self._filling.messages(min(length, stored - start))
            self.target.fill(f"20260101_{start // length:06d}_a0b1c2", messages)
        return {}

    def search(self, text: str, limit: int) -> dict[str, Any]:
        """Search once; says how long it took and how many hits there were."""
        started = time.perf_counter()
        hits = self.target.search(text, limit)
        return {"seconds": time.perf_counter() - started, "hits": hits}

    def peak(self) -> dict[str, Any]:
        """The most memory this process has had so far."""
        # Not of getrusage, which begins with what the process that started this one had.
        status = Path("/proc/self/status").read_text()
        return {"bytes": int(status.partition("VmHWM:")[2].split()[0]) * 1024}


if __name__ == "__main__":
    answer_lines(Worker(seed=int(sys.argv[1])))
