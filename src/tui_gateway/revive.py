"""A live session for a stored conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import live, walls
from .hub import Hub, Session


def revived(hub: Hub, key: str, cols: int) -> Session:
    """A live session for a stored conversation."""
    db = hub.get_db()
    row = db.get_session(key)
    waiting = db.list_waiting(key)
    facts: dict[str, Any] = dict(row or (waiting[0]["facts"] if waiting else {}))
    cwd = str(facts.get("cwd") or "")
    session = live.new_session(key, cols=cols, cwd=cwd if cwd and Path(cwd).is_dir() else None)
    session["user_id"] = facts.get("user_id")
    session["title"] = facts.get("title")
    if row is None:
        for name in ("model", "provider", "reasoning_effort", "pending_title"):
            session[name] = facts.get(name)
    elif row["model"] and row["model"] != hub.get_config().model.name:
        session["model"] = _usable_model(hub, row["model"])
    session["history"] = db.get_messages_as_conversation(key)
    walls.revive(hub, session)
    return session


def _usable_model(hub: Hub, name: str) -> str | None:
    """The model a conversation had, if it can still be asked; else the configured one."""
    from agent.config import ConfigError

    try:
        hub.get_config().model_named(name)
    except ConfigError:
        return None
    return name
