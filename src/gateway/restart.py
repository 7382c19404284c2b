"""A restart that tells the chats and goes on.

The process ends as it would for good, then executes itself again. Turns that the drain did not see
end are broken off; their chats are told, and after the start they go on. The chat that asked is
told when the gateway is back. What a restart is for is kept in files that are used once; too many
restarts in a short time are refused, so that nothing that asks for one can go round in circles.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_base.files import write_private
from hermes_state import StoreError

from .config import GatewayConfig, Platform
from .platforms.registry import capabilities_of
from .session import SessionSource

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .delivery import Delivery
    from .pipeline import Inbound
    from .session_store import SessionStore

log = logging.getLogger(__name__)

NOTIFY_FILE = ".restart_notify.json"
LOOP_FILE = "gateway/restart_loop.json"
MAX_INTERRUPTED = 3
"""Restarts in a row that may interrupt the same chat's turn and continue it."""
CUT_OFF_REASON = "restart_timeout"

RESTARTING = "♻️ Restarting, I go on in a moment."
STOPPING = (
    "⏹️ I am being stopped in the middle of this. What I had done is kept; when I am back, send"
    " /retry, or simply go on."
)
ASKED = "♻️ Restarting."
BACK = "✅ I am back."
GO_ON = (
    "[The gateway was restarted while you worked on my last message. Go on where you stopped; what"
    " is done above need not be done again.]"
)


class Restart:
    """Whether the gateway comes back when it ends."""

    def __init__(self, home: Path, ending: asyncio.Event) -> None:
        """`ending` is set when the process should end."""
        self._home = home
        self._ending = ending
        self.wanted = False

    async def ask(self, inbound: Inbound, delivery: Delivery, db: AsyncSessionDB) -> None:
        """/restart: say so, remember who asked, and begin."""
        source, key = inbound.event.source, inbound.session_key
        refused = refusal(self._home)
        if refused is not None:
            await delivery.say(source, key, f"⚠️ {refused}")
            return
        await delivery.say(source, key, ASKED)
        await delivery.flush(key)
        # Before anything ends: a command that still waited in the inbox would be run after the
        # start.
        await db.drop_message(inbound.inbox_id)
        _write(self._home / NOTIFY_FILE, {"source": source.to_dict(), "session_key": key})
        self.begin()

    def begin(self) -> None:
        """Let the gateway end and come back, unless it has done that too often."""
        refused = refusal(self._home)
        if refused is not None:
            log.error("No restart: %s", refused)
            return
        self.wanted = True
        self._ending.set()


def refusal(home: Path) -> str | None:
    """Why the gateway is not restarted now; None if it can be."""
    from agent.config import ConfigError, load_config

    from .config_load import load_gateway_config

    try:
        config = load_gateway_config(load_config(home))
    except ConfigError as error:
        return f"The gateway would not start again: {error}"
    recent = _recent(home, config)
    if len(recent) < config.max_restarts:
        return None
    return (
        f"The gateway was restarted {len(recent)} times in the last {config.restart_window:.0f} s;"
        " it is not restarted again now. Wait a little, and look at logs/gateway.log."
    )


def note(home: Path, config: GatewayConfig) -> None:
    """Count a restart that is about to happen."""
    loop = _read(home / LOOP_FILE)
    restarts = [*_recent(home, config), time.time()]
    _write(home / LOOP_FILE, {**loop, "restarts": restarts})


def _recent(home: Path, config: GatewayConfig) -> list[float]:
    edge = time.time() - config.restart_window
    known = _read(home / LOOP_FILE).get("restarts")
    moments = known if isinstance(known, list) else []
    return [
        float(moment) for moment in moments if isinstance(moment, int | float) and moment > edge
    ]


async def notify_interrupted(
    keys: list[str],
    store: SessionStore,
    db: AsyncSessionDB,
    delivery: Delivery,
    restarting_in: Path | None,
) -> None:
    """Tell chats that their turn was interrupted, and have a restart continue it.

    `restarting_in` is the home of a gateway that comes back; None if it is stopped for good.
    """
    chats = {
        key: origin for key in keys if (origin := _origin(store, key)) and _is_read(origin.platform)
    }
    go_on: set[str] = set()
    if restarting_in is not None:
        go_on = await db.at_hand(_mark, restarting_in, store, list(chats))
    for key, origin in chats.items():
        await delivery.say(origin, key, RESTARTING if key in go_on else STOPPING)
    for key in chats:
        await delivery.flush(key)


def _mark(home: Path, store: SessionStore, keys: list[str]) -> set[str]:
    """Remember who goes on after the restart; those broken off too often in a row begin anew."""
    path = home / LOOP_FILE
    loop = _read(path)
    before = loop.get("cut_off")
    before = before if isinstance(before, dict) else {}
    counts = {key: int(before.get(key, 0)) + 1 for key in keys}
    _write(path, {**loop, "cut_off": counts})
    marked = set()
    for key, count in counts.items():
        try:
            if count >= MAX_INTERRUPTED:
                store.suspend_session(key)
            elif store.mark_resume_pending(key, CUT_OFF_REASON):
                marked.add(key)
        except StoreError as error:
            log.error("The turn in the chat %s is not continued after the restart: %s", key, error)
    return marked


async def tell_back(home: Path, delivery: Delivery) -> None:
    """After a start: tell the chat that asked for the restart, once."""
    path = home / NOTIFY_FILE
    asked = _read(path)
    path.unlink(missing_ok=True)
    if not asked:
        return
    try:
        source = SessionSource.from_dict(asked["source"])
        key = str(asked["session_key"])
    except (KeyError, TypeError, ValueError):
        log.warning("%s says nothing that can be used; nobody is told of the restart", path)
        return
    await delivery.say(source, key, BACK)


async def go_on(
    store: SessionStore, db: AsyncSessionDB, platform: Platform, freshness: float
) -> int:
    """Let the turns go on that a restart broke off within `freshness` seconds; returns how many.
    They wait in the inbox."""
    edge = store._now() - timedelta(seconds=freshness)
    count = 0
    for entry in store.list_resume_pending():
        origin, marked = entry.origin, entry.last_resume_marked_at
        if entry.resume_reason != CUT_OFF_REASON:
            continue
        if origin is None or origin.platform is not platform:
            continue
        if marked is not None and marked >= edge:
            # Named after the restart, so that it is continued once whatever happens now.
            await db.accept_message(
                f"restart:{entry.session_key}:{marked.isoformat()}",
                entry.session_id,
                GO_ON,
                source=platform.value,
                session_key=entry.session_key,
                user_id=origin.door,
                facts={"source": origin.to_dict()},
            )
            count += 1
        await db.at_hand(store.clear_resume_pending, entry.session_key)
    return count


def _origin(store: SessionStore, key: str) -> SessionSource | None:
    entry = store.entry(key)
    return entry.origin if entry is not None else None


def _is_read(platform: Platform) -> bool:
    """Programs ask again themselves; nothing can be said to them."""
    return capabilities_of(platform.value).people


def _read(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write(path: Path, facts: dict[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps(facts))
