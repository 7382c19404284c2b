"""Threads for tools that block, and event loops for callers that do not have one.

A thread is kept for the next call; all are daemons, so a tool that never returns cannot keep the
program from ending. An event loop is kept too: with it live the provider's open connections, which
make the next turn's first token come sooner.
"""

from __future__ import annotations

import asyncio
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
        _loops.append(loop)
