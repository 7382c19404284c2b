"""After a crash: abandoned turns are resumed a few at a time, so that each makes progress.

If hundreds are resumed at once and the gateway is killed again soon, none has made progress; after
a few such attempts a turn counts as the cause of the crashes. One that waits here is not taken over
yet, and so is not counted. The place is given back at the first sign of life, so that slow models
hold nobody up for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future

from agent.events import Event, ReplyFinished, TextStreamed, ToolFinished, Watcher

AT_ONCE = 16
SECONDS = 2.0
"""After so long without a sign of life, the next one begins."""


class Pace:
    """The places of turns that begin; for any number of event loops, each in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.free = AT_ONCE
        self._waiting: deque[Future[None]] = deque()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[Callable[[], None]]:
        """Have a place until the end, or until what is yielded is called, from any thread."""
        loop = asyncio.get_running_loop()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._release()

        def alive() -> None:
            if held:
                loop.call_soon_threadsafe(give_back)

        await self._acquire()
        timer = loop.call_later(SECONDS, give_back)
        try:
            yield alive
        finally:
            timer.cancel()
            give_back()

    async def _acquire(self) -> None:
        with self._lock:
            if self.free:
                self.free -= 1
                return
            place: Future[None] = Future()
            self._waiting.append(place)
        try:
            await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            if not place.cancel():
                self._release()  # it was given in the same moment
            raise

    def _release(self) -> None:
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    place.set_result(None)
                    return
            self.free += 1


def watch_progress(alive: Callable[[], None]) -> Watcher:
    """A watcher that calls `alive` when the turn progresses: a word of the model, a tool's end."""

    def watch(event: Event) -> None:
        if isinstance(event, (TextStreamed, ReplyFinished, ToolFinished)):
            alive()

    return watch
