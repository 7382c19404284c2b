"""`sessions.auto_prune`: off unless set; then old, ended conversations go, once per interval."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.auto_prune import begin_pruning, prune_if_due
from agent.config import load_config
from hermes_state import SessionDB

OLD = time.time() - 200 * 86_400


@pytest.fixture
def db(tmp_path: Path) -> SessionDB:
    db = SessionDB(tmp_path / "state.db")
    for name in ("old", "open", "new"):
        db.create_session(name, "cli", started_at=time.time() if name == "new" else OLD)
    for name in ("old", "new"):
        db.end_session(name, "cli_close")
    age = f"UPDATE sessions SET ended_at = {OLD} WHERE id = 'old'"
    db._execute_write(lambda conn: conn.execute(age))
    return db


def left(db: SessionDB) -> set[str]:
    return {row["id"] for row in db.search_sessions()}


def configure(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(f"sessions: {{{text}}}\n")


def test_nothing_is_deleted_unless_it_is_asked_for(db: SessionDB, tmp_path: Path) -> None:
    settings = load_config(tmp_path, {}).sessions
    assert prune_if_due(db, tmp_path, settings) is None
    assert begin_pruning(db, tmp_path, settings) is None
    assert left(db) == {"old", "open", "new"}


def test_what_is_old_and_ended_goes_once_per_interval(db: SessionDB, tmp_path: Path) -> None:
    configure(tmp_path, "auto_prune: true, retention_days: 100, vacuum_after_prune: false")
    settings = load_config(tmp_path, {}).sessions
    assert prune_if_due(db, tmp_path, settings) == {
        "skipped": False, "pruned": 1, "vacuumed": False,
    }  # fmt: skip
    assert left(db) == {"open", "new"}
    assert (prune_if_due(db, tmp_path, settings) or {})["skipped"] is True


@pytest.mark.parametrize("given", [True, False])
def test_whoever_starts_does_not_wait_for_it(db: SessionDB, tmp_path: Path, given: bool) -> None:
    configure(tmp_path, "auto_prune: true")
    thread = begin_pruning(db, tmp_path, load_config(tmp_path, {}).sessions if given else None)
    assert thread is not None and thread.daemon
    thread.join(30)
    assert left(db) == {"open", "new"}


def test_a_configuration_that_cannot_be_read_deletes_nothing(db: SessionDB, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("sessions: [broken")
    thread = begin_pruning(db, tmp_path)
    assert thread is not None
    thread.join(30)
    assert left(db) == {"old", "open", "new"}
