"""Writes of many coroutines in one transaction, so that they pay for one flush together.

What coroutines of one event loop want to write within the same iteration of it is put together: the
first schedules a flush, the flush runs all of them, each in a savepoint of its own, and each gets
its own result or its own error. A result is given only when it is on disk. The works of a loop are
run in the order in which they came, each at most once.

A flush runs on the loop itself as long as the store is free. If others hold it for more than a few
milliseconds, a thread goes on waiting with the usual patience, and the loop with everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from .connection import GROUP_WORKS, run_in_savepoint
from .errors import StoreBusyError
from .opening import FileConnection
from .write_queue import Job, patience

if TYPE_CHECKING:
    from .db import SessionDB

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SHORT_WAIT = 0.005
"""Seconds for which a flush may hold up the event loop while others hold the store."""


class GroupWriter:
    """Puts the writes of coroutines together; may be shared by event loops of several threads."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopQueue] = (
            weakref.WeakKeyDictionary()
        )
        self._guard = threading.Lock()

    async def write(
        self,
        work: Callable[Concatenate[FileConnection, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work(connection, …)` in a write transaction; returns its result, once on disk.

        `work` may run in another thread, and when nothing else is ready to run it runs at once,
        without giving the loop a turn.

        A coroutine that is cancelled before its work was begun writes nothing. Once its work was
        begun, or handed to the waiting thread, the outcome is waited for and returned, and the
        cancellation comes with the coroutine's next wait: no write goes on behind the back of a
        coroutine that has ended, and none is made without its knowing.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            with self._guard:
                queue = self._queues.setdefault(loop, _LoopQueue(self._db))
        job = _Waiting(work, *args, **kwargs)
        # Nothing else is ready to run in this iteration: there is nobody to wait for.
        if not queue.is_due and not getattr(loop, "_ready", True) and queue.run_alone(job):
            return job.result
        job.reply = loop.create_future()
        queue.add(job, loop)
        try:
            return await job.reply
        except asyncio.CancelledError:
            if not job.known and queue.drop(job):
                raise
            if not job.known:
                await job.outcome(loop)
            if not job.begun:
                raise
            cancel_later()
            if job.error is not None:
                raise job.error from None
            return job.result


def cancel_later() -> None:
    """Postpone the cancellation that was just caught to this task's next await."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    task.cancel()


class _Waiting(Job):
    """A queued write, and the coroutine that waits for its result."""

    __slots__ = ("known", "reply")

    reply: asyncio.Future[Any]

    def __init__(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(work, *args, **kwargs)
        self.known = False

    def tell(self) -> None:
        """Hand the result to the coroutine, unless it was cancelled."""
        self.known = True
        if self.reply.done():
            return
        if isinstance(self.error, StopIteration):  # which a coroutine cannot raise
            self.reply.set_exception(RuntimeError("A work has raised StopIteration"))
        elif self.error is not None:
            self.reply.set_exception(self.error)
        else:
            self.reply.set_result(self.result)

    async def outcome(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the outcome is known, however often this is cancelled."""
        self.reply = loop.create_future()
        while not self.known:
            with contextlib.suppress(asyncio.CancelledError):  # the first is raised afterwards
                await asyncio.wait([self.reply])
        self.reply.exception()  # retrieved, so that asyncio does not log it


class _LoopQueue:
    """The queued writes of one event loop; used in the thread of that loop alone."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._waiting: deque[_Waiting] = deque()
        self.is_due = False
        """Whether a flush is scheduled, or a thread waits for the store and a flush follows."""
        self._thread: ThreadPoolExecutor | None = None

    def add(self, job: _Waiting, loop: asyncio.AbstractEventLoop) -> None:
        """Have the work run with the next flush."""
        self._waiting.append(job)
        if not self.is_due:
            self.is_due = True
            loop.call_soon(self._flush, loop)

    def run_alone(self, job: _Waiting) -> bool:
        """Run the work at once; False if the store was not free, and it must wait."""
        try:
            with patience(SHORT_WAIT):
                self._db._execute_write(job.run)
        except StoreBusyError:
            if job.begun:
                raise
            return False
        return True

    def drop(self, job: _Waiting) -> bool:
        """Drop a queued write that was not begun; False if it is running already."""
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        return True

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._next_batch()
        with patience(SHORT_WAIT):
            failure = self._run(batch)
        if isinstance(failure, StoreBusyError) and not batch[0].begun:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermes-group-commit")
            self._thread.submit(self._run_in_thread, batch, loop)
        else:
            self._settle(batch, failure, loop)

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < GROUP_WORKS:
            job = self._waiting.popleft()
            if job.reply.cancelled():  # and the cancellation was not delivered yet
                job.known = True
            else:
                batch.append(job)
        return batch

    def _run(self, batch: list[_Waiting]) -> BaseException | None:
        """Run the batch in one transaction; returns what made all of it fail, if anything did."""

        def run_all(connection: Any) -> None:
            for job in batch:
                run_in_savepoint(connection, job)

        try:
            if batch:
                self._db._execute_write(batch[0].run if len(batch) == 1 else run_all)
        except BaseException as error:  # noqa: BLE001 - raised where each of them is awaited
            return error
        finally:
            database = self._db._database
            if not database.is_server:
                database.name_errors(batch)
        return None

    def _run_in_thread(self, batch: list[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        failure = self._run(batch)
        try:
            loop.call_soon_threadsafe(self._settle, batch, failure, loop)
        except RuntimeError:
            log.warning("An event loop was closed while %d writes were under way", len(batch))

    def _settle(
        self,
        batch: list[_Waiting],
        failure: BaseException | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Hand out the results, and flush what was queued meanwhile."""
        if failure is not None and batch[0].begun:
            # One of them made SQLite give up: those behind it were not run, and have a try left.
            not_run = [job for job in batch if not job.begun]
            self._waiting.extendleft(reversed(not_run))
            batch = batch[: len(batch) - len(not_run)]
        for job in batch:
            job.error = job.error or failure
            job.tell()
        self.is_due = bool(self._waiting)
        if self.is_due:
            loop.call_soon(self._flush, loop)
