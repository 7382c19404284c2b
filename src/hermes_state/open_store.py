"""Opening a store in whatever state its file is: upgraded, and salvaged first if it is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from .connection import Database, damage_marker, is_hollow
from .errors import StoreCorruptedError, StoreUnavailableError
from .file_header import is_doubtful, is_wrong, read_header, says_too_few
from .migrations import prepare, refuse_newer

if TYPE_CHECKING:
    from .salvage import SalvageReport
    from .server import ServerDatabase


def open_store(
    path: Path, busy_timeout: float, server: str | None = None, connections: int | None = None
) -> tuple[Database | ServerDatabase, SalvageReport | None]:
    """Open (or create, or upgrade) the store; a report says what was saved of a damaged one."""
    if server is not None:
        return open_server(server, busy_timeout, connections), None
    marker = damage_marker(path)
    report: SalvageReport | None = None
    try:
        if marker.exists() or is_hollow(path) or _has_doubtful_header(path):
            from .salvage import is_damaged, salvage, salvaging_alone

            with salvaging_alone(path):
                if path.exists() and is_damaged(path):
                    report = salvage(path)
                marker.unlink(missing_ok=True)
        return _prepared(path, busy_timeout), report
    except StoreCorruptedError:
        return _salvaged(path, busy_timeout, report)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be opened ({error.strerror}). Check its permissions."
        ) from error


def open_server(address: str, busy_timeout: float, connections: int | None) -> ServerDatabase:
    """Open the store in a database of a server."""
    try:
        from .server import CONNECTIONS, ServerDatabase
    except ImportError as error:
        raise StoreUnavailableError(
            "A store on PostgreSQL needs the package psycopg, which is not installed. Install it"
            " with the extra `postgres`."
        ) from error
    return ServerDatabase(
        address, busy_timeout=busy_timeout, connections=connections or CONNECTIONS
    )


def _salvaged(
    path: Path, busy_timeout: float, report: SalvageReport | None
) -> tuple[Database, SalvageReport | None]:
    from .salvage import salvage, salvaging_alone

    with salvaging_alone(path):
        try:
            return _prepared(path, busy_timeout), report
        except StoreCorruptedError:  # no other process has salvaged it meanwhile
            report = salvage(path)
        damage_marker(path).unlink(missing_ok=True)
        return _prepared(path, busy_timeout), report


def _header(path: Path) -> bytes:
    """The file's header; empty if there is none, or it cannot be read: opening it says why."""
    try:
        return read_header(path) if path.exists() else b""
    except (apsw.Error, OSError):
        return b""


def _has_doubtful_header(path: Path) -> bool:
    header = _header(path)
    return is_doubtful(header) or says_too_few(path, header)


def _prepared(path: Path, busy_timeout: float) -> Database:
    if is_wrong(_header(path)):
        raise StoreCorruptedError(f"{path} is damaged: its first bytes are not what they must be.")
    refuse_newer(path, busy_timeout)
    database = Database(path, busy_timeout=busy_timeout)
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return database
