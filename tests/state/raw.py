"""Looking into a store, and tampering with it, whatever database is behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state.dialect import Connection
from hermes_state.opening import FileConnection
from hermes_state.server_connection import ServerConnection


def query(db: SessionDB, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement that reads."""
    return db._database.read(lambda conn: conn.execute(statement, values).fetchall())


def tamper(db: SessionDB, *statements: str) -> None:
    """Run statements in one transaction, unhindered by foreign keys."""

    def work(conn: Connection) -> None:
        if db.is_on_server:
            conn.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            conn.execute(statement)

    if not db.is_on_server:
        db._database.outside_transaction(lambda conn: conn.execute("PRAGMA foreign_keys = 0"))
    db._execute_write(work)


def address(db: SessionDB) -> str:
    """Where a process that does not share our memory finds the store's server; "" for a file."""
    return str(db._database.address) if db._database.is_server else ""


def set_clock(monkeypatch: pytest.MonkeyPatch, now: Callable[[], float]) -> None:
    """Have the store's clock tell what `now` says."""
    for kind in (FileConnection, ServerConnection):
        monkeypatch.setattr(kind, "now", lambda conn: now())


_FOREIGN_KEYS = (
    "SELECT 1 FROM messages m LEFT JOIN sessions s ON s.id = m.session_id WHERE s.id IS NULL",
    "SELECT 1 FROM session_model_usage u LEFT JOIN sessions s ON s.id = u.session_id"
    " WHERE s.id IS NULL",
    "SELECT 1 FROM sessions c LEFT JOIN sessions s ON s.id = c.parent_session_id"
    " WHERE s.id IS NULL AND c.parent_session_id IS NOT NULL",
)


def check_sound(db: SessionDB) -> None:
    """The database finds nothing wrong with itself, and no row hangs in the air."""
    assert db._database.read(lambda conn: conn.damage()) == []
    for statement in _FOREIGN_KEYS:
        assert query(db, statement) == []
    if not db.is_on_server:
        assert query(db, "PRAGMA foreign_key_check") == []
