"""PostgreSQL's errors by the store's own names, with a word on what to do."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from .errors import (
    InvalidMessageError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

CONFLICTS = (pg.UniqueViolation, pg.DeadlockDetected, pg.SerializationFailure)
"""Two writes met; run again with the store to itself, this one finds what the other has written."""

_STARTING = (pg.CannotConnectNow, pg.AdminShutdown, pg.CrashShutdown)
_NO_ROOM_FOR_US = (pg.TooManyConnections,)
_WRONG_TYPES = (pg.UndefinedFunction, pg.DatatypeMismatch, pg.AmbiguousFunction)
"""A number where a text belongs: there is no `=` between the two."""
_REFUSED = (
    pg.InvalidPassword,
    pg.InvalidAuthorizationSpecification,
    pg.InvalidCatalogName,
    pg.InsufficientPrivilege,
)


# What refuses a connection comes without its code; only its text says which it is.
_REFUSED_TEXTS = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "permission denied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "is not currently accepting connections",
)
_NO_ROOM_TEXTS = ("too many clients", "too many connections", "connection slots are reserved")
_STARTING_TEXTS = ("starting up", "shutting down", "in recovery mode", "not yet accepting")


def _says(error: psycopg.Error, texts: tuple[str, ...]) -> bool:
    """Whether a connection was refused for one of these reasons."""
    said = str(error)
    is_answer = "FATAL:" in said or "no password supplied" in said
    return error.sqlstate is None and is_answer and any(text in said for text in texts)


def is_passing(error: psycopg.Error) -> bool:
    """Whether a server that could not be connected to may take us in a moment."""
    if isinstance(error, _REFUSED) or _says(error, _REFUSED_TEXTS):
        return False
    # Without a code nobody answered, or the answer did not come in time.
    return error.sqlstate is None or isinstance(error, (*_STARTING, *_NO_ROOM_FOR_US))


def named(error: psycopg.Error, where: str) -> StoreError:
    """The store's own error for one of the server's."""
    said = " ".join(str(error).split())
    if isinstance(error, pg.LockNotAvailable | pg.DeadlockDetected):
        return StoreBusyError(
            f"Another process is writing to {where} and did not finish in time; nothing was"
            " written. Try again."
        )
    if isinstance(error, pg.QueryCanceled):
        return StoreBusyError(
            f"{where} took too long over one statement and was stopped; nothing was written. Try"
            " again, or see what keeps the server busy (pg_stat_activity)."
        )
    if isinstance(error, pg.IdleInTransactionSessionTimeout):
        return StoreBusyError(
            f"This process was silent in the middle of a write to {where} for too long, again and"
            " again, so the server has ended it; nothing was written. Try again when the machine"
            " is less busy."
        )
    if isinstance(error, pg.DiskFull):
        return StoreFullError(
            f"No room left on the disk of {where}; nothing was written. Free some."
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return StoreReadOnlyError(
            f"{where} takes no writes: it is a standby, or set to read-only. Point `store` at the"
            " primary (with several hosts: target_session_attrs=read-write)."
        )
    if isinstance(error, _NO_ROOM_FOR_US) or _says(error, _NO_ROOM_TEXTS):
        return StoreBusyError(
            f"{where} has no connection left for us; nothing was written. Raise max_connections, or"
            " lower store_connections."
        )
    if isinstance(error, _REFUSED) or _says(error, _REFUSED_TEXTS):
        return StoreUnavailableError(f"{where} refuses: {said}. Check user, password and rights.")
    if isinstance(error, _STARTING) or _says(error, _STARTING_TEXTS):
        return StoreUnavailableError(f"{where} is starting or stopping ({said}). Try again soon.")
    if "unsupported startup parameter" in said:
        return StoreUnavailableError(
            f"{where} is reached through a PgBouncer, which takes no settings from us ({said})."
            " Name the server's own address: notifications and time-outs belong to a session."
        )
    cannot_adapt = isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
    if cannot_adapt or isinstance(
        error, (psycopg.DataError, pg.ProgramLimitExceeded, *_WRONG_TYPES)
    ):
        return InvalidMessageError(f"A value that cannot be stored: {said}")
    if isinstance(error, pg.IoError):
        return StoreIOError(f"Reading or writing on the server of {where} failed: {said}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailableError(
            f"{where} cannot be reached ({said}). Check that the server runs and the address is"
            " right."
        )
    return StoreError(f"{where}: {said}")
