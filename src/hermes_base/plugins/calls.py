"""Calling other people's code: isolated, timed and bounded.

Whatever a callback does (raise, exit, hang, print, change what it was given), the caller goes on
with a value or without one, within the limit. It runs in a daemon thread with the caller's context
and with copies of the caller's lists and dicts. One that does not return in time is abandoned; it
is not called again before it has returned, and switched off when that keeps happening.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from .output import diverted

log = logging.getLogger(__name__)

LIMIT = 5.0
"""Seconds a callback may take unless configured otherwise."""
STRIKES = 3
"""So many time-outs in a row switch a callback off."""

_running: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar(
    "hermes_running_callbacks", default=()
)


class TookTooLong(Exception):
    """A callback was stopped, or abandoned, at its time limit."""


class Outcome(NamedTuple):
    """The outcome of a call: a value, an error, or neither because it took too long."""

    value: Any = None
    error: BaseException | None = None
    finished: bool = True


class _Job:
    __slots__ = ("done", "outcome", "run")

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run
        self.outcome = Outcome(finished=False)
        self.done = threading.Event()


_idle: list[queue.SimpleQueue[_Job]] = []


def call_bounded(function: Callable[[], Any], limit: float, owner: str) -> Outcome:
    """Run a function in a thread of its own and wait at most `limit` seconds for it."""
    return start(function, owner).wait(limit)


class Started:
    """A call that is under way."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def wait(self, limit: float) -> Outcome:
        """Its outcome within `limit` seconds."""
        self._job.done.wait(limit)
        return self._job.outcome

    @property
    def is_running(self) -> bool:
        """Whether it has not returned yet."""
        return not self._job.done.is_set()


def start(function: Callable[[], Any], owner: str) -> Started:
    """Begin a call in a daemon thread, in the caller's context."""
    context = contextvars.copy_context()

    def run() -> Any:
        with diverted(owner):
            return context.run(function)

    job = _Job(run)
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="hermes-plugin", daemon=True).start()
    jobs.put(job)
    return Started(job)


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        job = jobs.get()
        try:
            job.outcome = Outcome(job.run())
        except BaseException as error:  # noqa: BLE001 - also an exit is only the callback's own end
            job.outcome = Outcome(error=error)
        job.done.set()
        del job
        _idle.append(jobs)


class Standing:
    """How a whole plugin has behaved: one whose every callback hangs is soon off altogether."""

    def __init__(self) -> None:
        self.timeouts = 0
        """Time-outs since any of its callbacks returned in time."""
        self.is_off = False


class Callback:
    """One registered function of a plugin, with its record."""

    def __init__(
        self,
        plugin: str,
        what: str,
        function: Callable[..., Any],
        limit: float | None = None,
        standing: Standing | None = None,
    ) -> None:
        """`what` says in the log what it is for, e.g. "pre_tool_call"; `limit` is its own.

        `standing` is shared by the callbacks of a plugin.
        """
        self.plugin = plugin
        self.what = what
        self.function = function
        self.limit = limit
        self.calls = 0
        self.failures = 0
        self.timeouts = 0
        """Time-outs since it last returned in time."""
        self.seconds = 0.0
        self.standing = standing or Standing()
        self._is_off = False
        self._left_behind: Started | None = None

    def __call__(self, kwargs: dict[str, Any], limit: float) -> Any:
        """Call it with copies of `kwargs`; None if it failed, hangs, is off or called itself."""
        if self.is_off or self.is_running_here:
            return None
        if self._left_behind is not None and self._left_behind.is_running:
            self._strike("has still not returned from an earlier call")
            return None
        self._left_behind = None
        self.calls += 1
        own = {name: copied(value) for name, value in kwargs.items()}
        began = time.perf_counter()
        started = start(lambda: self.enter(own), f"The plugin {self.plugin}")
        outcome = started.wait(self.limit or limit)
        took = time.perf_counter() - began
        self.seconds += took
        log.debug("%s of %s took %.1f ms", self.what, self.plugin, took * 1e3)
        if not outcome.finished:
            self._left_behind = started
        if not outcome.finished or outcome.error is not None:
            self.note_failure(outcome, self.limit or limit)
            return None
        self.note_success()
        return outcome.value

    @property
    def is_off(self) -> bool:
        """Whether it is called no more."""
        return self._is_off or self.standing.is_off

    def note_success(self) -> None:
        """It returned in time."""
        self.timeouts = self.standing.timeouts = 0

    def note_failure(self, outcome: Outcome, limit: float) -> None:
        """Log a call that failed or was abandoned, and count it."""
        if not outcome.finished:
            self._strike(f"did not return within {limit:g} s and was abandoned")
        elif isinstance(outcome.error, TookTooLong):
            self._strike(str(outcome.error))
        else:
            self.note_success()
            self.failures += 1
            log.error(
                "%s of the plugin %s failed and is ignored",
                self.what,
                self.plugin,
                exc_info=outcome.error,
            )

    @property
    def is_running_here(self) -> bool:
        """Whether the calling code runs inside it: a hook on tools that uses a tool, say."""
        return id(self) in _running.get()

    def enter(self, kwargs: dict[str, Any]) -> Any:
        """Call the function, in the thread and context made for it."""
        _running.set((*_running.get(), id(self)))
        value = self.function(**kwargs)
        if isinstance(value, types.CoroutineType):
            value.close()
            raise TypeError("the callback is a coroutine; callbacks are ordinary functions")
        return value

    def _strike(self, reason: str) -> None:
        self.timeouts += 1
        self.standing.timeouts += 1
        if self.standing.timeouts >= STRIKES:
            self.standing.is_off = True
            reason += f"; {STRIKES} times in a row: all of the plugin is switched off"
        elif self.timeouts >= STRIKES:
            self._is_off = True
            reason += f"; {STRIKES} times in a row: it is switched off"
        log.warning("%s of the plugin %s %s", self.what, self.plugin, reason)


def copied(value: Any, depth: int = 0) -> Any:
    """Plain lists, dicts and tuples copied all the way down; anything else as it is."""
    if depth > 50:  # nothing of ours is nested like this; do not follow a circle
        return value
    kind = type(value)
    if kind is dict:
        return {name: copied(item, depth + 1) for name, item in value.items()}
    if kind is list:
        return [copied(item, depth + 1) for item in value]
    if kind is tuple:
        return tuple(copied(item, depth + 1) for item in value)
    return value
