"""Threads for tools that block, and event loops for callers that do not have one.

A thread is kept for the next call; all are daemons, so a tool that never returns cannot keep the
program from ending. An event loop is kept too: with it live the provider's open connections, which
make the next turn's first token come sooner.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]

_idle: list[queue.SimpleQueue[_Job]] = []
_loops: list[asyncio.AbstractEventLoop] = []


async def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread; cancelling stops waiting, not the function."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="hermes-tool", daemon=True).start()
    jobs.put((function, done, loop))
    return await done


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        function, done, loop = jobs.get()
        try:
            outcome: tuple[Any, BaseException | None] = (function(), None)
        except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the result
            outcome = (None, error)
        # The loop may be closed by now: then nobody is waiting.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, done, *outcome)
        del function, done, loop, outcome
        _idle.append(jobs)


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


class CallsFromThread:
    """Coroutines that code in a thread runs on this event loop, and that end with whoever waits.

    Made on the event loop. After `end` none is begun any more, and none is left half-way on a loop
    that may not turn again before the next turn, if ever.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: list[concurrent.futures.Future[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = threading.Event()

    @property
    def were_made(self) -> bool:
        """Whether any was asked for."""
        return bool(self._futures)

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """From a thread: run what `make` gives on the loop; CancelledError after `end`."""
        if self._is_over.is_set():
            raise concurrent.futures.CancelledError
        future = asyncio.run_coroutine_threadsafe(self._run(make), self._loop)
        self._futures.append(future)
        if self._is_over.is_set():
            future.cancel()  # `end` came before this was on the list
        return future.result()

    async def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._is_over.is_set():
            raise asyncio.CancelledError  # a cancelled task is begun all the same
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await make()
        finally:
            self._tasks.discard(task)

    async def end(self) -> None:
        """Cancel what still runs and wait until it has ended, as for a coroutine awaited here."""
        self._is_over.set()
        for future in self._futures:
            future.cancel()  # which cancels its task, once
        if self._tasks:
            await asyncio.wait(self._tasks)


_CANCELLED_SECONDS = 1.0
"""How long a task that was cancelled may take to end before it is left."""


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from ordinary code, on an event loop that is kept for the next time."""
    try:
        loop = _loops.pop()
    except IndexError:
        loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    except KeyboardInterrupt:
        # The turn was left in the middle of a step: let it store its end, then go.
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        raise
    finally:
        _end_cancelled(loop)
        _loops.append(loop)


def _end_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks end that were cancelled and not awaited, as asyncio's own are in a connection that
    is given up: at the exit of the program they would be complained about."""
    cancelled = [task for task in asyncio.all_tasks(loop) if task.cancelling()]
    if cancelled:
        loop.run_until_complete(asyncio.wait(cancelled, timeout=_CANCELLED_SECONDS))
