"""What commands open: the home, its store, a conversation by id or title."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.home import hermes_home
from agent.store import open_store
from hermes_cli.command_run import UserError
from hermes_state import EVERYONE

if TYPE_CHECKING:
    from hermes_state import SessionDB


@contextlib.contextmanager
def store(home: Path | None = None) -> Iterator[SessionDB]:
    """The store of the Hermes home, closed in any case."""
    with open_store(home or hermes_home()) as db:
        if db.salvage_report is not None:
            print(db.salvage_report, file=sys.stderr)
        yield db


def find_session(db: SessionDB, wanted: str) -> str:
    """The session a person names by id, beginning of an id, or title; raises UserError."""
    everyones = db.view(EVERYONE)
    titled = everyones.find_title(wanted)  # exactly this one, before any "… #2"
    session_id = db.resolve_session_id(wanted) or (titled and str(titled["id"]))
    session_id = session_id or everyones.resolve_title(wanted)
    if session_id:
        return session_id
    import difflib

    recent = everyones.list_sessions(limit=500, order_by_last_active=True, include_archived=True)
    if sum(session["id"].startswith(wanted) for session in recent) > 1:
        raise UserError(f"Several conversations begin with {wanted!r}. Give more of the id.")
    titles = {
        str(session["title"]).lower(): session["title"] for session in recent if session["title"]
    }
    near = difflib.get_close_matches(wanted.lower(), titles, n=1)
    hint = f" Did you mean {titles[near[0]]!r}?" if near else " See: hermes sessions list"
    raise UserError(f"There is no conversation {wanted!r}.{hint}")


def find_tip(db: SessionDB, wanted: str) -> str:
    """The session in which the named conversation is now; raises UserError."""
    return db.get_compression_tip(find_session(db, wanted))
