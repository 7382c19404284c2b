"""The store of a Hermes home, for everybody who opens it for users.

What is kept of a conversation beside the store goes when the conversation goes, whoever deletes it
and however: by name, with its session, or because it has grown old.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import hermes_state

log = logging.getLogger(__name__)


def open_store(home: Path) -> hermes_state.SessionDB:
    """Open `state.db` in the Hermes home; deleting a conversation also deletes its files there."""
    db = hermes_state.SessionDB(home / "state.db")
    db.on_conversations_deleted = lambda conversations: forget(home, conversations)
    return db


def forget(home: Path, conversations: list[str]) -> None:
    """Remove what is kept in files of conversations that are no longer in the store."""
    from tools.own_folders import CHECKPOINT_FOLDER, output_folder_of

    for conversation in conversations:
        shutil.rmtree(output_folder_of(home, conversation), ignore_errors=True)
    if not (home / CHECKPOINT_FOLDER).is_dir():
        return
    from tools.base import ToolError
    from tools.checkpoints import forget_conversation

    for conversation in conversations:
        try:
            forget_conversation(home, conversation)
        except (OSError, ToolError) as error:
            # The conversation itself is gone; what is left of it lapses with its age.
            log.warning("The checkpoints of %s could not be removed: %s", conversation, error)
