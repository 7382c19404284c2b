"""A connection to PostgreSQL that the functions of this package use as they use SQLite's.

Statements come as they are; only `?` and `?1` become `$1`. Values go over without loss: PostgreSQL
cannot keep a NUL in a text, so NUL, and the character that stands for it, are written as two
characters and read back as the one they were. Whole numbers are 64 bits, truth values are 0 and 1.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import BytesBinaryDumper, StrDumper

from hermes_base.clock import elapsed

from .address import problem_of, shown
from .dialect import Blob, Cursor
from .errors import StoreUnavailableError

STATEMENT_SECONDS = 60
IDLE_IN_TRANSACTION_SECONDS = 10
"""A process that stops in the middle of a write holds others up for so long, and then loses it;
less than a turn's lease."""

ANSWER_SECONDS = STATEMENT_SECONDS + 15
"""A server that says nothing for so long to a statement has not even stopped it: it hangs, and its
connection is given up. A machine that answers for it keeps keep-alives from noticing."""

APPLICATION = "hermes"
"""How the server names our sessions to whoever looks at them."""

_SETTINGS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

ESCAPE = "\ue000"
"""Stands for NUL, with a `0` behind it, and for itself, with a `1`."""


def escape_nul(text: str) -> str:
    """The text as the server keeps it."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")
    return text


def unescape_nul(text: str) -> str:
    """The text that `escape_nul` was given."""
    return _ESCAPED.sub(_unescaped, text) if ESCAPE in text else text


def _decoded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its texts as they were given."""
    for value in row:
        if type(value) is str and ESCAPE in value:
            return tuple(unescape_nul(v) if isinstance(v, str) else v for v in row)
    return row


_ESCAPED = re.compile(f"{ESCAPE}([01])")


def _unescaped(match: re.Match[str]) -> str:
    return "\0" if match[1] == "0" else ESCAPE


class _TruthLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Sums of whole numbers have a type of their own there."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _encoded(values: Sequence[Any]) -> list[Any]:
    """The values of a statement as the server keeps them.

    Here and not in classes of our own for psycopg's dumpers: those that it brings are compiled.
    """
    encoded: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is str:
            if "\0" in value or ESCAPE in value:
                value = escape_nul(value)
        elif kind is float:
            if value != value:  # no number at all, as SQLite has it
                value = None
        elif value is not None and kind is not int:
            value = _encoded_rarity(value)
        encoded.append(value)
    return encoded


def _encoded_rarity(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return escape_nul(str(value))
    if isinstance(value, bytes | bytearray | memoryview) and not isinstance(value, Blob):
        # Hardly a column holds bytes; who brings them hears it as from SQLite.
        raise TypeError(f"Bad binding argument type supplied: {type(value).__name__}")
    return value


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Have values go over as they do with SQLite."""
    adapters = connection.adapters
    adapters.register_dumper(str, StrDumper)
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(Blob, BytesBinaryDumper)
    adapters.register_loader("bool", _TruthLoader)
    adapters.register_loader("numeric", _NumberLoader)


_PARTS = re.compile(r"'[^']*'|\"[^\"]*\"|\?(\d*)|[^'\"?]+|['\"]")


@functools.lru_cache(2048)
def numbered(statement: str) -> bytes:
    """The statement with `$1` for `?` and `?1`; what stands in quotes stays."""
    count = 0
    parts: list[str] = []
    for match in _PARTS.finditer(statement):
        part = match[0]
        if part[0] == "?":
            count += 1
            part = f"${match[1] or count}"
        parts.append(part)
    return "".join(parts).encode()


class PatientConnection(psycopg.Connection[Any]):
    """A connection that does not wait for an answer for ever."""

    answer_seconds: float | None = ANSWER_SECONDS
    """None where a statement may take as long as it likes."""

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for what a step of the protocol comes to; OperationalError if nothing comes."""
        if self.answer_seconds is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._limited(gen, self.answer_seconds), *args, **kwargs)

    def _limited(self, gen: Any, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    deadline = time.monotonic() + seconds
                elif time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError(f"no answer for {seconds:.0f} seconds")
                wanted = gen.send(ready)
        except StopIteration as stop:
            return stop.value


def _read_address(address: str) -> dict[str, Any]:
    """What an address says; what is wrong with it is told without a part of its password."""
    problem = problem_of(address)
    if not problem:
        try:
            return psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            problem = (
                "a part of it cannot be read, or there is no such setting. In a user, password or"
                " setting write @ as %40, : as %3A, / as %2F, % as %25 and a space as %20"
            )
    raise StoreUnavailableError(f"The store's address is not written as it must be: {problem}.")


def connect(address: str, busy_timeout: float) -> PatientConnection:
    """A session of its own on a server, with our settings; psycopg.Error, StoreUnavailableError."""
    server_settings = {
        "lock_timeout": max(1, int(busy_timeout * 1000)),
        "statement_timeout": STATEMENT_SECONDS * 1000,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_SECONDS * 1000,
        # As ours, for the server's side: a machine that vanished holds nothing for long.
        "tcp_keepalives_idle": _SETTINGS["keepalives_idle"],
        "tcp_keepalives_interval": _SETTINGS["keepalives_interval"],
        "tcp_keepalives_count": _SETTINGS["keepalives_count"],
        "tcp_user_timeout": _SETTINGS["tcp_user_timeout"],
    }
    options = " ".join(f"-c {name}={number}" for name, number in server_settings.items())
    given = _read_address(address)
    settings = {**_SETTINGS, **given, "application_name": APPLICATION}
    settings["options"] = f"{options} {given.get('options', '')}".strip()
    try:
        raw = PatientConnection.connect(autocommit=True, **settings)
    except psycopg.ProgrammingError as error:
        raise StoreUnavailableError(
            f"{shown(address)} cannot be connected to: {' '.join(str(error).split())}. Check the"
            " settings in the address."
        ) from error
    if "statement_timeout" in str(given.get("options", "")):
        raw.answer_seconds = None  # somebody else knows better how long it may take
    raw.prepare_threshold = 3
    raw.prepared_max = 400
    adapt(raw)
    return raw


class ServerCursor(psycopg.RawCursor[Any]):
    """The result of a statement, as SQLite's is read: of one that gives no rows, none."""

    def __iter__(self) -> Any:
        return iter(self.fetchall())

    @property
    def _has_rows(self) -> bool:
        """Whether the statement gives rows, if only none; `description` would build them a column
        each, for every statement."""
        result = self.pgresult
        return result is not None and result.status == pq.ExecStatus.TUPLES_OK

    def fetchone(self) -> Any:
        """The next row, or None."""
        row = super().fetchone() if self._has_rows else None
        return row if row is None else _decoded(row)

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return [_decoded(row) for row in super().fetchall()] if self._has_rows else []

    def get_description(self) -> list[tuple[str]]:
        """The names of the columns."""
        result = self.pgresult
        if result is None:
            return []
        return [((result.fname(number) or b"").decode(),) for number in range(result.nfields)]


class ServerConnection:
    """One connection, with PostgreSQL's words for what SQLite says otherwise."""

    is_server = True
    lock_row = " FOR UPDATE"

    def __init__(self, raw: PatientConnection) -> None:
        self.raw = raw
        self._changes = 0
        self._clock: tuple[float, float] | None = None
        self.mark = ""
        """Under which commits of this connection are marked, once it has written."""
        self.commits = 0
        """The number of its last commit, marked in the store with it."""
        self.last_used = elapsed()

    def execute(self, statement: str, values: Any = (), /) -> ServerCursor:
        """Run a statement; its result has come whole."""
        cursor = ServerCursor(self.raw)
        cursor.execute(numbered(statement), _encoded(values))
        self._changes = cursor.rowcount
        return cursor

    returning_id = " RETURNING id"

    def inserted_id(self, cursor: Cursor) -> int | None:
        """The id of the row that was just inserted; None if a trigger or a rule left it out."""
        found = cursor.fetchone()
        return None if found is None else int(found[0])

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run a statement once for each row of values."""
        ServerCursor(self.raw).executemany(numbered(statement), [_encoded(row) for row in rows])

    def run_script(self, script: str) -> tuple[bytes, ...]:
        """Run statements without values in one go; returns the last one's first row, undecoded."""
        return self.run_scripts(script)[-1]

    def run_scripts(self, script: str) -> list[tuple[bytes, ...]]:
        """Run statements without values in one go; returns the first row of each, undecoded.

        Every write needs two of them, so they take the short way, past psycopg's cursors.
        """
        raw = self.raw
        raw.pgconn.send_query(script.encode())
        results = raw.wait(generators.execute(raw.pgconn))
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
        return [
            tuple(result.get_value(0, number) or b"" for number in range(result.nfields))
            if result.ntuples
            else ()
            for result in results
        ]

    def quoted(self, text: str) -> str:
        """A text as a literal, for a script."""
        return pq.Escaping(self.raw.pgconn).escape_literal(escape_nul(text).encode()).decode()

    def changes(self) -> int:
        """How many rows the last statement has inserted, updated or deleted."""
        return max(0, self._changes)

    def set_clock(self, server_time: float) -> None:
        """The server's clock has just been read."""
        self._clock = (server_time, elapsed())

    def forget_clock(self) -> tuple[float, float] | None:
        """A transaction is over: the next one reads the clock anew. Returns what it has read, and
        when by the clock of this process."""
        clock, self._clock = self._clock, None
        return clock

    def now(self) -> float:
        """The server's clock, read once in a transaction and counted on from there."""
        if self._clock is None:
            ((server_time,),) = self.execute(f"SELECT {CLOCK}").fetchall()
            self.set_clock(server_time)
        assert self._clock is not None
        read, at = self._clock
        return read + elapsed() - at

    def damage(self) -> list[str]:
        """Nothing: the server looks after its files itself, with checksums where it was told to."""
        return []

    def index_names(self) -> set[str]:
        """The names of all indexes that are there."""
        return {
            name
            for (name,) in self.execute(
                "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
            )
        }

    def size(self) -> int:
        """Bytes of the tables and their indexes."""
        return self._sum("pg_total_relation_size(c.oid)")

    def unused_size(self) -> int:
        """Bytes of rows that are dead and not yet free for others, as the server counts them."""
        ((unused,),) = self.execute(
            "SELECT COALESCE(SUM(CASE WHEN n_live_tup + n_dead_tup > 0 THEN"
            " pg_relation_size(relid) * n_dead_tup / (n_live_tup + n_dead_tup) END), 0)"
            " FROM pg_stat_user_tables WHERE schemaname = current_schema()"
        ).fetchall()
        return int(unused)

    def _sum(self, what: str) -> int:
        ((total,),) = self.execute(
            f"SELECT COALESCE(SUM({what}), 0) FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"
        ).fetchall()
        return int(total)


CLOCK = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
