"""The session store: every conversation, in one SQLite file, kept for good.

from hermes_state import SessionDB

with SessionDB("state.db") as db:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "Hello")
    db.get_messages_as_conversation("s1")
"""

from typing import TYPE_CHECKING, Any

from .db import SessionDB
from .errors import (
    InvalidMessageError,
    NewerStoreError,
    SessionEndedError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptedError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownSessionError,
    UnsafeSQLiteError,
)
from .rotation import Rotation

if TYPE_CHECKING:
    from .aio import AsyncSessionDB

__all__ = [
    "AsyncSessionDB",
    "InvalidMessageError",
    "NewerStoreError",
    "Rotation",
    "SessionDB",
    "SessionEndedError",
    "StoreBusyError",
    "StoreClosedError",
    "StoreCorruptedError",
    "StoreError",
    "StoreFullError",
    "StoreIOError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "UnknownSessionError",
    "UnsafeSQLiteError",
]


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than everything else here together.
    if name == "AsyncSessionDB":
        from .aio import AsyncSessionDB

        return AsyncSessionDB
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
