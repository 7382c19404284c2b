"""A process of `bench.postgres_stopped`: gateways on one event loop, and how long that is held.

Messages come into chats, and requests to the API, all the while; `begin` starts that, `end` tells
what became of it. Between the two the asking side may stop the server of the store. A thread looks
where the loop is whenever it is late, so that what held it is named.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gateway.config import Platform
from gateway.process import exempt_loaded
from hermes_state import SessionDB
from tests.gateway import chats, serving

from .lines import answer_lines

TICK = 0.001
LATE = 0.005
"""Seconds beyond which the loop counts as held."""
MESSAGE_EVERY, REQUEST_EVERY, LOOK_EVERY = 0.05, 0.5, 0.2


class Ticks:
    """How late a coroutine is that wants to run every millisecond, and how long the loop is held.

    It is held from when it has waited for events until it waits again: by whatever runs in between.
    (A tick may also be late because the machine has no processor for us.)
    """

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.held: list[tuple[float, float]] = []
        """Of each pass of the loop, without collections of garbage: seconds, and what of them it
        was computing."""
        self.places: Counter[str] = Counter()
        self.collections: list[float] = []
        """Seconds of each collection of garbage on the loop's thread."""
        self._collecting = self._collected_in_pass = 0.0
        self._begun: float | None = None
        """When the pass began that the loop is in; None while it waits."""
        self._watched = threading.get_ident()
        self._ended = threading.Event()

    async def tick(self) -> None:
        """Until it is cancelled."""
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select
        threading.Thread(target=self._watch, daemon=True).start()
        selector.select = self._timed(select)
        gc.callbacks.append(self._collected)
        try:
            while True:
                began = time.perf_counter()
                await asyncio.sleep(TICK)
                self.lags.append(time.perf_counter() - began - TICK)
        finally:
            selector.select = select
            gc.callbacks.remove(self._collected)
            self._ended.set()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self._watched:
            return
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            took = time.perf_counter() - self._collecting
            self.collections.append(took)
            self._collected_in_pass += took

    def _timed(self, select: Callable[[float | None], Any]) -> Callable[[float | None], Any]:
        computed = time.thread_time()

        def timed(timeout: float | None) -> Any:
            nonlocal computed
            if self._begun is not None:
                wall = time.perf_counter() - self._begun - self._collected_in_pass
                self.held.append((wall, time.thread_time() - computed))
            self._begun, self._collected_in_pass = None, 0.0
            try:
                return select(timeout)
            finally:
                computed, self._begun = time.thread_time(), time.perf_counter()

        return timed

    def _watch(self) -> None:
        seen: float | None = None
        while not self._ended.wait(TICK):
            begun = self._begun
            if begun is not None and time.perf_counter() - begun > LATE and seen != begun:
                seen = begun
                frame = sys._current_frames().get(self._watched)
                found = traceback.extract_stack(frame)[-8:]
                self.places[" < ".join(_short(one) for one in reversed(found))] += 1


def _short(frame: traceback.FrameSummary) -> str:
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"


class Loops:
    """Gateways on the event loop of one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._open = AsyncExitStack()
        self._numbers = itertools.count()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._answered = self._failed = self._done_before_end = 0
        self._errors: list[str] = []

    def _run(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        future: Future[dict[str, Any]] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def open(self, address: str | None, home: str) -> dict[str, Any]:
        """Start a gateway with chats and one with the API, on a server or on files."""
        return self._run(self._start(address, Path(home)))

    async def _start(self, address: str | None, home: Path) -> dict[str, Any]:
        def opened(path: Path) -> SessionDB:
            return SessionDB(path, server=address)

        for module in (chats, serving):
            module.SessionDB = opened  # type: ignore[attr-defined]
        enter = self._open.enter_async_context
        self._chats = await enter(chats.gateway(home / "chats"))
        self._served = await enter(serving.serving(home / "api"))
        # The first turn loads what is lazy.
        assert await self._chats.ask("before") == "re: before"
        assert (await self._served.chat("before", "first")).status_code == 200
        await exempt_loaded(lambda: True)  # as the process of a gateway does
        return {"url": self._served.url}

    def begin(self) -> dict[str, Any]:
        """Begin with the messages and the ticks."""
        return self._run(self._begin())

    async def _begin(self) -> dict[str, Any]:
        self._ticks = Ticks()
        self._ticking = asyncio.create_task(self._ticks.tick())
        self._coming = [
            asyncio.create_task(self._come(self._message, MESSAGE_EVERY)),
            asyncio.create_task(self._come(self._request, REQUEST_EVERY)),
        ]
        self._first = next(self._numbers)
        return {}

    async def _come(self, one: Callable[[], Coroutine[Any, Any, None]], every: float) -> None:
        while True:
            task = asyncio.create_task(one())
            self._waiting.add(task)
            task.add_done_callback(self._end_one)
            await asyncio.sleep(every)

    def _end_one(self, task: asyncio.Task[Any]) -> None:
        self._waiting.discard(task)
        self._done_before_end += 1
        if task.exception() is None:
            self._answered += 1
        else:
            self._failed += 1
            self._errors.append(repr(task.exception())[:300])

    async def _message(self) -> None:
        """A message, held by its platform until a gateway is connected: one whose server is silent
        for as long as half a lease gives its platforms up, and takes them again."""
        chat_id = f"chat-{next(self._numbers)}"
        adapters = self._chats.runner.adapters
        while (adapter := adapters.get(Platform.LOCAL)) is None:
            await asyncio.sleep(LOOK_EVERY)
        await adapter.receive("during", chat_id=chat_id)
        deadline = time.monotonic() + 60
        seen = {adapter}
        while not any(one.texts(chat_id) for one in seen):
            assert time.monotonic() < deadline, f"no answer in {chat_id}"
            await asyncio.sleep(LOOK_EVERY)
            seen |= {adapters[Platform.LOCAL]} if Platform.LOCAL in adapters else set()
        assert [one for known in seen for one in known.texts(chat_id)] == ["re: during"]

    async def _request(self) -> None:
        answer = await self._served.chat("during", f"request-{next(self._numbers)}")
        assert answer.status_code == 200, answer.text

    def pause(self) -> dict[str, Any]:
        """No more messages, and the ticks end: what they have measured."""
        return self._run(self._pause())

    async def _pause(self) -> dict[str, Any]:
        for task in (*self._coming, self._ticking):
            task.cancel()
        await asyncio.gather(*self._coming, self._ticking, return_exceptions=True)
        answered, self._done_before_end = self._done_before_end, 0
        return {
            "lags": self._ticks.lags,
            "held": self._ticks.held,
            "longest_collection": max(self._ticks.collections, default=0.0),
            "places": self._ticks.places.most_common(12),
            "answered": answered,
            "waiting": len(self._waiting),
        }

    def finish(self) -> dict[str, Any]:
        """Wait until everything is answered that came."""
        return self._run(self._finish())

    async def _finish(self) -> dict[str, Any]:
        while self._waiting:
            await asyncio.wait(set(self._waiting))
        answered, failed, self._answered, self._failed = self._answered, self._failed, 0, 0
        errors, self._errors = self._errors[:3], []
        return {"answered": answered, "failed": failed, "errors": errors}

    def close(self) -> dict[str, Any]:
        """Stop everything."""

        async def stop() -> dict[str, Any]:
            await self._open.aclose()
            return {}

        return self._run(stop())


if __name__ == "__main__":
    os.environ.setdefault("HERMES_WALL", "none")
    answer_lines(Loops())
