"""What is kept of a conversation beside the store goes with it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store import open_store
from hermes_state import SessionDB
from tools import checkpoints
from tools.base import ToolContext, Workspace
from tools.files.write import write_file


def edit(db: SessionDB, home: Path, session: str) -> None:
    """A file that the conversation writes, after its row is there."""
    workspace = Workspace(home, home.parent / "project")
    workspace.cwd.mkdir(exist_ok=True)
    db.ensure_session(session, "cli")
    context = ToolContext(session, f"call in {session}", workspace=workspace, db=db)
    write_file.run(context, f"{session}.txt", "x")


def kept(home: Path, conversation: str) -> int:
    return len(checkpoints.list_checkpoints(Workspace(home, home), conversation))


def age(db: SessionDB) -> None:
    db.end_session("s1", "idle")
    db._execute_write(lambda conn: conn.execute("UPDATE sessions SET started_at = 1, ended_at = 1"))


DELETIONS: dict[str, Callable[[SessionDB], object]] = {
    "delete_session": lambda db: db.delete_session("s1"),
    "delete_conversation": lambda db: db.delete_conversation("s1"),
    "delete_sessions": lambda db: db.delete_sessions(["s1"]),
    "prune_sessions": lambda db: (age(db), db.prune_sessions(1)),
    "upkeep": lambda db: (age(db), db.maybe_auto_prune_and_vacuum(1, vacuum=False)),
}


@pytest.mark.parametrize("way", DELETIONS)
def test_checkpoints_are_forgotten_with_their_conversation(tmp_path: Path, way: str) -> None:
    home = tmp_path / "home"
    with open_store(home) as db:
        edit(db, home, "s1")
        edit(db, home, "s2")
        db.append_message("s2", "user", "stays")
        assert (kept(home, "s1"), kept(home, "s2")) == (1, 1)
        DELETIONS[way](db)
        assert db.get_session("s1") is None
    assert (kept(home, "s1"), kept(home, "s2")) == (0, 1)


def test_a_conversation_that_goes_on_keeps_its_checkpoints(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with open_store(home) as db:
        edit(db, home, "s1")
        db.append_message("s1", "user", "x")
        db.rotate_session("s1", "s2", [{"role": "user", "content": "summary"}])
        edit(db, home, "s2")
        db.delete_session("s1")
        assert kept(home, "s1") == 2
        db.delete_session("s2")
        assert kept(home, "s1") == 0


def test_what_cannot_be_removed_is_told_and_does_not_stop_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(home: Path, conversation: str) -> None:
        raise OSError("busy")

    home = tmp_path / "home"
    with open_store(home) as db:
        edit(db, home, "s1")
        monkeypatch.setattr(checkpoints, "forget_conversation", fail)
        with caplog.at_level(logging.WARNING):
            assert db.delete_conversation("s1") == 1
    assert "could not be removed: busy" in caplog.text
