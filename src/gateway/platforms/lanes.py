"""What comes in, one after the other in each chat: for adapters whose library hands in as it likes.

A lane is a queue with a worker. What a lane does takes as long as it takes: other chats go on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from hermes_state import StoreError

from .base import MessageEvent, OnMessage

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
ATTEMPTS = 3
"""At a message that cannot be stored although the store is well."""
MOST_WAITING = 1000
"""In one lane."""

Work = Callable[[], Awaitable[None]]


class Lanes:
    """Queues of work by chat, each emptied in order."""

    def __init__(self, more: Callable[[str], Work | None] = lambda chat: None) -> None:
        """`more` is asked for further work when a chat's lane is empty."""
        self._more = more
        self._waiting: dict[str, deque[Work]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits anywhere."""
        return not self._waiting

    def put(self, chat: str, work: Work) -> bool:
        """Have something done behind what waits in a chat; False if too much waits there."""
        waiting = self._waiting.get(chat)
        if waiting is None:
            waiting = self._waiting[chat] = deque()
            task = asyncio.ensure_future(self._empty(chat, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif len(waiting) >= MOST_WAITING:
            return False
        waiting.append(work)
        return True

    async def stop(self) -> None:
        """Drop what waits."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._waiting.clear()

    async def _empty(self, chat: str, waiting: deque[Work]) -> None:
        while waiting:
            try:
                await waiting[0]()
            except Exception:
                # Whatever one message meets must not keep all others out.
                log.exception("Something in the chat %s could not be taken", chat)
            waiting.popleft()
            if not waiting and (work := self._more(chat)) is not None:
                waiting.append(work)
        if self._waiting.get(chat) is waiting:
            del self._waiting[chat]


async def hand_in(on_message: OnMessage, event: MessageEvent) -> bool:
    """Have a message stored, however long the store takes to be well again; False if it never can
    be, although the store is well."""
    pause = FIRST_PAUSE
    for attempt in itertools.count(1):
        try:
            await on_message(event)
            return True
        except Exception as error:
            # A fault that only this one message meets must not keep all others out.
            passing = isinstance(error, StoreError | OSError)
            if attempt >= ATTEMPTS and (not passing or isinstance(error, ValueError)):
                log.exception("%s is given up", event.message_id)
                return False
            log.warning("%s waits: %s", event.message_id, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    raise AssertionError("unreachable")
