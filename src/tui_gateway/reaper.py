"""Ends sessions that nobody watches any more: soon where a client asked so, else after hours.

A session in which a turn runs is left alone until it has ended; losing a client ends no turn.
"""

from __future__ import annotations

import os
import threading
import time

from . import live
from .hub import Hub, Session

GRACE_SECONDS = 20.0
"""How long a client has to come back to a session that was to end with it."""
TTL_SECONDS = 6 * 3600.0
"""How long a session is kept live with nobody watching and nothing happening."""


class Reaper:
    """A thread that looks after the detached sessions of a server with coming and going clients."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._grace = _seconds("HERMES_TUI_WS_ORPHAN_REAP_GRACE_S", GRACE_SECONDS)
        self._ttl = _seconds("HERMES_TUI_SESSION_TTL_S", TTL_SECONDS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hermes-reaper", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(min(1.0, self._grace / 4, self._ttl / 4)):
            self.reap(time.time())

    def reap(self, now: float) -> None:
        """End what is to end at this time."""
        for sid, session in list(self._hub.get_sessions().items()):
            with live.OPENING:  # no client can come back between the check and the end
                reason = self._reason(session, now)
                if reason is not None:
                    live.close_aside(self._hub, sid, reason)

    def _reason(self, session: Session, now: float) -> str | None:
        detached_at = session.get("detached_at")
        if detached_at is None or session.get("running") or session.get("closing"):
            return None
        if session.get("close_on_disconnect") and now - detached_at >= self._grace:
            return "client_gone"
        return "idle" if now - max(detached_at, session["last_active"]) >= self._ttl else None


def _seconds(name: str, default: float) -> float:
    try:
        given = float(os.environ.get(name, ""))
    except ValueError:
        return default
    return given if given > 0 else default
