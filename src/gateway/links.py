"""One conversation in several chats: joined with a code, left with /unlink, seen by all of them.

Each chat keeps its own entry; those of one conversation name the same session and follow it
together. Whoever asks is answered in their chat; the others see question and answer, marked
(`conversation.mirror`).
Nobody gets into a conversation without a code that was given in one of its own direct chats.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes_state import NOBODY, is_owned

from .link_codes import LinkCodeError, offer_code, take_code
from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from conversation.service import Conversations
    from hermes_state import AsyncSessionDB, SessionDB

    from .authorization import Authorization
    from .chat_sessions import ChatSessions
    from .delivery import Delivery
    from .session_store import SessionStore

log = logging.getLogger(__name__)


class Links:
    """The chats of one conversation: how they get in and out, and what they see of each other."""

    def __init__(
        self,
        store: SessionStore,
        db: AsyncSessionDB,
        conversations: Conversations,
        authorization: Authorization,
        delivery: Delivery,
        chats: ChatSessions,
    ) -> None:
        self._store = store
        self._db = db
        self._conversations = conversations
        self._authorization = authorization
        self._delivery = delivery
        self._chats = chats

    async def offer(self, key: str, source: SessionSource) -> str:
        """A code for the chat's conversation, with what to do with it. Raises LinkCodeError."""
        if source.chat_type != "dm":
            raise LinkCodeError("Everybody here would read the code. Write /link to me directly.")
        owner = _owner(source)
        entry = await self._db.at_hand(self._store.get_or_create_session, source)
        if await self._db.at_hand(is_anothers, self._db.sync, entry, source):
            raise LinkCodeError("Only whose conversation it is can let others in; /new begins one.")
        code = await offer_code(self._db, key, entry.session_id, owner)
        return (
            f"Write this in the other chat, within ten minutes:\n/link {code}\n"
            "Whoever does so reads and writes in this conversation; the code works once."
        )

    async def join(self, key: str, source: SessionSource, code: str) -> str:
        """Bind a chat to the conversation that a code stands for. Raises LinkCodeError."""
        store = self._store
        if self._conversations.is_busy(key):
            raise LinkCodeError("An answer is being written here. Wait for it, or /stop it first.")
        taken = await take_code(self._db, code, _owner(source))
        if taken.session_key == key:
            raise LinkCodeError("This is the chat the code is from. Write it in the other one.")
        await self._db.at_hand(store.refresh)  # the other chat may be another gateway's
        first = store.entry(taken.session_key)
        if first is None or not await self._are_one(first.session_id, taken.session_id):
            raise LinkCodeError(
                "The other chat has left that conversation. Write /link there again."
            )
        mine = await self._db.at_hand(store.get_or_create_session, source)
        if mine.linked and await self._are_one(mine.session_id, first.session_id):
            return "This chat is in that conversation already."
        if first.origin is not None:
            await self._authorization.identify(first.origin)
            await self._db.at_hand(_begin, self._db.sync, first, first.origin)
        await self._chats.switch_chat(key, first.session_id, source)
        await self._db.at_hand(store.mark_linked, key)
        await self._db.at_hand(store.mark_linked, taken.session_key)
        self._chats.evict(key)
        await self._db.at_hand(self._authorization.keep_wall, first.session_id, source)
        log.info("%s was linked to the conversation of %s", key, taken.session_key)
        if first.origin is not None:
            await self._delivery.say(
                first.origin,
                first.session_key,
                f"🔗 {_who(source)} is in this conversation now. /unlink all ends that.",
            )
        return (
            "🔗 This chat is in the same conversation now: what is said in one is seen in all of"
            " them. /unlink gives it one of its own again."
        )

    async def _are_one(self, session_id: str, other_id: str) -> bool:
        """Whether two sessions are of one conversation."""
        names = self._conversations.places
        return await names.find_name(session_id) == await names.find_name(other_id)

    async def leave(self, key: str, source: SessionSource, everybody: bool) -> str:
        """Give a chat a conversation of its own again, or send all others out of this one."""
        entry = self._store.entry(key)
        others = self._store.linked_with(entry.session_id, key) if entry else []
        if entry is None or not entry.linked or not others:
            return "This chat is not linked to another one."
        if not everybody:
            await self._chats.leave_conversation(key, source)
            await self._tell(others, f"🔗 {_who(source)} has left this conversation.")
            return "This chat has a conversation of its own again."
        if await self._db.at_hand(is_anothers, self._db.sync, entry, source):
            raise LinkCodeError(
                "Only whose conversation it is can send the others out; /unlink works."
            )
        for other in others:
            await self._chats.leave_conversation(other.session_key, other.origin or source)
        await self._tell(others, "🔗 The link was ended. This chat has a conversation of its own.")
        return f"{len(others)} chat(s) are no longer in this conversation."

    async def _tell(self, entries: list[SessionEntry], text: str) -> None:
        for entry in entries:
            if entry.origin is not None:
                await self._delivery.say(entry.origin, entry.session_key, text)


def is_anothers(db: SessionDB, entry: SessionEntry, source: SessionSource) -> bool:
    """Whether a chat was let into the conversation that it is in: it is another person's."""
    row = db.get_session(entry.session_id) if entry.linked else None
    return row is not None and not is_owned(row, source.owner or NOBODY)


async def may_see(store: SessionStore, authorization: Authorization, key: str) -> bool:
    """Whether a chat is still linked, or follows what is its person's, and that person may still
    talk here: whoever is shut out reads nothing more either."""
    entry = store.entry(key)
    if entry is None or entry.origin is None or not (entry.linked or entry.follows):
        return False
    source = entry.origin
    if not await authorization.admits(source):
        return False
    if entry.linked:
        return True
    return source.chat_type == "dm" and await authorization.is_theirs(source, entry.session_id)


def _begin(db: SessionDB, entry: SessionEntry, source: SessionSource) -> None:
    """Give a conversation in which nothing was said its row, so that it stays its owner's."""
    if db.get_session(entry.session_id) is None:
        db.create_session(
            entry.session_id, source.platform.value, user_id=source.owner,
            session_key=entry.session_key, chat_id=source.chat_id, chat_type=source.chat_type,
            thread_id=source.thread_id, display_name=source.chat_name or source.user_name,
        )  # fmt: skip


def _owner(source: SessionSource) -> str:
    if not source.owner:
        raise LinkCodeError("It is not known who you are here, so this chat cannot be linked.")
    return source.owner


def _who(source: SessionSource) -> str:
    return f"{source.user_name or source.user_id or 'Somebody'} ({source.platform.value})"
