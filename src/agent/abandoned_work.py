"""Cleans up after dead processes: ends their commands and tasks, notifies conversations.

Every front end calls this when it starts, and before it continues an abandoned turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes_state import SUB_AGENT
from tools.processes.ledger import reap_orphans

if TYPE_CHECKING:
    from hermes_state import SessionDB
    from tools.processes.ledger import Record


def end_abandoned_work(home: Path, db: SessionDB) -> None:
    """End the commands and background tasks of dead processes; StoreError, OSError."""
    reap_orphans(home, lambda record: _tell(db, record))
    end_abandoned_tasks(db)


def end_abandoned_tasks(db: SessionDB) -> None:
    """End abandoned background tasks and notify their conversations."""
    if running := db.list_running_delegations():
        from .background import end_abandoned  # not needed for most starts, which are to be quick

        end_abandoned(db, running)


def _tell(db: SessionDB, record: Record) -> None:
    """Notify a conversation of the end of a process, as it had asked."""
    from tools.processes.background import end_name

    session = db.get_session(record.session)
    if session is None or session["source"] == SUB_AGENT:
        return  # the conversation was deleted
    how = record.ended or (
        "is not running any more: Hermes was stopped while it ran. What it did until then is done,"
        " and its exit code is not known"
    )
    db.add_note(
        end_name(record.tells_as), record.session, f"[{record.tells_as} {how}: {record.command}]"
    )
