"""Writes that must happen although the store is failing: retried until they succeed.

A store that is locked, full or unreadable comes back; what was promised to a chat is then written,
and no message is sent twice because its record was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes_state import (
    StoreBusyError,
    StoreClosedError,
    StoreFullError,
    StoreIOError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0


async def retry_until_stored(
    work: Callable[[], Awaitable[T]], what: str, *, is_repeatable: bool = False
) -> T:
    """The result of `work`, which is retried while the store fails.

    Where a server cannot say whether it was committed, it is retried only if it `is_repeatable`
    (idempotent).
    """
    pause = FIRST_PAUSE
    while True:
        try:
            return await work()
        except StoreClosedError:
            raise  # the gateway has ended; the next start goes on
        except StoreOutcomeUnknownError as error:
            if not is_repeatable:
                raise
            log.warning("%s may have been stored; retrying in %.1f s: %s", what, pause, error)
        except (StoreBusyError, StoreFullError, StoreIOError, StoreUnavailableError) as error:
            log.warning("%s is retried in %.1f s: %s", what, pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
