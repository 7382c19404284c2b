"""Maintenance of the store: settling after crashes, pruning, vacuum."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .connection import Database
from .dialect import Connection
from .errors import StoreError
from .sessions import get_meta, set_meta

if TYPE_CHECKING:
    from .db import SessionDB
    from .server import ServerDatabase

log = logging.getLogger(__name__)

GHOSTS_PRUNED = "ghost_session_prune_v1"
ORPHANS_FINALIZED = "orphaned_compression_finalize_v1"
LAST_AUTO_PRUNE = "last_auto_prune"
APPROVALS_EXPIRED = "approvals_expired"


def settle_at_startup(db: SessionDB, sessions_dir: Path | None) -> dict[str, int]:
    """Run each part that has not run on this store yet; returns what each one changed.

    Expired approvals are denied at every start.
    """
    report = {}
    if expired := db.expire_approvals():
        report[APPROVALS_EXPIRED] = expired
    db.forget_taken()
    for key, part in (
        (ORPHANS_FINALIZED, lambda: db.finalize_orphaned_compression_sessions()),
        (GHOSTS_PRUNED, lambda: db.prune_empty_ghost_sessions(sessions_dir)),
    ):
        if db.get_meta(key) is None:
            report[key] = part()
            db.set_meta(key, str(db.clock))
    return report


def maybe_auto_prune_and_vacuum(
    db: SessionDB,
    retention_days: int,
    min_interval_hours: int,
    vacuum_too: bool,
    sessions_dir: Path | None,
) -> dict[str, Any]:
    """Prune at most once per interval, whichever process comes first."""
    report: dict[str, Any] = {"skipped": False, "pruned": 0, "vacuumed": False}

    def claim(conn: Connection) -> bool:
        last = get_meta(conn, LAST_AUTO_PRUNE)
        now = conn.now()
        try:
            due = last is None or now - float(last) >= min_interval_hours * 3600
        except ValueError:
            due = True
        if due:
            set_meta(conn, LAST_AUTO_PRUNE, str(now))
        return due

    try:
        if not db._execute_write(claim):
            return {**report, "skipped": True}
        report["pruned"] = db.prune_sessions(retention_days, sessions_dir=sessions_dir)
        db.optimize_fts()
        if vacuum_too and report["pruned"]:
            db.vacuum()
            report["vacuumed"] = True
    except StoreError as error:
        # Upkeep must not keep anyone from starting; the next interval tries again.
        log.warning("Automatic upkeep of the session store failed: %s", error)
        report["error"] = str(error)
    return report


def vacuum(database: Database | ServerDatabase) -> int:
    """Give back what is unused; returns how many bytes became free.

    A file is rewritten without its unused pages; on a server dead rows make room for others.
    """

    def work(conn: Connection) -> int:
        before = conn.size()
        conn.execute("VACUUM")
        return max(0, before - conn.size())

    return database.outside_transaction(work)
