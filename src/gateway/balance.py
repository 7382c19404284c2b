"""Giving way to the gateway that should hold a platform (`shares`), and what waits for a release.

Whoever holds a platform looks now and then whether another should. Then it lets go of it in a
moment in which none of its turns runs: it receives no more, what is being sent is noted as sent,
and its lease is free. A gateway lets go of one platform at most in BALANCE_SECONDS, and of none
that it has held for less; where something waits for a newer release, a lease's time is enough.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_base.process import this_process
from hermes_state import LEASE_SECONDS, StoreError

from .config import Platform
from .replica import Replica
from .session import SessionSource
from .shares import find_better_holder

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .delivery import Delivery
    from .session_store import SessionStore
    from .supervision import Supervisor

log = logging.getLogger(__name__)

BALANCE_SECONDS = 300.0
"""Between two platforms that a gateway lets go of, and from taking one to letting go of it."""
LOOK_SECONDS = LEASE_SECONDS / 4

WAITS = (
    "⚠️ A message of yours waits for a newer version of Hermes: it holds something that this one"
    " does not know. It is answered when a gateway of that version runs."
)
CUT_OFF = (
    "⚠️ A newer version of Hermes was stopped in the middle of its answer here, and only such a one"
    " can go on with it. The conversation waits for that; /new begins another."
)
_TOLD = {"message": WAITS, "turn": CUT_OFF}


class Balance:
    """Gives way to other gateways, and tells chats what waits for a newer release."""

    def __init__(
        self,
        db: AsyncSessionDB,
        replica: Replica,
        supervisor: Supervisor,
        store: SessionStore,
        delivery: Delivery,
        runs_in: Callable[[Platform], bool],
    ) -> None:
        """`runs_in` says whether a turn runs in the chats of a platform."""
        self._db = db
        self._replica = replica
        self._supervisor = supervisor
        self._store = store
        self._delivery = delivery
        self._runs_in = runs_in
        self._told: set[str] = set()

    async def watch(self, is_running: Callable[[], bool]) -> None:
        """Look every few seconds until the gateway stops."""
        while self._replica.is_shared and is_running():
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except StoreError as error:
                log.warning("Who should hold what is looked for again: %s", error)

    async def look(self) -> None:
        """Give way where another should hold a platform; tell chats what waits for long."""
        waiting = await self._db.list_for_newer()
        await self._tell(waiting)
        held = self._supervisor.held()
        if not held:
            return
        replicas = await self._db.list_replicas()
        own = next((row for row in replicas if row["owner"] == this_process()), None)
        if own is None:
            return
        for platform, name in held.items():
            needs = [row["needs_format"] for row in waiting if row["platform"] == platform.value]
            better = find_better_holder(name, own, replicas, max(needs, default=None))
            pause = LEASE_SECONDS if needs else BALANCE_SECONDS
            if better is None or not self._replica.may_let_go(name, pause):
                continue
            # From here to the event that is set nothing is waited for.
            if not self._runs_in(platform):
                log.info("%s is let go of: %s should hold it", name, better["host"])
                self._supervisor.give_way(platform)
                return

    async def _tell(self, waiting: Sequence[Mapping[str, Any]]) -> None:
        """Tell the chats that are ours what waits there for a release that nobody runs, once."""
        for row in waiting:
            entry = self._store.entry(row["session_key"] or "")
            source = entry.origin if entry is not None else None
            name = f"newer:{row['kind']}:{row['name']}:{row['since']}"
            if row["is_taken"] or row["kind"] not in _TOLD or source is None:
                continue
            if name not in self._told and self._serves(source):
                self._told.add(name)
                await self._delivery.say(source, row["session_key"], _TOLD[row["kind"]], name=name)

    def _serves(self, source: SessionSource) -> bool:
        is_held = self._supervisor.is_held(source.platform)
        return is_held and self._supervisor.serves(source.platform)
