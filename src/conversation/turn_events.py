"""A turn as the event hooks of a home see it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agent.threads import run_to_end

if TYPE_CHECKING:
    from agent.events import Event, Watcher
    from agent.outcome import TurnOutcome
    from agent.rotation import Holder, Rotation
    from hermes_state import AsyncSessionDB

    from .door import Origin
    from .event_hooks import EventHooks

SHOWN = 500
"""Characters of a message that handlers get."""

Spawn = Callable[[Coroutine[Any, Any, object]], object]


def compression_events(
    hooks: Callable[[], EventHooks], tell: Spawn, platform: str, user_id: str | None
) -> Holder:
    """Tells the handlers of every compression of an agent, in turns or between.

    Rotations may be told on any thread, so `tell` runs its coroutine wherever it is called.
    """
    numbers = itertools.count(1)

    def follow(rotation: Rotation) -> None:
        # A compression of another process is reported to handlers there.
        if rotation.elsewhere or not hooks().loaded_hooks:
            return
        facts = {
            "platform": platform,
            "user_id": user_id,
            "session_id": rotation.new_session_id,
            "old_session_id": "" if rotation.in_place else rotation.old_session_id,
            "in_place": rotation.in_place,
            "compression_count": next(numbers),
        }
        tell(hooks().emit("session:compress", facts))

    return follow


def tell_beside(telling: Coroutine[Any, Any, object]) -> threading.Thread:
    """Tell handlers on a thread, where no event loop runs between turns."""
    teller = threading.Thread(target=run_to_end, args=(telling,), name="hermes-hooks", daemon=True)
    teller.start()
    return teller


class TurnEvents:
    """Tells the handlers how a turn goes; costs nothing where there are none."""

    def __init__(
        self,
        hooks: EventHooks,
        db: AsyncSessionDB,
        spawn: Spawn,
        origin: Origin,
        text: str,
    ) -> None:
        self._hooks, self._db, self._spawn = hooks, db, spawn
        self._origin = origin
        self._wanted = bool(hooks.loaded_hooks)
        self._facts: dict[str, Any] = {
            "platform": origin.platform,
            "user_id": origin.user_id,
            "chat_id": origin.chat_id,
            "thread_id": origin.thread_id,
            "chat_type": origin.chat_type,
            "session_id": origin.session_id,
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
        if await self._db.get_session(self._origin.session_id) is None:
            names = ("platform", "user_id", "session_id")
            facts = {name: self._facts[name] for name in names}
            await self._hooks.emit(
                "session:start", {**facts, "session_key": self._origin.session_key}
            )
        await self._hooks.emit("agent:start", self._facts)

    def _on_event(self, event: Event) -> None:
        """Something happened in the turn; handlers are told beside it."""
        from agent.events import Compressed, ToolStarted

        if isinstance(event, Compressed):
            self._facts["session_id"] = event.session_id
        elif isinstance(event, ToolStarted):
            self._iteration += 1
            self._tell(
                "agent:step",
                iteration=self._iteration,
                tool_names=[event.name],
                tools=[{"name": event.name, "id": event.call_id}],
            )

    async def end(self, outcome: TurnOutcome) -> None:
        """The turn is over; a compression may have moved the conversation on."""
        if self._wanted:
            facts = {**self._facts, "session_id": outcome.session_id}
            await self._hooks.emit("agent:end", {**facts, "response": outcome.text[:SHOWN]})

    def _tell(self, name: str, **facts: Any) -> None:
        known = {name: self._facts[name] for name in ("platform", "user_id", "session_id")}
        self._spawn(self._hooks.emit(name, {**known, **facts}))
