"""Everything at a glance: how the parts of Hermes are."""

from __future__ import annotations

from typing import Any

from .. import shapes_reading as wire
from ..clients import OPERATE
from ..rpc import Call, RpcError, method

LOG_LINES = 200
_TAIL = 200_000
POINTS = "backups/continuous"
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
        "backups": _backups(home),
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
    return dict(said) if isinstance(said, dict) else {"state": "not known"}


def _store(db: Any) -> dict[str, Any]:
    stats = db.store_stats()
    return {**stats, "location": db.location}


def _backups(home: Any) -> list[wire.BackupPoint]:
    from hermes_state.backup.point import list_points

    folder = home / POINTS
    if not folder.is_dir():
        return []
    newest = list_points(folder)[-20:]
    return [wire.BackupPoint(number=point.number, at=point.at) for point in newest]


def _log(home: Any) -> list[str]:
    """The last lines of the log, without secrets."""
    from hermes_base.redaction import redact

    files = sorted((home / "logs").glob("*.log"), key=lambda path: path.stat().st_mtime)
    if not files:
        return []
    with files[-1].open("rb") as file:
        file.seek(max(0, files[-1].stat().st_size - _TAIL))
        text = file.read().decode("utf-8", "replace")
    return [redact(line) for line in text.splitlines()[-LOG_LINES:]]
