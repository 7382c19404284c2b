"""Moves chats between conversations: new, switched, left; plugins and event hooks are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import at_hand

from . import boundaries
from .agent_cache import PENDING
from .session_store import sharing

if TYPE_CHECKING:
    from conversation.event_hooks import EventHooks
    from hermes_state import AsyncSessionDB, SessionDB

    from .platforms.base import MessageEvent
    from .session import SessionSource
    from .session_store import SessionStore

RESET = "✨ New session. What we said before is kept; /resume brings it back."


class ChatSessions:
    """Moves chats between conversations."""

    def __init__(
        self, store: SessionStore, db: AsyncSessionDB, evict: Callable[[str], None]
    ) -> None:
        """`evict` lets a chat's agent go."""
        self._store, self._db = store, db
        self.evict = evict

    async def switch_chat(self, session_key: str, session_id: str, source: SessionSource) -> None:
        """Bind a chat to another conversation; the caller has checked whose it is."""
        store = self._store
        old_id = store.peek_session_id(session_key)
        await self._db.at_hand(store.get_or_create_session, source)
        session_entry = await self._db.at_hand(store.switch_session, session_key, session_id)
        if session_entry is None:
            raise ValueError(f"There is no session {session_id}.")
        if old_id and store.is_shared(session_key, old_id):
            old_id = None  # it goes on in other chats
        await boundaries.session_replaced(old_id, session_entry.session_id, source.platform.value)

    async def leave_conversation(self, session_key: str, source: SessionSource) -> None:
        """Give a chat a conversation of its own; the one it was in goes on in the others."""
        session_entry = await self._db.at_hand(self._store.reset_session, session_key)
        self.evict(session_key)
        if session_entry is not None:
            platform = source.platform.value
            await boundaries.session_replaced(None, session_entry.session_id, platform)


async def reset_chat(
    store: SessionStore,
    db: SessionDB | None,
    running: Mapping[str, Any],
    evict: Callable[[str], None],
    hooks: EventHooks | None,
    event: MessageEvent,
) -> str:
    """End a chat's session and begin a new one; returns what the chat is told. `running` has the
    agents whose turns run."""
    key = store._generate_session_key(event.source)
    old_entry = store._entries.get(key)
    old_id = old_entry.session_id if old_entry else None
    agent = running.get(key)
    if agent is not None and agent is not PENDING:
        agent.interrupt()
    new_entry = await at_hand(db, store.reset_session, key)
    if new_entry is None:
        new_entry = await at_hand(db, store.get_or_create_session, event.source, force_new=True)
    evict(key)
    platform = event.source.platform.value
    is_left = old_id and sharing(store._entries, key, old_id)
    await boundaries.session_replaced(None if is_left else old_id, new_entry.session_id, platform)
    if hooks is not None:
        facts = {"platform": platform, "user_id": event.source.user_id, "session_key": key}
        await hooks.emit("session:end", facts)
        await hooks.emit("session:reset", facts)
    return RESET
