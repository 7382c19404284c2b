"""A damaged file: moved aside, and everything SQLite can still read brought into a new one.

Nothing of the damaged file is deleted. Tables are read in the order of their row ids; where a page
cannot be read, reading goes on behind it. Messages whose session row is lost get a new one, so that
they can be found.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from . import schema
from .connection import BUSY_TIMEOUT, Connection, Database, open_connection, tuples
from .messages import recount
from .migrations import prepare

log = logging.getLogger(__name__)

_BATCH = 500


@dataclass(slots=True)
class SalvageReport:
    """What became of a damaged database."""

    moved_to: Path
    """Where the damaged file is now, untouched."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows of each table were brought over."""
    damaged_tables: list[str] = field(default_factory=list)
    """Tables in which something could not be read."""

    def __str__(self) -> str:
        kept = ", ".join(f"{count} {table}" for table, count in self.rows.items() if count)
        lost = ", ".join(self.damaged_tables) or "none"
        return (
            f"The database was damaged. It was moved to {self.moved_to}; brought over: "
            f"{kept or 'nothing'}; tables with unreadable parts: {lost}."
        )


def is_damaged(path: Path) -> bool:
    """Whether SQLite finds anything wrong with the file; reads all of it."""
    try:
        connection = open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)
        try:
            return connection.pragma("quick_check(1)") != "ok"
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError):
        return True


def salvage(path: Path) -> SalvageReport:
    """Move the database at `path` aside and fill a new one with what can be read of it."""
    moved = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns()}")
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(moved.with_name(moved.name + suffix))
    report = SalvageReport(moved)
    database = Database(path)
    try:
        prepare(database)
        database.alone(lambda conn: conn.execute("PRAGMA foreign_keys = 0"))
        database.write(lambda conn: _bring_over(moved, conn, report))
    finally:
        database.close()
    log.error("%s", report)
    return report


def _bring_over(moved: Path, target: Connection, report: SalvageReport) -> None:
    try:
        source = open_connection(moved, readonly=True, busy_timeout=1.0)
        tables = {name for (name,) in source.execute("SELECT name FROM sqlite_schema")}
    except apsw.Error as error:
        log.error("Nothing in %s can be read: %s", moved, error)
        report.damaged_tables = list(schema.TABLES)
        return
    try:
        for table, (columns, _) in schema.TABLES.items():
            if table in tables and table != "schema_version":
                _copy_table(source, target, table, list(columns), report)
    finally:
        source.close()
    _adopt_homeless_messages(target)


def _copy_table(
    source: Connection, target: Connection, table: str, columns: list[str], report: SalvageReport
) -> None:
    present = {
        name for (name,) in source.execute("SELECT name FROM pragma_table_info(?)", (table,))
    }
    shared = [name for name in columns if name in present]
    names = ", ".join(shared)
    insert = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({', '.join('?' * len(shared))})"
    count = 0
    for found in _readable_rows(source, table, names, report):
        try:
            target.execute(insert, found)
            count += 1
        except apsw.ConstraintError:
            report.damaged_tables.append(table)  # e.g. a NULL where there cannot be one
    report.rows[table] = count
    report.damaged_tables = sorted(set(report.damaged_tables))


def _readable_rows(
    source: Connection, table: str, names: str, report: SalvageReport
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table in the order of their row ids, going round what cannot be read."""
    select = f"SELECT rowid, {names} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_BATCH}"
    position, step = -1, 1
    while True:
        read = 0
        try:
            for found in source.execute(select, (position,)):
                position, read, step = found[0], read + 1, 1
                yield found[1:]
            if read == 0:
                return
        except apsw.Error:
            report.damaged_tables.append(table)
            position += step
            step *= 2
            if position > 2**62:
                return


def _adopt_homeless_messages(conn: Connection) -> None:
    homeless = tuples(
        conn,
        "SELECT session_id, MIN(timestamp) FROM messages"
        " WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id",
    )
    for session_id, started in homeless:
        conn.execute(
            "INSERT INTO sessions (id, source, started_at, conversation_id, version)"
            " VALUES (?, 'salvaged', ?, ?, 1)",
            (session_id, started, session_id),
        )
    conn.execute(
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id IS NOT NULL"
        " AND parent_session_id NOT IN (SELECT id FROM sessions)"
    )
    conn.execute(
        "UPDATE sessions SET continuation_of = NULL WHERE continuation_of IS NOT NULL"
        " AND continuation_of NOT IN (SELECT id FROM sessions)"
    )
    conn.execute("UPDATE sessions SET conversation_id = id WHERE conversation_id IS NULL")
    for (session_id,) in tuples(conn, "SELECT id FROM sessions"):
        recount(conn, session_id)
