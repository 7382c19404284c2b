"""Names that clients choose for their sessions, and the ids that the store knows these by.

A name is the id, unless another owner's session has it. Then the id carries the owner's mark, and
the client is shown its own name all the same: whether others use a name cannot be found out.
"""

from __future__ import annotations

import hashlib
from typing import Any

_MARK_LENGTH = 12


def marked_id(owner: str, name: str) -> str:
    """The id of an owner's session whose name another owner has."""
    mark = hashlib.sha256(f"{owner}\0{name}".encode()).hexdigest()[:_MARK_LENGTH]
    return f"{name}~{mark}"


def shown_id(owner: str, session_id: str) -> str:
    """A session's id as its owner is shown it."""
    name = session_id[: -_MARK_LENGTH - 1]
    return name if name and marked_id(owner, name) == session_id else session_id


def with_shown_ids(row: dict[str, Any], owner: str) -> dict[str, Any]:
    """The row of a session or message with ids as the owner is shown them."""
    names = ("id", "session_id", "parent_session_id", "_lineage_root_id", "conversation_id")
    ids = {name: row[name] for name in names if isinstance(row.get(name), str)}
    return {**row, **{name: shown_id(owner, given) for name, given in ids.items()}}
