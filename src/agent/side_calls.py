"""The model calls of an agent's side tasks in the store: reserved before, stored after."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes_state import LEASE_SECONDS, StoreError, at_hand

if TYPE_CHECKING:
    from .agent import AIAgent
    from .auxiliary import Auxiliary
    from .call_costs import EndedCall
    from .limits import Reservation
    from .model import Model, ModelRequest

log = logging.getLogger(__name__)


class SideCalls:
    """Stores the side calls of one agent."""

    def __init__(self, agent: AIAgent) -> None:
        self._agent = agent

    def attach(self, auxiliary: Auxiliary) -> None:
        """Be told of the calls of side tasks, unless somebody is: an agent's sub-agents share its
        side tasks."""
        if auxiliary.on_call is None:
            auxiliary.on_call = self.store
            auxiliary.reserve = self.reserve

    async def store(self, call: EndedCall) -> None:
        """Store a call that has ended."""
        agent, db = self._agent, self._agent.db
        if db is None:
            return
        row = call.row(agent._journal.spends_for)
        try:
            if call.outcome == "complete":
                count, usage = db.record_auxiliary_usage, call.side_usage()
                await at_hand(db, count, agent.session_id, call.task, **usage, call=row)
            else:
                await at_hand(db, db.settle_call, agent.session_id, row)
        except StoreError as error:
            # A missing cost must not fail the answer it belongs to.
            log.error("The cost of %s could not be stored: %s", call.task, error)

    async def reserve(
        self, task: str, model: Model, request: ModelRequest, seconds: float
    ) -> Reservation | None:
        """Reserve a call that takes at most so many seconds, where something is limited; raises
        LimitReachedError."""
        limiter = self._agent.limiter
        if limiter is None:
            return None
        # A little longer than it may take: what it cost is stored after it has ended.
        return await limiter.reserve(
            task, model, request, emit=self._agent.announce, seconds=seconds + LEASE_SECONDS
        )
