"""Everything at a glance: how the parts of Hermes are."""

from __future__ import annotations

import time
from typing import Any

from .. import shapes_reading as wire
from ..clients import OPERATE
from ..rpc import Call, RpcError, method

LOG_LINES = 200
_TAIL = 200_000
POINTS = "backups/continuous"
SHOWN_POINTS = 20
SILENT_SECONDS = 60.0
"""A gateway says every 15 seconds how it is; one that has not for so long is gone, or hangs."""
NO_POINTS = 4016


@method("state.overview", scope=OPERATE, slow=True)
def overview(call: Call) -> wire.Overview:
    """How Hermes is: gateway, platforms, what waits and is owed, store, search, backups, log."""
    from agent.home import hermes_home

    home, db = hermes_home(), call.db
    return {
        "version": _version(),
        "gateway": _gateway(home),
        "waiting": len(db.list_waiting()),
        "owed": len(db.list_deliveries(("pending", "sending"))),
        "may_be_missing": len(db.list_abandoned_deliveries()),
        "store": _store(db),
        "search": _search(home, db),
        "backups": _backups(home),
        "proof": _proof(home),
        "log": _log(home),
    }


@method("backup.verify", scope=OPERATE, slow=True)
def verify(call: Call) -> wire.Proven:
    """Prove the newest backup point by restoring it aside."""
    from agent.home import hermes_home
    from hermes_state.backup.point import list_points
    from hermes_state.backup.verify import verify_points

    folder = hermes_home() / POINTS
    if not folder.is_dir() or not list_points(folder):
        raise RpcError(NO_POINTS, "There is no backup point. Make one: `hermes backup increment`.")
    newest = verify_points(folder)[-1]
    return {
        "number": newest.number,
        "messages": int(newest.messages or 0),
        "damage": str(newest.damage or ""),
    }


def _version() -> str:
    from hermes_base.version import __version__

    return __version__


def _gateway(home: Any) -> dict[str, Any]:
    """What the gateway says of itself, in its own file."""
    import json

    try:
        said = json.loads((home / "gateway" / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"state": "not running"}
    if not isinstance(said, dict):
        return {"state": "not known"}
    updated = said.get("updated_at")
    is_silent = isinstance(updated, int | float) and time.time() - updated > SILENT_SECONDS
    if said.get("state") == "running" and is_silent:
        said["state"] = "silent"
    return said


def _store(db: Any) -> dict[str, Any]:
    stats = db.store_stats()
    return {**stats, "location": db.location}


def _search(home: Any, db: Any) -> wire.SearchState:
    """How large the index is and what it has not read; nothing is built for looking at it."""
    from hermes_state import StoreError, count_unread

    file = home / "search.db"
    if not file.exists():
        return {"bytes": 0, "unread": None}
    try:
        unread = count_unread(db.search_index)
    except StoreError:  # damaged: the doctor says what to do
        return {"bytes": file.stat().st_size, "unread": None}
    return {"bytes": file.stat().st_size, "unread": unread}


def _backups(home: Any) -> list[wire.BackupPoint]:
    from hermes_state.backup.point import list_points

    folder = home / POINTS
    if not folder.is_dir():
        return []
    newest = list_points(folder)[-SHOWN_POINTS:]
    return [
        wire.BackupPoint(number=point.number, at=point.at, bytes=point.path.stat().st_size)
        for point in newest
    ]


def _proof(home: Any) -> wire.Proof | None:
    from hermes_state.backup.verify import last_proof

    proof = last_proof(home / POINTS)
    return None if proof is None else {"number": proof.number, "at": proof.proven_at}


def _log(home: Any) -> list[str]:
    """The last lines of the log, without secrets."""
    from hermes_base.redaction import redact

    path = home / "logs" / "agent.log"
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        text = file.read().decode("utf-8", "replace")
    return [redact(line) for line in text.splitlines()[-LOG_LINES:]]
