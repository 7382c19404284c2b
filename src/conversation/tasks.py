"""Background tasks: referenced until they end, their failures logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

log = logging.getLogger(__name__)

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]]
"""Runs a coroutine in the background."""


class Tasks:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        """`owner` is named in the log."""
        self._owner = owner
        self.running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a coroutine in the background."""
        task = asyncio.ensure_future(work)
        self.running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A task of %s failed", self._owner, exc_info=task.exception())
