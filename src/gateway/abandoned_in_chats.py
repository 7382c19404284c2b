"""Abandoned turns: found, taken over, and resumed in the chat they belong to.

They are looked for when a platform is connected, every few seconds after that, and before a message
begins in their conversation. A turn is taken over only by the worker that holds its conversation's
place here, and runs as that chat's turn; messages that came meanwhile are answered after it. A turn
that this process runs itself is never taken for abandoned, however long the process was suspended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.request import TakenOver
from agent.running import unknown_outcome
from conversation import abandoned
from conversation.door import Abandoned
from conversation.jobs import find_occurrence
from hermes_state import person_of

from .config import GatewayConfig, Platform
from .pipeline import Inbound
from .platforms.base import MessageEvent
from .platforms.registry import capabilities_of
from .session import SessionEntry, SessionSource
from .session_store import RESET_REASON, SessionStore

if TYPE_CHECKING:
    from agent.config import Config
    from conversation.service import Conversations
    from hermes_state import AsyncSessionDB, TakenTurn

    from .authorization import Authorization
    from .delivery import Delivery

log = logging.getLogger(__name__)


class AbandonedTurn(NamedTuple):
    """An abandoned turn, and the chat it belongs to."""

    row: Mapping[str, Any]
    """As `list_abandoned_turns` found it."""
    key: str
    source: SessionSource
    deliver_to: dict[str, Any]

    @property
    def session_id(self) -> str:
        """A session of its conversation."""
        return str(self.row["session_id"])


@dataclass(frozen=True, slots=True)
class AbandonedTurns:
    """The abandoned turns of this gateway's chats."""

    db: AsyncSessionDB
    store: SessionStore
    config: GatewayConfig
    settings: Config
    conversations: Conversations
    authorization: Authorization
    delivery: Delivery
    spawn: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]]

    # Finding them

    async def look(
        self, platforms: Collection[Platform], begin: Callable[[AbandonedTurn], bool]
    ) -> int:
        """Let the chats of these platforms `begin` with their abandoned turns; returns how many do.
        Turns for whose answer nobody waits are closed: an API client asks again.
        """
        begun, conversations = 0, self.conversations
        for row in await asyncio.to_thread(abandoned.list_to_resume, self.db.sync):
            if conversations.is_ours(row) or await self._is_run_here(row):
                continue
            if await self.db.at_hand(find_occurrence, self.db.sync, row) is not None:
                continue  # the scheduler's
            api = row["source"] == Platform.API_SERVER and not row["deliver_to"]
            if api and Platform.API_SERVER in platforms:
                await asyncio.to_thread(abandoned.close_turn, self.db.sync, row)
            elif not api:
                turn = await self.db.at_hand(self.chat_of, row)
                if turn is not None and turn.source.platform in platforms:
                    begun += begin(turn)
        return begun

    async def _is_run_here(self, row: Mapping[str, Any]) -> bool:
        holder = await self.db.at_hand(self.conversations.holder, str(row["session_id"]))
        return holder is not None

    def chat_of(self, row: Mapping[str, Any]) -> AbandonedTurn | None:
        """An abandoned turn with the chat it belongs to; None if that is no chat of this gateway.

        A chat that waits for the answer is named with the turn. Without one it is the chat whose
        conversation this is.
        """
        target = row["deliver_to"]
        key = str((target["to"]["session_key"] if target else row["session_key"]) or "")
        entry = self.store.entry(key)
        try:
            platform = Platform.of(str(target["to"]["platform"] if target else row["source"]))
        except ValueError:
            return None
        if platform not in self.config.platforms:
            return None
        origin = entry.origin if entry is not None else None
        if target is None:
            names = self.conversations.places
            if entry is None or origin is None or origin.platform is not platform:
                return None
            if names.name(entry.session_id) != row["conversation_id"]:
                return None
            to = {
                "session_key": key, "platform": platform.value, "chat_id": origin.chat_id,
                "thread_id": origin.thread_id,
            }  # fmt: skip
            target = {"id": f"turn:{row['conversation_id']}:{row['started_at']}", "to": to}
        elif origin is None or origin.platform is not platform:
            doors = self.db.sync.list_doors(person_of(row["user_id"]))
            prefix = f"{platform.value}:"
            accounts = [door.removeprefix(prefix) for door in doors if door.startswith(prefix)]
            to = target["to"]
            origin = SessionSource(
                platform, to["chat_id"], thread_id=to.get("thread_id"),
                user_id=next(iter(accounts), None),
                role_authorized=capabilities_of(platform.value).signed,
            )  # fmt: skip
        return AbandonedTurn(row, key, origin, target)

    # Taking them over

    async def take(self, turn: Abandoned) -> Inbound | None:
        """Take a turn over, as what its chat runs next; None if it is not resumed.

        A turn that is not resumed is closed, and its chat is told if it waits for an answer: not
        where it was left with /new, or where whoever asked may no longer talk here.
        """
        chat_turn = await self.db.at_hand(self.chat_of, turn.row)
        if chat_turn is None:
            return None
        db = self.db.sync
        session_id = await self.db.at_hand(db.get_compression_tip, chat_turn.session_id)
        tip = await self.db.get_session(session_id)
        asked = await self.db.get_last_question(session_id)
        source = chat_turn.source
        is_left = tip is not None and tip["end_reason"] == RESET_REASON
        if is_left or not await self.authorization.admits(source):
            await asyncio.to_thread(abandoned.close_turn, db, chat_turn.row)
            return None
        settings, workspace = self.settings.agent, self.settings.replicas.workspace
        taken = await asyncio.to_thread(
            abandoned.take_over_turn, db, chat_turn.row, settings, workspace
        )
        if taken is None:
            self.spawn(self.delivery.flush(chat_turn.key))  # the notice that it was closed
            return None
        taken = taken._replace(deliver_to=chat_turn.deliver_to)
        target = TakenOver(taken).deliver_to
        assert target is not None
        return Inbound(
            MessageEvent(asked[0], source, asked[1]), chat_turn.key, target.id, taken=taken
        )

    async def tell_unknown(self, inbound: Inbound) -> None:
        """Tell a chat which tools of its turn may or may not have taken effect, each crash once."""
        taken = inbound.taken
        if taken is None or taken.deliver_to is None:
            return
        # Also what an earlier process took over and was killed before it could tell.
        first = taken.lease.fence - taken.attempts + 1
        by_fence: dict[int, list[str]] = defaultdict(list)
        for run in await self.db.list_tool_runs(taken.lease.conversation_id):
            if run["state"] == "unknown" and run["fence"] >= first:
                by_fence[run["fence"]].append(run["tool_name"])
        for fence, tools in by_fence.items():
            await self.delivery.say(
                inbound.event.source, inbound.session_key, unknown_outcome(tools),
                name=f"{taken.deliver_to['id']}:unknown:{fence}",
            )  # fmt: skip

    def entry_of(self, inbound: Inbound, taken: TakenTurn) -> SessionEntry:
        """The chat's entry, in the session the turn is in; a passing one if the chat has left
        it."""
        store, names = self.store, self.conversations.places
        key, source = inbound.session_key, inbound.event.source
        entry = store.entry(key)
        if entry is not None and names.name(entry.session_id) == taken.lease.conversation_id:
            if entry.session_id != taken.session_id:
                store.follow(entry.session_id, taken.session_id)
            store.update_session(key)  # it is in use
            return entry
        now = datetime.now()
        return SessionEntry(
            key, taken.session_id, now, now, platform=source.platform,
            chat_type=source.chat_type, origin=source,
        )  # fmt: skip
