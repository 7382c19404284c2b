"""Whether an agent is busy, and how other threads interrupt or steer what it does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from .model import Message


class TurnRunningError(RuntimeError):
    """The agent is in the middle of a turn; interrupt it, steer it, or wait."""


MOST_RESTARTS = 8
"""Requests of one turn that are sent anew because a message joined: each costs its input again."""


class BusyState:
    """What one agent is doing: nothing, a turn, or a compression.

    A turn is opening until its model has said something. A message that joins an opening turn is
    read together with the turn's question: a request that is under way is sent anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = False
        self._compressing = False
        self._steering: list[Message] = []
        self._task: asyncio.Task[Any] | None = None
        self._opening = False
        self._joined = False
        """Whether a message joined that no request holds yet."""
        self._restarts = 0
        self._request: asyncio.Task[Any] | None = None
        self._fence: int | None = None
        """The number of the running turn's lease, once it has one."""
        self.message_waits = False
        """Whether the turn was interrupted for the sake of a further message."""
        self.interrupt_wanted = False
        """An interruption was requested; a task that begins later is cancelled at once."""

    def claim(self, refusal: str, *, compressing: bool = False) -> None:
        """Mark the agent busy; TurnRunningError with that refusal if it is already."""
        with self._lock:
            if self._busy:
                raise TurnRunningError(refusal)
            self._busy, self._compressing = True, compressing
            self._opening, self._joined, self._restarts = not compressing, False, 0
            self.interrupt_wanted = self.message_waits = False
            self._task = self._request = None

    def release(self) -> None:
        """Mark the agent idle."""
        with self._lock:
            self._busy = self._compressing = self._opening = False
            self._task = self._request = self._fence = None

    def name_turn(self, fence: int) -> None:
        """The turn has its lease: from now on others may mean it by that number."""
        with self._lock:
            self._fence = fence

    def is_turn(self, fence: int) -> bool:
        """Whether the turn with that number runs."""
        with self._lock:
            return self._busy and self._fence == fence

    def require_free(self, refusal: str) -> None:
        """Raise TurnRunningError with that refusal while the agent is busy."""
        with self._lock:
            if self._busy:
                raise TurnRunningError(refusal)

    def attach(self, task: asyncio.Task[Any]) -> None:
        """Set the task that an interruption cancels."""
        with self._lock:
            self._task = task
            if self.interrupt_wanted:
                task.cancel()

    def interrupt(self, *, message_waits: bool = False, fence: int | None = None) -> bool:
        """Stop what runs, from any thread; False if nothing does, or not the turn of a `fence`."""
        with self._lock:
            if not self._busy or fence not in (None, self._fence):
                return False
            self.interrupt_wanted = True
            self.message_waits = self.message_waits or message_waits
            task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    def is_in_turn(self) -> bool:
        """Whether a turn runs."""
        with self._lock:
            return self._busy and not self._compressing

    def steer(self, message: Message, fence: int | None = None) -> bool:
        """Add a message to the running turn; False if none runs, or not the one of a `fence`."""
        with self._lock:
            if not self._busy or self._compressing or fence not in (None, self._fence):
                return False
            self._steering.append(message)
        return True

    def take_steering(self) -> list[Message]:
        """Take the steering messages that were not read yet."""
        with self._lock:
            taken, self._steering, self._joined = self._steering, [], False
        return taken

    # Until the model says something

    @property
    def is_opening(self) -> bool:
        """Whether a turn runs whose model has not said anything yet."""
        return self._opening

    def join(self, message: Message) -> bool:
        """Let the opening turn read a message with its question; False if it is too late."""
        with self._lock:
            late = not self._opening or self.interrupt_wanted
            if late or (self._request is not None and self._restarts >= MOST_RESTARTS):
                return False
            self._steering.append(message)
            self._joined = True
            request = self._request
        if request is not None:
            request.get_loop().call_soon_threadsafe(request.cancel)
        return True

    def take_joined(self) -> list[Message]:
        """Take the added messages, if one has joined; otherwise nothing yet."""
        return self.take_steering() if self._joined else []

    def attach_request(self, request: asyncio.Task[Any] | None) -> bool:
        """Set the request that a joining message restarts; False if one has joined meanwhile."""
        with self._lock:
            self._request = request
            return not self._joined

    def restart(self) -> None:
        """The request is sent anew."""
        with self._lock:
            self._restarts += 1

    def begin_speaking(self) -> bool:
        """The model says something; False if a message joined that it has not read."""
        with self._lock:
            if self._opening and self._joined:
                return False
            self._opening = False
            return True
