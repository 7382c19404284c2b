"""A look into the store: a conversation's last messages and its family, without opening it.

The server only shows live conversations; a preview should not open one. Two processes may read
the store at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

PREVIEWED = 12


class Glimpse(NamedTuple):
    """What a picker shows of a conversation."""

    messages: list[dict[str, Any]]
    """The last ones of the person and the model."""
    family: list[dict[str, Any]]
    """Every session that hangs together with it, parents before their children."""


def glimpse(home: Path, session_id: str) -> Glimpse:
    """Read it; empty for a conversation that is not stored yet. StoreError if it cannot be read."""
    from agent.store import has_store, open_store

    if not has_store(home):
        return Glimpse([], [])
    with open_store(home) as db:
        if db.get_session(session_id) is None:
            return Glimpse([], [])
        said = [
            message
            for message in db.get_messages(session_id)
            if message["role"] in ("user", "assistant") and message.get("content")
        ]
        return Glimpse(said[-PREVIEWED:], db.get_family(session_id))
