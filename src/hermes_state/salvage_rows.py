"""Reading what is left of a damaged database, row by row, and making a whole of it again.

Tables are read in the order of their row ids; where a row cannot be read, reading goes on behind
it. Messages whose session is lost get a new one; conversations with a hole are joined again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from . import schema
from .connection import BUSY_TIMEOUT, patient_busy_handler
from .dialect import tuples, value
from .lineage import get_compression_lineage
from .messages import recount
from .migrations import settle_old_rows
from .opening import FileConnection

if TYPE_CHECKING:
    from .salvage import SalvageReport

log = logging.getLogger(__name__)

_BATCH = 500
_LAST = 2**62
_UNREADABLE = (apsw.Error, UnicodeDecodeError)


def has_unreadable_text(source: FileConnection) -> bool:
    """Whether a text in one of our tables is not valid Unicode, which SQLite does not check."""
    try:
        for table in _tables(source):
            for _ in source.execute(f"SELECT * FROM {_quoted(table)}"):
                pass
    except UnicodeDecodeError:
        return True
    return False


def bring_over(moved: Path, target: FileConnection, report: SalvageReport) -> None:
    """Fill `target` with everything that can be read of the database at `moved`."""
    source = None
    try:
        if moved.stat().st_size == 0:
            raise apsw.NotADBError("it is empty")  # SQLite would delete its -wal
        source = FileConnection(str(moved), flags=apsw.SQLITE_OPEN_READONLY)
        # Without this SQLite reads nothing of a file that is too short or has a broken schema.
        source.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
        source.set_busy_handler(patient_busy_handler(BUSY_TIMEOUT))
        tables = _tables(source)
    except _UNREADABLE as error:
        log.error("Nothing in %s can be read: %s", moved, error)
        report.damaged_tables = list(schema.TABLES)
        if source is not None:
            source.close()
        return
    for table in [*schema.TABLES, *sorted(tables.keys() - schema.TABLES.keys())]:
        if table == "schema_version":
            continue
        if table in tables:
            _copy_table(source, target, table, tables[table], report)
        elif table in ("sessions", "messages"):
            report.note_damage(table)
    _keep_ids_unused(source, target)
    source.close()
    _adopt_homeless_messages(target)
    _join_conversations(target)
    settle_old_rows(target)
    for (session_id,) in tuples(target, "SELECT id FROM sessions"):
        recount(target, session_id)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(source: FileConnection) -> dict[str, bool]:
    """The plain tables of a database, and whether their rows have ids."""
    return {
        name: not without_rowid
        for name, without_rowid in tuples(
            source,
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )
    }


def _copy_table(
    source: FileConnection,
    target: FileConnection,
    table: str,
    has_rowid: bool,
    report: SalvageReport,
) -> None:
    try:
        found_columns = tuples(source, "SELECT name, type FROM pragma_table_info(?)", (table,))
        sql = value(source, "SELECT sql FROM sqlite_schema WHERE name = ?", (table,))
    except _UNREADABLE:
        report.note_damage(table)
        return
    columns = _prepare_columns(target, table, sql, found_columns)
    insert = (
        f"INSERT OR REPLACE INTO {_quoted(table)} ({', '.join(map(_quoted, columns))})"
        f" VALUES ({', '.join('?' * len(columns))})"
    )
    if table == "sessions":
        insert = insert.replace(" OR REPLACE", "")  # a title must not cost another session its row
    report.rows[table] = 0
    read = _rows_by_id if has_rowid else _rows_without_id
    for values in read(source, table, columns, report):
        row = dict(zip(columns, values, strict=True))
        if table == "state_meta" and row["key"] == "store_id":
            continue  # a new store, so that the search index is built anew
        try:
            target.execute(insert, values)
        except apsw.ConstraintError:
            report.note_damage(table)  # e.g. a NULL where there cannot be one
            if table != "sessions" or row["id"] is None:
                continue
            row |= {"title": None, "continuation_of": None, "started_at": row["started_at"] or 0}
            row["source"] = row["source"] or "salvaged"
            target.execute(
                insert.replace("INSERT", "INSERT OR IGNORE"), [row[name] for name in columns]
            )
        report.rows[table] += target.changes()


def _prepare_columns(
    target: FileConnection, table: str, sql: str, columns: list[tuple[Any, ...]]
) -> list[str]:
    """The names of the columns; tables and columns that are not ours are created as they were."""
    if table not in schema.TABLES:
        target.execute(sql)
    known = {name for (name,) in tuples(target, "SELECT name FROM pragma_table_info(?)", (table,))}
    for name, kind in columns:
        if name not in known:
            target.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {_quoted(name)} {kind}")
    return [name for name, _ in columns]


def _rows_by_id(
    source: FileConnection, table: str, columns: list[str], report: SalvageReport
) -> Iterator[tuple[Any, ...]]:
    """The rows in the order of their ids, going round what cannot be read."""
    names = ", ".join(map(_quoted, columns))
    # From an id on, not behind it: to look behind the last row of a page SQLite reads that page.
    select = f"SELECT rowid, {names} FROM {_quoted(table)} WHERE rowid >= ? ORDER BY rowid LIMIT ?"
    highest = _highest_id(source, table)
    position, step = 0, 1
    while position < _LAST:
        count = 0
        try:
            for row in source.execute(select, (position, _BATCH)):
                position, count, step = row[0] + 1, count + 1, 1
                yield row[1:]
            if count == 0:
                return
        except UnicodeDecodeError:
            report.note_damage(table)
            row_id, fixed = _row_with_bad_text(source, table, columns, position)
            position = row_id + 1
            yield fixed
        except apsw.Error:
            report.note_damage(table)
            position += step
            if position > highest:
                step *= 2  # nothing is known of what is up there


def _row_with_bad_text(
    source: FileConnection, table: str, columns: list[str], position: int
) -> tuple[int, tuple[Any, ...]]:
    """The first row from `position` on, with marks in the place of bytes that are no text."""
    names = ", ".join(
        f"CASE WHEN typeof({name}) = 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in map(_quoted, columns)
    )
    row_id, *cells = tuples(
        source,
        f"SELECT rowid, {names} FROM {_quoted(table)} WHERE rowid >= ? ORDER BY rowid LIMIT 1",
        (position,),
    )[0]
    return row_id, tuple(
        cell.decode(errors="replace") if isinstance(cell, bytes) else cell for cell in cells
    )


def _highest_id(source: FileConnection, table: str) -> int:
    for question, values in (
        (f"SELECT MAX(rowid) FROM {_quoted(table)}", ()),
        ("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)),
    ):
        try:
            return int(value(source, question, values) or 0)
        except _UNREADABLE:
            continue
    return 0


def _rows_without_id(
    source: FileConnection, table: str, columns: list[str], report: SalvageReport
) -> Iterator[tuple[Any, ...]]:
    """The rows in the order of their key, as far as they can be read."""
    try:
        yield from source.execute(
            f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(table)}"
        )
    except _UNREADABLE:
        report.note_damage(table)


def _keep_ids_unused(source: FileConnection, target: FileConnection) -> None:
    """Ids of rows that were lost are not given to new ones."""
    try:
        highest = tuples(source, "SELECT name, seq FROM sqlite_sequence")
    except _UNREADABLE:
        return  # then new ids go on from the highest that was read
    for name, seq in highest:
        target.execute(
            "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0"
            " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
            (name,),
        )
        target.execute(
            "UPDATE sqlite_sequence SET seq = MAX(seq, ?) WHERE name = ?", (int(seq), name)
        )


def _adopt_homeless_messages(conn: FileConnection) -> None:
    """A row for every session of which only messages, or a continuation, are left."""
    homeless = tuples(
        conn,
        "SELECT session_id, MIN(timestamp) FROM messages"
        " WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id",
    )
    for session_id, started in homeless:
        continued = value(
            conn, "SELECT conversation_id FROM sessions WHERE continuation_of = ?", (session_id,)
        )
        conn.execute(
            "INSERT INTO sessions (id, source, started_at, ended_at, end_reason, conversation_id,"
            " version) VALUES (?1, 'salvaged', ?2, CASE WHEN ?3 IS NULL THEN NULL ELSE ?2 END,"
            " CASE WHEN ?3 IS NULL THEN NULL ELSE 'compression' END, COALESCE(?3, ?1), 1)",
            (session_id, started, continued),
        )
    for column in ("parent_session_id", "continuation_of"):
        conn.execute(
            f"UPDATE sessions SET {column} = NULL WHERE {column} IS NOT NULL"
            f" AND {column} NOT IN (SELECT id FROM sessions)"
        )


def _join_conversations(conn: FileConnection) -> None:
    """Put the parts of a conversation that lost a session in the middle one behind the other."""
    broken = tuples(
        conn,
        "SELECT conversation_id FROM sessions WHERE continuation_of IS NULL"
        " AND conversation_id IS NOT NULL GROUP BY conversation_id HAVING COUNT(*) > 1",
    )
    for (conversation,) in broken:
        heads = tuples(
            conn,
            "SELECT id FROM sessions WHERE conversation_id = ? AND continuation_of IS NULL"
            " ORDER BY started_at, id",
            (conversation,),
        )
        for (before,), (head,) in itertools.pairwise(heads):
            end = get_compression_lineage(conn, before)[-1]
            conn.execute(
                "UPDATE sessions SET continuation_of = ?1, parent_session_id ="
                " COALESCE(parent_session_id, ?1) WHERE id = ?2",
                (end, head),
            )
            conn.execute(
                "UPDATE sessions SET ended_at = COALESCE(ended_at, started_at),"
                " end_reason = 'compression' WHERE id = ?",
                (end,),
            )
