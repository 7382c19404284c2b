"""In whose folder the turns of a chat work (`agent.workspaces`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.workspaces import Workspaces
    from hermes_state import SessionDB

    from .session import SessionSource
    from .session_store import SessionStore


def find_folder(
    workspaces: Workspaces, db: SessionDB, source: SessionSource, key: str
) -> Path | None:
    """The folder of whoever wrote, or of a chat that several share; None without workspaces."""
    if not workspaces.template:
        return None
    participant = source.user_id_alt or source.user_id
    is_shared = source.chat_type != "dm" and not key.endswith(f":{participant}")
    person = source.person
    if person is None and source.door is not None:
        person = db.find_person(source.door)
    return workspaces.of_chat(key) if person is None or is_shared else workspaces.of_person(person)


def folder_of_chat(
    workspaces: Workspaces, db: SessionDB, store: SessionStore, key: str
) -> Path | None:
    """The same for a chat by its key."""
    entry = store.entry(key) if workspaces.template else None
    if entry is None or entry.origin is None:
        return workspaces.of_chat(key)
    return find_folder(workspaces, db, entry.origin, key)
