"""A turn of a chat as the gateway's event hooks see it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from agent.events import Event, Watcher
    from hermes_state import AsyncSessionDB

    from .event_hooks import EventHooks
    from .run import GatewayRunner

SHOWN = 500
"""Characters of a message that handlers get."""


def compression_events(runner: GatewayRunner, source: SessionSource) -> Watcher:
    """A listener of a chat's agent: tells the handlers of every compression, in turns or between.

    To be made on the gateway's event loop; events may come from any thread.
    """
    from agent.events import Compressed

    loop = asyncio.get_running_loop()
    numbers = itertools.count(1)

    def on_event(event: Event) -> None:
        if not isinstance(event, Compressed) or not event.method or not runner.hooks.loaded_hooks:
            return
        facts = {
            "platform": source.platform.value,
            "user_id": source.user_id,
            "session_id": event.session_id,
            "old_session_id": "" if event.in_place else event.old_session_id,
            "in_place": event.in_place,
            "compression_count": next(numbers),
        }

        def tell() -> None:
            runner.spawn(runner.hooks.emit("session:compress", facts))

        loop.call_soon_threadsafe(tell)

    return on_event


class TurnEvents:
    """Tells the handlers how a turn goes; costs nothing where there are none."""

    def __init__(
        self,
        hooks: EventHooks,
        db: AsyncSessionDB,
        spawn: Callable[[Coroutine[Any, Any, object]], object],
        source: SessionSource,
        entry: SessionEntry,
        text: str,
    ) -> None:
        self._hooks, self._db, self._spawn = hooks, db, spawn
        self._entry = entry
        self._wanted = bool(hooks.loaded_hooks)
        self._facts: dict[str, Any] = {
            "platform": source.platform.value,
            "user_id": source.user_id,
            "chat_id": source.chat_id,
            "thread_id": source.thread_id,
            "chat_type": source.chat_type,
            "session_id": entry.session_id,
            "message": text[:SHOWN],
        }
        self._iteration = 0

    @property
    def watch(self) -> Watcher | None:
        """The watcher that the turn is to be run with; None if there are no handlers."""
        return self._on_event if self._wanted else None

    async def start(self) -> None:
        """The turn begins."""
        if not self._wanted:
            return
        if await self._db.get_session(self._entry.session_id) is None:
            names = ("platform", "user_id", "session_id")
            facts = {name: self._facts[name] for name in names}
            await self._hooks.emit(
                "session:start", {**facts, "session_key": self._entry.session_key}
            )
        await self._hooks.emit("agent:start", self._facts)

    def _on_event(self, event: Event) -> None:
        """Something happened in the turn; handlers are told beside it."""
        from agent.events import ToolStarted

        if isinstance(event, ToolStarted):
            self._iteration += 1
            self._tell(
                "agent:step",
                iteration=self._iteration,
                tool_names=[event.name],
                tools=[{"name": event.name, "id": event.call_id}],
            )

    async def end(self, response: str) -> None:
        """The turn is over."""
        if self._wanted:
            await self._hooks.emit("agent:end", {**self._facts, "response": response[:SHOWN]})

    def _tell(self, name: str, **facts: Any) -> None:
        known = {one: self._facts[one] for one in ("platform", "user_id", "session_id")}
        self._spawn(self._hooks.emit(name, {**known, **facts}))
