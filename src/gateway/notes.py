"""What chats are told without anybody having asked, as turns of their own.

The end of a background process, the result of background work, a message that came too late for the
turn it was meant for: the store keeps them (`hermes_state.notes`). A turn that runs takes them; for
a conversation in which none runs, this begins one in its chat.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from .config import Platform
from .pipeline import Inbound
from .platforms.base import MessageEvent
from .platforms.registry import capabilities_of

if TYPE_CHECKING:
    from .run import GatewayRunner

AGAIN_SECONDS = 30.0
"""Between two turns of a chat that nobody asked for."""


async def look(runner: GatewayRunner, platforms: Collection[Platform]) -> int:
    """Begin a turn in every idle chat that has something to be told; returns how many.

    An API client is told with its next request: there is nobody to answer before.
    """
    from agent.leftovers import end_lost_tasks

    db = runner._session_db
    await asyncio.to_thread(end_lost_tasks, db.sync)
    begun = 0
    for session_id in await db.list_noted():
        tip = await db.get_compression_tip(session_id)
        entry = runner.session_store.lookup_by_session_id(tip)
        source = entry.origin if entry is not None else None
        if entry is None or source is None or source.platform not in platforms:
            continue
        if not capabilities_of(source.platform.value).pushes:
            continue
        if not await runner.authorization.admits(source):
            continue  # whoever may no longer talk here is told nothing either
        if time.monotonic() < runner.turns.told.get(entry.session_key, 0.0):
            continue
        name = f"note:{entry.session_key}:{os.urandom(6).hex()}"
        inbound = Inbound(MessageEvent("", source), entry.session_key, name, is_noted=True)
        if runner.turns.tell(entry.session_key, inbound):
            # If it fails before it has taken the notes, that must not be tried all the time.
            runner.turns.told[entry.session_key] = time.monotonic() + AGAIN_SECONDS
            begun += 1
    return begun
