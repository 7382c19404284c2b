"""Background jobs of one conversation: on daemon threads, bounded, cancellable at any time.

A job runs on a daemon thread with an event loop, so neither a turn nor the end of the program waits
for it. Of one name, at most one job runs at once; what goes wrong in it is logged and ends there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from agent.threads import run_to_end

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class _Job:
    """One job, from its start to its end."""

    def __init__(self, name: str, work: Work, seconds: float) -> None:
        self.name = name
        self.finished = threading.Event()
        self._work = work
        self._seconds = seconds
        self._lock = threading.Lock()
        self._given_up = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    async def run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._given_up:
                return
            self._running = (asyncio.get_running_loop(), task)
        try:
            async with asyncio.timeout(self._seconds):
                await self._work()
        finally:
            with self._lock:
                self._running = None

    def give_up(self) -> None:
        with self._lock:
            self._given_up = True
            if self._running is not None:
                loop, task = self._running
                # A loop that was closed under the job has nothing left to cancel.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(task.cancel)


class Background:
    """The jobs of one conversation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def start(self, name: str, work: Work, seconds: float) -> bool:
        """Begin a job that may take so long; False if one of that name runs or none can begin."""
        job = _Job(name, work, seconds)
        with self._lock:
            if name in self._jobs:
                return False
            self._jobs[name] = job
        try:
            threading.Thread(
                target=self._run, args=(job,), name=f"hermes-{name}", daemon=True
            ).start()
        except RuntimeError as error:  # no thread to be had, or the program is ending
            log.warning("The job %s was not started: %s", name, error)
            self._over(job)
            return False
        return True

    def wait(self, name: str, seconds: float) -> bool:
        """Wait for the job of that name, if one runs; False if it still runs after so long."""
        with self._lock:
            job = self._jobs.get(name)
        return job is None or job.finished.wait(seconds)

    def give_up(self, name: str | None = None) -> list[str]:
        """Stop the job of that name, or all, without waiting; returns those that were running."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if name in (None, job.name)]
        for job in jobs:
            job.give_up()
        return [job.name for job in jobs]

    def _run(self, job: _Job) -> None:
        try:
            run_to_end(job.run())
        except asyncio.CancelledError:
            log.debug("The job %s was given up", job.name)
        except TimeoutError:
            log.warning("The job %s took too long and was stopped", job.name)
        except Exception:
            # Nothing waits for or depends on the job, so the error is only logged.
            log.exception("The job %s failed", job.name)
        finally:
            self._over(job)

    def _over(self, job: _Job) -> None:
        with self._lock:
            self._jobs.pop(job.name, None)
        job.finished.set()
