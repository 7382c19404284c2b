"""Whether an agent is in the middle of something, and how that is reached from other threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from .model import Message


class TurnRunningError(RuntimeError):
    """The agent is in the middle of a turn; interrupt it, steer it, or wait."""


class Occupation:
    """What one agent is doing: nothing, a turn, or a compression."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = False
        self._compressing = False
        self._steering: list[Message] = []
        self._task: asyncio.Task[Any] | None = None
        self.interrupt_wanted = False
        """Somebody asked for an end; a task that begins later is cancelled at once."""

    def claim(self, refusal: str, *, compressing: bool = False) -> None:
        """Begin; TurnRunningError with that refusal if something runs already."""
        with self._lock:
            if self._busy:
                raise TurnRunningError(refusal)
            self._busy, self._compressing = True, compressing
            self.interrupt_wanted = False
            self._task = None

    def release(self) -> None:
        """It has ended."""
        with self._lock:
            self._busy, self._compressing, self._task = False, False, None

    def require_free(self, refusal: str) -> None:
        """Raise TurnRunningError with that refusal while something runs."""
        with self._lock:
            if self._busy:
                raise TurnRunningError(refusal)

    def attach(self, task: asyncio.Task[Any]) -> None:
        """This is the task that an interruption cancels."""
        with self._lock:
            self._task = task
            if self.interrupt_wanted:
                task.cancel()

    def interrupt(self) -> bool:
        """Stop what runs, from any thread; False if nothing does."""
        with self._lock:
            if not self._busy:
                return False
            self.interrupt_wanted = True
            task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    def steer(self, message: Message) -> bool:
        """Add a message to the running turn; False if none runs."""
        with self._lock:
            if not self._busy or self._compressing:
                return False
            self._steering.append(message)
        return True

    def take_steering(self) -> list[Message]:
        """What was added and not read yet."""
        with self._lock:
            taken, self._steering = self._steering, []
        return taken
