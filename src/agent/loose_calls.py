"""Model calls outside of any conversation: counted, and limited, for the person who wants them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes_state import LEASE_SECONDS, CallReserved, StoreError, at_hand

from .call_costs import SpendsFor
from .errors import LimitReachedError
from .limits import Reservation, call_at_most, estimated, find_limits, is_reached

if TYPE_CHECKING:
    from hermes_state import SessionDB

    from .auxiliary import Auxiliary
    from .call_costs import EndedCall
    from .config import Config
    from .model import Model, ModelRequest

log = logging.getLogger(__name__)


class LooseCalls:
    """Stores the calls of one person that belong to no conversation."""

    def __init__(self, config: Config, db: SessionDB, person_id: str, source: str) -> None:
        """`source` is where they come from, such as "tui"."""
        self._config, self._db, self._person_id = config, db, person_id
        self._spends_for = SpendsFor(None, source)

    def attach(self, auxiliary: Auxiliary) -> None:
        """Be asked before each of its calls, and told of them."""
        auxiliary.on_call, auxiliary.reserve = self.store, self.reserve

    async def reserve(
        self, task: str, model: Model, request: ModelRequest, seconds: float
    ) -> Reservation | None:
        """Reserve a call that takes at most so many seconds, where something is limited;
        LimitReachedError if nothing is left, also if only what runs now leaves no room."""
        db, owner = self._db, self._person_id
        table = await at_hand(db, find_limits, self._config, db, owner)
        if table is None:
            return None
        tokens = estimated(request)
        call = call_at_most(table, task, model, request, tokens, self._spends_for)
        answer = await at_hand(
            db,
            lambda: db.reserve_call(
                None, call, table.list_limits(None), seconds=seconds + LEASE_SECONDS, owner=owner
            ),
        )
        if isinstance(answer, CallReserved):
            return Reservation(answer.id, table, tokens)
        assert answer.use is not None
        raise LimitReachedError(is_reached(answer.use))

    async def store(self, call: EndedCall) -> None:
        """Store a call that has ended."""
        db, owner, row = self._db, self._person_id, call.row(self._spends_for)
        try:
            await at_hand(db, lambda: db.settle_call(None, row, owner))
        except StoreError as error:
            # A missing cost must not fail the answer it belongs to.
            log.error("The cost of %s could not be stored: %s", call.task, error)
