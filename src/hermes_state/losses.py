"""Data that a salvage could not recover: reported by `hermes doctor` until it is acknowledged."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from .dialect import Connection
from .sessions import get_meta, set_meta

if TYPE_CHECKING:
    from .db import SessionDB

_KEY = "salvage_losses"


def note_loss(conn: Connection, text: str) -> None:
    """Record a salvage that could not read everything."""
    known = json.loads(get_meta(conn, _KEY) or "[]")
    set_meta(conn, _KEY, json.dumps([*known, {"at": conn.now(), "text": text}]))


def list_losses(db: SessionDB) -> list[str]:
    """What was lost and not acknowledged, oldest first, each with its day."""
    return [
        f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(loss['at']))}: {loss['text']}"
        for loss in json.loads(db.get_meta(_KEY) or "[]")
    ]


def acknowledge_losses(db: SessionDB) -> None:
    """Mark the losses as acknowledged; they are not reported again."""
    db.set_meta(_KEY, "[]")
