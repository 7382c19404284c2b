"""Turns for notes: what chats are told without anybody having asked.

The end of a background process, the result of background work, a message that came too late for the
turn it was meant for: the store keeps them (`hermes_state.notes`). A turn that runs takes them; for
a conversation in which none runs, this begins one in its chat.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_state.goals import ACTIVE, step_id

from .config import Platform
from .pipeline import Inbound
from .platforms.base import MessageEvent
from .platforms.registry import capabilities_of

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .authorization import Authorization
    from .chat_turns import ChatTurns
    from .session import SessionSource
    from .session_store import SessionStore

_RANKS = {"member": 1, "operator": 2}
AGAIN_SECONDS = 30.0
"""Between two such turns of a chat."""


@dataclass(frozen=True, slots=True)
class NoteTurns:
    """Begins turns for waiting notes."""

    db: AsyncSessionDB
    store: SessionStore
    authorization: Authorization
    turns: ChatTurns
    resting_until: dict[str, float] = field(default_factory=dict)
    """By key: until when no further such turn is begun."""
    steps: dict[str, str] = field(default_factory=dict)
    """By key: the step of its goal that was begun last; the next one need not rest."""

    async def look(self, platforms: Collection[Platform]) -> int:
        """Begin a turn in every idle chat with waiting notes; returns how many.

        An API client is told with its next request: there is nobody to answer before.
        """
        from agent.abandoned_work import end_abandoned_tasks
        from agent.goals import advance_stalled

        await asyncio.to_thread(end_abandoned_tasks, self.db.sync)
        await self.db.at_hand(advance_stalled, self.db.sync)
        begun = 0
        for session_id in await self.db.list_noted():
            tip = await self.db.get_compression_tip(session_id)
            chat = await self._chat_of(tip, platforms)
            if chat is None:
                continue
            key, source = chat
            step = await self.db.at_hand(self._goal_step, tip)
            is_new_step = bool(step) and step != self.steps.get(key)
            if time.monotonic() < self.resting_until.get(key, 0.0) and not is_new_step:
                continue
            name = f"note:{key}:{os.urandom(6).hex()}"
            inbound = Inbound(MessageEvent("", source), key, name, is_noted=True)
            if await self.turns.tell(key, inbound):
                # If the turn fails before it has taken the notes, it must not be retried all the
                # time.
                self.resting_until[key] = time.monotonic() + AGAIN_SECONDS
                self.steps[key] = step
                begun += 1
        return begun

    async def _chat_of(
        self, tip: str, platforms: Collection[Platform]
    ) -> tuple[str, SessionSource] | None:
        """The chat in which a conversation's notes begin a turn, and whose turn that is: of the
        person for whom they were made, though others share the conversation. None if there is no
        such chat here."""
        entries = [
            (entry.session_key, entry.origin)
            for entry in self.store.list_bound(tip)
            if entry.origin is not None
            and entry.origin.platform in platforms
            and capabilities_of(entry.origin.platform.value).pushes
        ]
        if not entries:
            return None
        owners = await self.db.note_owners(tip)
        askers: list[tuple[str, SessionSource]] = []
        for key, origin in entries:
            # Whoever may no longer talk here is told nothing either.
            if await self.authorization.admits(origin) and (not owners or origin.owner in owners):
                askers.append((key, origin))
            elif owners and origin.chat_type != "dm":
                askers += [(key, member) for member in await self._members(origin, owners)]
        # Of several whose notes wait at once, whoever may do least.
        return min(askers, key=self._rank, default=None)

    async def _members(self, origin: SessionSource, owners: set[str]) -> list[SessionSource]:
        """Those of some persons who have an account on a group's platform, as if they wrote."""
        kind = origin.platform.value
        members: list[SessionSource] = []
        for owner in sorted(owners):
            for door in await self.db.at_hand(self.db.sync.list_doors, owner):
                platform, _, account = door.partition(":")
                member = dataclasses.replace(
                    origin, user_id=account, user_id_alt=None, user_name=None, person=None
                )
                if platform == kind and await self.authorization.admits(member):
                    members.append(member)
                    break
        return members

    def _rank(self, asker: tuple[str, SessionSource]) -> int:
        key, source = asker
        return _RANKS.get(self.authorization.access(source, key).role, 0)

    def _goal_step(self, session_id: str) -> str:
        """The step that the goal of a conversation is at; empty without one that goes on."""
        goal = self.db.sync.get_goal(session_id)
        return step_id(goal) if goal is not None and goal["status"] == ACTIVE else ""
