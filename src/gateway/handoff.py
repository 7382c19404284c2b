"""Conversations that were asked for on a platform go on in its home chat.

A request is a fact of the store, so it may be made while no gateway runs. It is claimed by exactly
one process, and ends as completed or failed with a reason. Claims of a gateway that is gone are
continued by another: binding is idempotent, and the chat is notified once under one name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_state import person_of, plain_text

from .config import GatewayConfig, Platform
from .session import SessionSource

if TYPE_CHECKING:
    from conversation.places import TurnPlaces
    from hermes_state import AsyncSessionDB, SessionDB

    from .authorization import Authorization
    from .delivery import Delivery
    from .session_store import SessionStore

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
PACE_SECONDS = 0.25
"""Between two looks in a store that is written to all the time."""
CONNECT_SECONDS = 30.0
"""How long a request waits for a platform that is set up and not connected."""
LAST_LINES = 4
LINE_LENGTH = 300
_NO_HOME = "{} has no home chat of yours. Write /sethome in the chat it is to be."


class HandoffError(Exception):
    """A conversation that cannot be taken over; the message says why."""


def set_home(db: SessionDB, source: SessionSource) -> str:
    """Make a chat its platform's home chat."""
    kept = {**source.to_dict(), "message_id": None}
    db.set_meta(_home_key(source.platform), json.dumps(kept))
    name = source.platform.value
    return f"🏠 This is the home chat of {name} now: /handoff {name} in the terminal goes on here."


class Handoffs:
    """Takes over what is asked for: each conversation goes on in the home chat of its platform."""

    def __init__(
        self,
        db: AsyncSessionDB,
        store: SessionStore,
        config: GatewayConfig,
        adapters: Container[Platform],
        authorization: Authorization,
        delivery: Delivery,
        conversations: TurnPlaces,
        switch_chat: Callable[[str, str, SessionSource], Awaitable[None]],
        evict: Callable[[str], None],
        is_elsewhere: Callable[[Platform], bool] = lambda platform: False,
    ) -> None:
        """`adapters` has the platforms that are connected; `evict` lets a chat's agent go;
        `is_elsewhere` says whether a platform's chats are another gateway's."""
        self._db = db
        self._store = store
        self._config = config
        self._adapters = adapters
        self._authorization = authorization
        self._delivery = delivery
        self._conversations = conversations
        self._switch_chat = switch_chat
        self._evict = evict
        self._is_elsewhere = is_elsewhere
        self._waiting: dict[str, float] = {}
        """Since when a platform that is not connected is waited for."""

    async def watch(self, is_running: Callable[[], bool]) -> None:
        """Take over what is asked for, until the gateway stops."""
        is_first = True
        wake = self._db.wake
        while is_running():
            seen = wake.number
            try:
                await self._go_on(with_own=is_first)
                is_first = False
                await self.take_all()
            except Exception:
                # A round that fails must not be the last one.
                log.exception("Looking for conversations to take over failed")
            await wake.wait_async(seen, LOOK_SECONDS, PACE_SECONDS)

    async def take_all(self) -> int:
        """Take over every conversation that waits; returns how many."""
        db, waiting = self._db, self._waiting
        rows = await db.list_pending_handoffs()
        for gone in waiting.keys() - {row["id"] for row in rows}:
            del waiting[gone]
        taken = 0
        for row in rows:
            session_id, name = row["id"], str(row["handoff_platform"] or "")
            platform = self._platform(name)
            if platform is not None and self._is_elsewhere(platform):
                continue
            since = waiting.setdefault(session_id, time.monotonic())
            if self._is_connecting(name) and time.monotonic() - since < CONNECT_SECONDS:
                continue
            if await db.claim_handoff(session_id):
                taken += await self._take(session_id, name)
        return taken

    def home_chat(self, platform: Platform) -> SessionSource | None:
        """A platform's home chat: the one /sethome was said in, else `home_channel` of its
        section."""
        kept = self._db.sync.get_meta(_home_key(platform))
        if kept:
            try:
                return SessionSource.from_dict(json.loads(kept))
            except (ValueError, KeyError, TypeError) as error:
                log.warning("The home chat of %s cannot be read: %s", platform.value, error)
        config = self._config.platforms.get(platform)
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

    async def _go_on(self, *, with_own: bool) -> None:
        """Finish claims of gateways that are gone, where their platform is connected here.

        `with_own`: also what this process had, before it executed itself again.
        """
        for row in await self._db.list_abandoned_handoffs(with_own):
            name = str(row["handoff_platform"])
            if self._is_connecting(name):
                continue
            if await self._db.take_over_handoff(row["id"], row["handoff_owner"]):
                await self._take(row["id"], name)

    async def _take(self, session_id: str, name: str) -> bool:
        failed = None
        try:
            await self._bind(session_id, name)
        except HandoffError as error:
            log.warning("%s is not taken over: %s", session_id, error)
            failed = str(error)
        except Exception as error:
            # Whatever it was, the person who asked is told.
            log.exception("%s could not be taken over", session_id)
            failed = f"{type(error).__name__}: {error}"[:500]
        # A hand-off moves on with its conversation.
        tip = await self._db.get_compression_tip(session_id)
        if failed is None:
            await self._db.complete_handoff(tip)
        else:
            await self._db.fail_handoff(tip, failed)
        return failed is None

    async def _bind(self, session_id: str, name: str) -> None:
        source, store = await self._home_of(name), self._store
        await self._require_own(session_id, source, name)
        key = store.key_of(source)
        entry = await self._db.at_hand(store.get_or_create_session, source)
        # A turn in the home chat ends in its own conversation first.
        async with self._conversations.turn(
            key, lambda: store.peek_session_id(key) or entry.session_id
        ):
            tip = await self._db.get_compression_tip(session_id)
            if store.peek_session_id(key) != tip:
                await self._switch_chat(key, tip, source)
                self._evict(key)
            if source.person is not None:  # whoever has the chat finds it there again
                await self._db.give_conversation(tip, source.person.id)
            await self._db.at_hand(store.mark_linked, key)
            await self._db.at_hand(self._authorization.keep_wall, tip, source)
        messages = await self._db.get_messages(tip)
        said = introduction(await self._db.get_session_title(tip) or tip, messages)
        # Asked for again later, it is told again; after a start in the middle of it, it is not.
        await self._delivery.say(source, key, said, name=f"handoff:{tip}:{len(messages)}:{key}")
        log.info("%s goes on in %s", tip, key)

    async def _home_of(self, name: str) -> SessionSource:
        """The home chat of a platform that can be written to now. Raises HandoffError."""
        platform = self._platform(name)
        if platform is None:
            raise HandoffError(
                f"{name!r} is not set up in this gateway; see platforms in config.yaml."
            )
        if platform not in self._adapters:
            raise HandoffError(f"{name} is not connected. `hermes gateway status` says why.")
        source = await self._db.at_hand(self.home_chat, platform)
        if source is None:
            raise HandoffError(_NO_HOME.format(name))
        if source.user_id and not await self._authorization.admits(source):
            raise HandoffError(f"Whose home chat that of {name} is may no longer talk here.")
        return source

    async def _require_own(self, session_id: str, home: SessionSource, name: str) -> None:
        """Return if whose conversation it is may bring it into a home chat: their own, or as an
        operator. What is said in it would be read, and gone on with, by whoever has that chat."""
        row = await self._db.get_session(session_id)
        owner = person_of(None if row is None else row["user_id"])
        person = await self._db.at_hand(self._db.sync.get_person, owner)
        is_own = home.person is not None and home.person.id == owner
        if not is_own and not (person is not None and person.is_operator):
            raise HandoffError(_NO_HOME.format(name))

    def _platform(self, name: str) -> Platform | None:
        return next(
            (platform for platform in self._config.platforms if platform.value == name), None
        )

    def _is_connecting(self, name: str) -> bool:
        platform = self._platform(name)
        if platform is None or platform in self._adapters:
            return False
        return self._config.platforms[platform].enabled


def introduction(title: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Which conversation goes on, and what was said last in it."""
    said = [
        f"{'You' if message['role'] == 'user' else 'I'}: {' '.join(text.split())[:LINE_LENGTH]}"
        for message in messages
        if message["role"] in ("user", "assistant")
        and (text := plain_text(message["content"] or ""))
    ]
    return "\n".join([f"📥 This conversation goes on here: {title}", *said[-LAST_LINES:]])


def _home_key(platform: Platform) -> str:
    return f"home_chat:{platform.value}"
