"""Conversations that were asked for on a platform go on in its home chat.

A request is a fact of the store, so it may be made while no gateway runs. It is claimed by exactly
one process, and ends as completed or failed with a reason. What was claimed when the gateway was
killed is gone on with at the next start: binding twice is the same as once, and the chat is told
under one name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .config import Platform
from .session import SessionSource

if TYPE_CHECKING:
    from hermes_state import SessionDB

    from .run import GatewayRunner

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
PACE_SECONDS = 0.25
"""Between two looks in a store that is written to all the time."""
CONNECT_SECONDS = 30.0
"""How long a request waits for a platform that is set up and not connected."""
LAST_LINES = 4
LINE_LENGTH = 300
_TAKING = "handoff:taking"


class HandoffError(Exception):
    """A conversation that cannot be taken over; the message says why."""


def set_home(db: SessionDB, source: SessionSource) -> str:
    """Make a chat its platform's home chat."""
    kept = {**source.to_dict(), "message_id": None}
    db.set_meta(_home_key(source.platform), json.dumps(kept))
    name = source.platform.value
    return f"🏠 This is the home chat of {name} now: /handoff {name} in the terminal goes on here."


def home_chat(runner: GatewayRunner, platform: Platform) -> SessionSource | None:
    """A platform's home chat: the one /sethome was said in, else `home_channel` of its section."""
    kept = runner._session_db.sync.get_meta(_home_key(platform))
    if kept:
        try:
            return SessionSource.from_dict(json.loads(kept))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("The home chat of %s cannot be read: %s", platform.value, error)
    config = runner.config.platforms.get(platform)
    given = config.extra.get("home_channel") if config else None
    if not given:
        return None
    facts: Mapping[str, Any] = given if isinstance(given, Mapping) else {"chat_id": given}
    return SessionSource(
        platform,
        str(facts.get("chat_id") or ""),
        chat_name=facts.get("name"),
        chat_type=str(facts.get("chat_type") or "dm"),
    )


async def watch_handoffs(runner: GatewayRunner) -> None:
    """Take over what is asked for, until the gateway stops."""
    waiting: dict[str, float] = {}
    is_first = True
    wake = runner._session_db.wake
    while runner._running:
        seen = wake.number
        try:
            if is_first:
                await _go_on(runner)
                is_first = False
            await take_handoffs(runner, waiting)
        except Exception:
            # A look that fails must not be the last one.
            log.exception("Looking for conversations to take over failed")
        await wake.wait_async(seen, LOOK_SECONDS, PACE_SECONDS)


async def take_handoffs(runner: GatewayRunner, waiting: dict[str, float]) -> int:
    """Take over every conversation that waits; returns how many.

    `waiting` remembers since when a platform that is not connected is waited for.
    """
    db = runner._session_db
    rows = await db.list_pending_handoffs()
    for gone in waiting.keys() - {row["id"] for row in rows}:
        del waiting[gone]
    taken = 0
    for row in rows:
        session_id, name = row["id"], str(row["handoff_platform"] or "")
        since = waiting.setdefault(session_id, time.monotonic())
        if _is_connecting(runner, name) and time.monotonic() - since < CONNECT_SECONDS:
            continue
        await db.set_meta(_TAKING, session_id)
        if await db.claim_handoff(session_id):
            taken += await _take(runner, session_id, name)
    return taken


async def _go_on(runner: GatewayRunner) -> None:
    """Finish what a run that was killed had claimed."""
    session_id = await runner._session_db.get_meta(_TAKING)
    if not session_id:
        return
    tip = await runner._session_db.get_compression_tip(session_id)
    state = await runner._session_db.get_handoff_state(tip)
    if state is not None and state["state"] == "running":
        await _take(runner, tip, str(state["platform"]))


async def _take(runner: GatewayRunner, session_id: str, name: str) -> bool:
    db = runner._session_db
    failed = None
    try:
        await _bind(runner, session_id, name)
    except HandoffError as error:
        log.warning("%s is not taken over: %s", session_id, error)
        failed = str(error)
    except Exception as error:
        # Whoever asked is told, whatever it was.
        log.exception("%s could not be taken over", session_id)
        failed = f"{type(error).__name__}: {error}"[:500]
    tip = await db.get_compression_tip(session_id)  # a hand-off moves on with its conversation
    if failed is None:
        await db.complete_handoff(tip)
    else:
        await db.fail_handoff(tip, failed)
    return failed is None


async def _bind(runner: GatewayRunner, session_id: str, name: str) -> None:
    platform = _platform(runner, name)
    if platform is None:
        raise HandoffError(f"{name!r} is not set up in this gateway; see platforms in config.yaml.")
    if platform not in runner.adapters:
        raise HandoffError(f"{name} is not connected. `hermes gateway status` says why.")
    source = home_chat(runner, platform)
    if source is None:
        raise HandoffError(f"{name} has no home chat. Write /sethome in the chat it is to be.")
    if source.user_id and not await runner.authorization.admits(source):
        raise HandoffError(f"Whose home chat that of {name} is may no longer talk here.")
    store = runner.session_store
    key = store._generate_session_key(source)
    entry = store.get_or_create_session(source)
    # A turn in the home chat ends in its own conversation first.
    async with runner.turns.conversations.turn(
        key, lambda: store.peek_session_id(key) or entry.session_id
    ):
        tip = runner._session_db.sync.get_compression_tip(session_id)
        if store.peek_session_id(key) != tip:
            await runner.switch_chat(key, tip, source)
            runner._evict_cached_agent(key)
        store.mark_linked(key)
        runner.authorization.keep_wall(tip, source)
    said = await _introduction(runner, tip)
    count = len(await runner._session_db.get_messages(tip))
    # Asked for again later, it is told again; after a start in the middle of it, it is not.
    await runner.delivery.say(source, key, said, name=f"handoff:{tip}:{count}:{key}")
    log.info("%s goes on in %s", tip, key)


async def _introduction(runner: GatewayRunner, session_id: str) -> str:
    """Which conversation goes on, and what was said last in it."""
    from hermes_state import plain_text

    title = await runner._session_db.get_session_title(session_id)
    messages = await runner._session_db.get_messages(session_id)
    said = [
        f"{'You' if one['role'] == 'user' else 'I'}: {' '.join(text.split())[:LINE_LENGTH]}"
        for one in messages
        if one["role"] in ("user", "assistant") and (text := plain_text(one["content"] or ""))
    ]
    lines = [f"📥 This conversation goes on here: {title or session_id}", *said[-LAST_LINES:]]
    return "\n".join(lines)


def _platform(runner: GatewayRunner, name: str) -> Platform | None:
    return next((one for one in runner.config.platforms if one.value == name), None)


def _is_connecting(runner: GatewayRunner, name: str) -> bool:
    platform = _platform(runner, name)
    if platform is None or platform in runner.adapters:
        return False
    return runner.config.platforms[platform].enabled


def _home_key(platform: Platform) -> str:
    return f"home_chat:{platform.value}"
