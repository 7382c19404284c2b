"""The session store: every conversation, in one SQLite file, kept for good.

from hermes_state import SessionDB

with SessionDB("state.db") as db:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "Hello")
    db.get_messages_as_conversation("s1")
"""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .aio import AsyncSessionDB
    from .db import SessionDB
    from .rotation import Rotation

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


# Whoever needs only a leaf (errors, redaction) does not load SQLite, nor asyncio.
_LATER = {"AsyncSessionDB": "aio", "Rotation": "rotation", "SessionDB": "db"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found
