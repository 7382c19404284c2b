"""What became of messages: sent, delivered, read or failed, as Meta tells it some time later.

Meta takes a message and says later whether it was sent. So a message that was taken is waited for
a moment: then the next one cannot overtake it, and one that is refused is known to be. What is told
later, or to another replica, is taken back where the answer is kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict

from .messages import Status

log = logging.getLogger(__name__)

MOST_SILENT = 3
"""After so many messages of which nothing was told, none is waited for."""
REMEMBERED = 2000


class Statuses:
    """Messages that wait to be told of, by what we sent with them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[str, asyncio.Future[Status]] = {}
        self._silent = 0
        self._failed: OrderedDict[str, None] = OrderedDict()
        """Messages whose failure was dealt with: Meta tells it again."""

    def expect(self, data: str) -> None:
        """A message is sent under this name."""
        self._waiting[data] = asyncio.get_running_loop().create_future()

    def forget(self, data: str) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(data, None)

    async def wait(self, data: str, *, in_doubt: bool = False) -> Status | None:
        """What is told of a message soon; None if that is nothing. One that is `in_doubt` is waited
        for even if nothing has been told lately."""
        if self._silent >= MOST_SILENT and not in_doubt:
            return None
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(self._waiting[data])
        except TimeoutError:
            self._silent += 1
            if self._silent == MOST_SILENT:
                log.warning(
                    "WhatsApp tells nothing of what becomes of messages (%.0f s). Is the webhook"
                    " subscribed to the field messages?",
                    time.monotonic() - began,
                )
            return None

    def tell(self, status: Status) -> bool:
        """Something was told; True if it failed and nobody here waits for that."""
        self._silent = 0
        if status.message_id in self._failed:
            return False
        if status.kind == "failed":
            self._failed[status.message_id] = None
            while len(self._failed) > REMEMBERED:
                self._failed.popitem(last=False)
        waiting = self._waiting.get(status.data)
        if waiting is not None and not waiting.done():
            waiting.set_result(status)
            return False
        return status.kind == "failed"
