"""The queue of writers: served in order, and in groups where that saves a flush.

A thread that finds the lock taken queues up. It may bring its write along; then the holder of the
lock may take it out of the queue, run it in its own transaction and hand back the result. A write
that was taken always gets its result, whatever happens to the holder.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_own = threading.local()


class patience:
    """`with patience(seconds)`: this thread waits at most so long for a lock."""

    __slots__ = ("_before", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._before = patience_of_this_thread()
        _own.patience = self._seconds

    def __exit__(self, *_: object) -> None:
        _own.patience = self._before


def patience_of_this_thread() -> float | None:
    """How many seconds this thread may wait; None if nothing was said."""
    return getattr(_own, "patience", None)


class State(enum.Enum):
    """Where somebody in the queue is."""

    WAITING = enum.auto()
    HOLDS_LOCK = enum.auto()
    TAKEN = enum.auto()
    """The holder of the lock runs the work, or has run it and is not yet sure of the outcome."""
    TOLD = enum.auto()


class Job:
    """A write that may be run together with others and, later, its result."""

    __slots__ = ("args", "begun", "error", "kwargs", "result", "work")

    def __init__(self, work: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> None:
        self.work, self.args, self.kwargs = work, args, kwargs
        self.begun = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, connection: Any) -> None:
        """Run the work; an error of it is raised."""
        assert self.work is not None
        self.begun = True
        self.result = self.work(connection, *self.args, **self.kwargs)


class Waiter(Job):
    """A thread in the queue, with the work it brought."""

    __slots__ = ("state", "turn")

    def __init__(self, work: Callable[[Any], Any] | None) -> None:
        super().__init__(work)
        self.state = State.WAITING
        self.turn = threading.Lock()
        self.turn.acquire()

    def tell(self) -> None:
        """Wake the thread with what is in `result` or `error`."""
        self.state = State.TOLD
        self.turn.release()


class FairLock:
    """A lock that serves waiting threads in the order in which they came."""

    __slots__ = ("_guard", "_held", "_waiting")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Waiter] = deque()
        self._held = False

    def enter(self, work: Callable[[Any], Any] | None = None) -> Waiter | None:
        """Take the lock, and return None; or return the job if the holder has run `work` meanwhile.

        Raises TimeoutError if the thread has said how patient it is and its turn did not come.
        """
        with self._guard:
            if not self._held:
                self._held = True
                return None
            waiter = Waiter(work)
            self._waiting.append(waiter)
        limit = patience_of_this_thread()
        try:
            if waiter.turn.acquire(timeout=-1 if limit is None else limit):
                return waiter if waiter.state is State.TOLD else None
        except BaseException:  # Ctrl-C; a thread that stayed in the queue would block it for good
            self._step_out(waiter)
            raise
        if self._remove(waiter):
            raise TimeoutError
        waiter.turn.acquire()
        return waiter if waiter.state is State.TOLD else None

    def leave(self) -> None:
        """Hand the lock to the next in the queue."""
        with self._guard:
            if self._waiting:
                waiter = self._waiting.popleft()
                waiter.state = State.HOLDS_LOCK
                waiter.turn.release()
            else:
                self._held = False

    def has_waiting(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def take_work(self) -> Waiter | None:
        """The next in the queue, if it brought a write; the holder must hand it the result."""
        with self._guard:
            if not self._waiting or self._waiting[0].work is None:
                return None
            waiter = self._waiting.popleft()
            waiter.state = State.TAKEN
            return waiter

    def _remove(self, waiter: Waiter) -> bool:
        with self._guard:
            if waiter.state is not State.WAITING:
                return False
            self._waiting.remove(waiter)
            return True

    def _step_out(self, waiter: Waiter) -> None:
        """Leave the queue; if the write was taken, wait for its result."""
        if self._remove(waiter):
            return
        while waiter.state is State.TAKEN:
            try:
                waiter.turn.acquire()
            except KeyboardInterrupt:
                continue  # one was caught already, and is raised when the outcome is known
        if waiter.state is State.HOLDS_LOCK:
            self.leave()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()
