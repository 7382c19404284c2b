"""The compression lock: one process at a time compresses a session.

The lock is a lease in the store. Its holder renews it while it works; a holder that was killed
loses it at once to its own machine, and to others when the lease runs out. The lock only avoids
duplicate work: the commit is safe without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator

from hermes_base.process import is_gone, this_process
from hermes_state import SessionDB, StoreError, at_hand

log = logging.getLogger(__name__)

LEASE = 60.0
_LOOK_INTERVAL = 1.0


@contextlib.asynccontextmanager
async def compression_lock(
    db: SessionDB | None, session_id: str, patience: float, lease: float = LEASE
) -> AsyncIterator[bool]:
    """Hold the session's compression lock; gives False if it could not be taken.

    Then another process holds it for longer than `patience` seconds, or has finished: the session
    has a continuation.
    """
    if db is None:
        yield True
        return
    holder = f"{this_process()}|{os.urandom(6).hex()}"
    if not await _acquire(db, session_id, holder, patience, lease):
        yield False
        return
    keeper = asyncio.create_task(_keep(db, session_id, holder, lease))
    try:
        yield True
    finally:
        keeper.cancel()
        try:
            await at_hand(db, db.release_compression_lock, session_id, holder)
        except StoreError as error:
            log.warning("The compression lock of %s is left to expire: %s", session_id, error)


async def _acquire(
    db: SessionDB, session_id: str, holder: str, patience: float, lease: float
) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while True:
        seen = db.wake.number
        held = await at_hand(db, _try, db, session_id, holder, lease)
        if held is not None:
            return held
        if loop.time() >= deadline:
            return False
        await db.wake.wait_async(seen, min(_LOOK_INTERVAL, max(0.0, deadline - loop.time())))


def _try(db: SessionDB, session_id: str, holder: str, lease: float) -> bool | None:
    """Take the lock, also from a dead holder; None if another process holds it.

    False if the session has gone on in another one.
    """
    while not db.try_acquire_compression_lock(session_id, holder, lease):
        other = db.get_compression_lock_holder(session_id)
        if other is None or not _is_holder_dead(other):
            return None if db.get_compression_tip(session_id) == session_id else False
        db.release_compression_lock(session_id, other)
    return True


def _is_holder_dead(holder: str) -> bool:
    """Whether the process of a holder has certainly ended."""
    return is_gone(holder.rpartition("|")[0])


async def _keep(db: SessionDB, session_id: str, holder: str, lease: float) -> None:
    """Renew the lease until cancelled."""
    while True:
        await asyncio.sleep(lease / 3)
        try:
            if not await at_hand(db, db.refresh_compression_lock, session_id, holder, lease):
                log.warning("The compression lock of %s was lost to another process", session_id)
                return
        except StoreError as error:
            log.warning("The compression lock of %s was not renewed: %s", session_id, error)
