"""Turns without progress: the person who asked is told once; in the end the turn is stopped.

Every event of a turn is a sign of life: a piece of an answer, a tool that begins, shows something
or ends. While the turn waits for an answer of the person, it is not the turn that is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agent.events import ToolFinished, ToolStarted

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from agent.events import Event, Watcher

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def watched(
    settings: AgentSettings,
    key: str,
    agent: Any,
    *,
    say: Callable[[str], Coroutine[Any, Any, object]],
    is_asking: Callable[[], bool],
    spawn: Callable[[Coroutine[Any, Any, object]], object],
    stopped_by: str = "/stop",
) -> AsyncIterator[Watcher | None]:
    """Watch the turn that an agent runs, as `agent.gateway_timeout` and
    `agent.gateway_timeout_warning` say; yields the watcher that the turn is to be run with.

    `say` tells whoever asked, `is_asking` is whether the turn waits for an answer of the person,
    `stopped_by` what the person does to stop it.
    """
    if not (settings.gateway_timeout or settings.gateway_timeout_warning):
        yield None
        return
    watch = _Watch(settings.gateway_timeout_warning, settings.gateway_timeout, stopped_by)
    # Not cancelled at the turn's end: a notice that is being sent is sent and recorded.
    spawn(watch.run(key, agent, say, is_asking))
    try:
        yield watch.hear
    finally:
        watch.over.set()


class _Watch:
    def __init__(self, warning: float, limit: float, stopped_by: str) -> None:
        self._warning, self._limit, self._stopped_by = warning, limit, stopped_by
        self._last = time.monotonic()
        self._tools: dict[str, str] = {}
        self.over = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Something happened in the turn; called from any thread."""
        self._last = time.monotonic()
        kind = type(event)  # most are pieces of text
        if kind is ToolStarted:
            self._tools[event.call_id] = event.name  # type: ignore[union-attr]
        elif kind is ToolFinished:
            self._tools.pop(event.call_id, None)  # type: ignore[union-attr]

    async def run(
        self,
        key: str,
        agent: Any,
        say: Callable[[str], Coroutine[Any, Any, object]],
        is_asking: Callable[[], bool],
    ) -> None:
        """Wait for the turn's end, and do something about its silence."""
        warns = bool(self._warning)
        while not self.over.is_set():
            silent = time.monotonic() - self._last
            due = [seconds for seconds in (self._limit, self._warning if warns else 0) if seconds]
            if due and silent >= min(due) and is_asking():
                self._last, silent = time.monotonic(), 0.0
            if self._limit and silent >= self._limit:
                log.warning("The turn in %s is stopped: silent for %.0f s", key, silent)
                text = (
                    f"⚠️ I stopped: nothing has happened for {_spoken(silent)} "
                    f"({self._doing()}). What was done until then is kept; write to go on."
                )
                agent.interrupt()
                await say(text)
                return
            if warns and silent >= self._warning:
                warns = False
                await say(
                    f"⏳ Still at it, without news for {_spoken(silent)}: {self._doing()}. "
                    f"{self._stopped_by} ends it."
                )
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(due) - silent if due else None):
                    await self.over.wait()

    def _doing(self) -> str:
        names = ", ".join(dict.fromkeys(list(self._tools.values())))
        return f"running {names}" if names else "waiting for the model"


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
