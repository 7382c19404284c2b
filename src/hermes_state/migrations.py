"""Migrations to the current schema: of new files, our own older ones, and those of others.

`schema_version` (the table) says which public schema the known tables have; `PRAGMA user_version`
counts our own steps. Before anything in an existing file is changed, a copy is put beside it. Each
step runs in one transaction, so that a crash leaves either the old or the new state.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import closing
from pathlib import Path

import apsw

from . import bindings, lineage, persons, schema, spending, titles
from .connection import Database, open_connection, private_folder
from .dialect import Connection, column, tuples, value
from .errors import NewerStoreError
from .opening import FileConnection

log = logging.getLogger(__name__)

# The old full-text tables and their triggers: search has its own file now.
_OLD_SEARCH_TABLES = ("messages_fts", "messages_fts_trigram")


def refuse_newer(path: Path, busy_timeout: float) -> None:
    """Raise NewerStoreError for a file of a newer Hermes, before anything in it can change."""
    try:
        if not path.is_file():
            return
        with closing(open_connection(path, readonly=True, busy_timeout=busy_timeout)) as connection:
            known, own, _ = _versions(connection)
    except (apsw.Error, OSError) as error:
        # Whatever keeps it from being read, opening it reports or fixes that.
        log.debug("The version of %s cannot be read beforehand: %s", path, error)
    else:
        _refuse_newer(path, known, own)


def prepare(database: Database) -> Path | None:
    """Create or upgrade the tables; returns the path of the backup if one was made."""
    known, own, is_empty = database.read(_versions)
    _refuse_newer(database.path, known, own)
    if own == schema.OWN_SCHEMA_VERSION:
        return None
    backup = None if is_empty else back_up(database)
    database.write(_upgrade)
    if backup is not None:
        log.warning("Upgraded %s; the file as it was is kept at %s", database.path, backup)
    return backup


def _versions(conn: Connection) -> tuple[int, int, bool]:
    own = int(value(conn, "PRAGMA user_version"))
    tables = set(column(conn, "SELECT name FROM sqlite_schema"))
    known = 0
    if "schema_version" in tables:
        known = int(value(conn, "SELECT MAX(version) FROM schema_version") or 0)
    return known, own, not tables


def _refuse_newer(path: Path, known: int, own: int) -> None:
    if known > schema.KNOWN_SCHEMA_VERSION or own > schema.OWN_SCHEMA_VERSION:
        raise NewerStoreError(
            f"{path} was written by a newer Hermes (schema {known}/{own}; this one knows "
            f"{schema.KNOWN_SCHEMA_VERSION}/{schema.OWN_SCHEMA_VERSION}). Upgrade Hermes, or point "
            "HERMES_HOME at another folder. The file was not changed."
        )


def back_up(database: Database) -> Path:
    """A consistent, private copy of the database in `backups/` beside it."""
    folder = database.path.parent / "backups"
    private_folder(folder)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = folder / f"{database.path.stem}-before-upgrade-{stamp}-{os.urandom(3).hex()}.db"
    partial = target.with_suffix(".partial")  # a copy that a crash truncated must not look whole

    def copy(conn: FileConnection) -> None:
        with closing(apsw.Connection(str(partial))) as destination:
            partial.chmod(0o600)
            with destination.backup("main", conn, "main") as backup:
                while not backup.done:
                    backup.step(2000)

    try:
        database.read(copy)
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return target


def _upgrade(conn: Connection) -> None:
    known, own, _ = _versions(conn)
    if own == schema.OWN_SCHEMA_VERSION:
        return  # another process was first
    _rename_columns(conn)
    for table in schema.TABLES:
        conn.execute(schema.create_table_sql(table))
        _add_missing_columns(conn, table)
    _drop_old_search(conn)
    # These names stand for other columns in older files.
    for index in ("idx_messages_session", "idx_messages_session_active"):
        conn.execute(f"DROP INDEX IF EXISTS {index}")
    _number_repeated_titles(conn)
    # Titles were unique over all owners once, so that one could find out what another had.
    conn.execute("DROP INDEX IF EXISTS idx_sessions_title_unique")
    for statement in schema.create_index_sql():
        conn.execute(statement)
    settle_old_rows(conn)
    spending.note_first_call_time(conn)
    persons.adopt_owners(conn)
    conn.execute(
        "INSERT INTO state_meta (key, value) VALUES ('store_id', ?) ON CONFLICT (key) DO NOTHING",
        (os.urandom(16).hex(),),
    )
    if known != schema.KNOWN_SCHEMA_VERSION:
        conn.execute("DELETE FROM schema_version")
        conn.execute(
            "INSERT INTO schema_version (version) VALUES (?)", (schema.KNOWN_SCHEMA_VERSION,)
        )
    conn.execute(f"PRAGMA user_version = {schema.OWN_SCHEMA_VERSION}")


_RENAMED = {("turns", "fruitless"): "attempts_without_progress"}
"""Columns of our own that had another name once."""


def _rename_columns(conn: Connection) -> None:
    for (table, before), now in _RENAMED.items():
        if before in _columns(conn, table):
            conn.execute(f"ALTER TABLE {table} RENAME COLUMN {before} TO {now}")


def _columns(conn: Connection, table: str) -> set[str]:
    return set(column(conn, "SELECT name FROM pragma_table_info(?)", (table,)))


def _add_missing_columns(conn: Connection, table: str) -> None:
    present = _columns(conn, table)
    for name, kind in schema.TABLES[table][0].items():
        if name not in present:
            conn.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _drop_old_search(conn: Connection) -> None:
    triggers = tuples(
        conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'messages_fts%'"
    )
    for (trigger,) in triggers:
        conn.execute(f'DROP TRIGGER "{trigger}"')
    for table in _OLD_SEARCH_TABLES:
        conn.execute(f"DROP TABLE IF EXISTS {table}")


def _number_repeated_titles(conn: Connection) -> None:
    """Older files may have a title twice; the newest session keeps it, the others get a number."""
    if value(
        conn,
        "SELECT 1 FROM sqlite_schema WHERE name IN"
        " ('idx_sessions_title_unique', 'idx_sessions_title_owner_unique')",
    ):
        return
    seen = set()
    for session_id, title, owner in tuples(
        conn,
        "SELECT id, title, user_id FROM sessions WHERE title IS NOT NULL"
        " ORDER BY started_at DESC, id DESC",
    ):
        if (title, owner) in seen:
            number = titles.get_next_title_in_lineage(conn, title, owner)
            conn.execute("UPDATE sessions SET title = ? WHERE id = ?", (number, session_id))
        seen.add((title, owner))


def settle_old_rows(conn: Connection) -> None:
    """Fill the columns that are our own for rows that others wrote."""
    _settle_lineages(conn)
    conn.execute(
        "UPDATE sessions SET last_active ="
        " (SELECT MAX(timestamp) FROM messages WHERE session_id = sessions.id)"
        " WHERE last_active IS NULL"
    )
    conn.execute("UPDATE messages SET active = 1 WHERE active IS NULL")
    for scope, key, entry_json in tuples(
        conn,
        "SELECT scope, session_key, entry_json FROM gateway_routing WHERE session_id IS NULL",
    ):
        conn.execute(
            "UPDATE gateway_routing SET session_id = ? WHERE scope = ? AND session_key = ?",
            (bindings.session_of(entry_json), scope, key),
        )


def _settle_lineages(conn: Connection) -> None:
    """Give every session its conversation, and every compressed one its single continuation."""
    conn.execute("UPDATE sessions SET conversation_id = id WHERE conversation_id IS NULL")
    compressed = tuples(
        conn, "SELECT id FROM sessions WHERE end_reason = 'compression' ORDER BY started_at, id"
    )
    for (session_id,) in compressed:
        lineage.adopt_continuation(conn, session_id)
