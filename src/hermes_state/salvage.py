"""A damaged file: kept aside, and replaced by a new one with everything SQLite can still read.

Nothing of the damaged file is deleted. The new file is built beside it and put in its place when it
is complete; after a crash at any moment before, the next open begins again from the same damaged
file. One process salvages, others that open the store wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from .connection import (
    BUSY_TIMEOUT,
    Database,
    is_hollow,
    open_connection,
    patient_busy_handler,
    translated,
)
from .dialect import value
from .file_header import is_doubtful, is_wrong, make_fixed_copy, read_header, says_too_few
from .losses import note_loss
from .migrations import prepare
from .opening import FileConnection
from .salvage_rows import bring_over, has_unreadable_text

log = logging.getLogger(__name__)

PATIENCE = 600.0
"""How many seconds to wait for another process that is salvaging the same file."""

_WITH_IT = ("-wal", "-shm", "-journal")


@dataclass(slots=True)
class SalvageReport:
    """What became of a damaged database."""

    moved_to: Path
    """Where the damaged file is now, untouched."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows of each table were brought over."""
    damaged_tables: list[str] = field(default_factory=list)
    """Tables in which something could not be read."""

    def __str__(self) -> str:
        kept = ", ".join(f"{count} {table}" for table, count in self.rows.items() if count)
        lost = ", ".join(self.damaged_tables) or "none"
        return (
            f"The database was damaged. It was moved to {self.moved_to}; brought over: "
            f"{kept or 'nothing'}; tables with unreadable parts: {lost}."
        )

    def note_damage(self, table: str) -> None:
        """Remember that something in this table could not be read."""
        if table not in self.damaged_tables:
            self.damaged_tables.append(table)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def is_damaged(path: Path) -> bool:
    """Whether anything is wrong with the file; reads all of it."""
    if is_hollow(path):
        return True
    try:
        with closing(open_connection(path, readonly=True, busy_timeout=BUSY_TIMEOUT)) as connection:
            if value(connection, "PRAGMA integrity_check(1)") != "ok":
                return True
            return has_unreadable_text(connection)
    except (apsw.CorruptError, apsw.NotADBError):
        return True
    except apsw.Error as error:
        raise translated(error, path) from error


@contextlib.contextmanager
def salvaging_alone(path: Path) -> Iterator[None]:
    """While this is entered no other process salvages the database at `path`."""
    lock_path = _beside(path, ".salvage-lock")
    try:
        with closing(apsw.Connection(str(lock_path))) as lock:
            lock_path.chmod(0o600)
            lock.set_busy_handler(patient_busy_handler(PATIENCE))
            lock.execute("BEGIN EXCLUSIVE")
            yield
    except apsw.Error as error:
        raise translated(error, lock_path) from error


def salvage(path: Path) -> SalvageReport:
    """Put a new database with everything that can be read in the place of the damaged one."""
    report = SalvageReport(_set_aside(path))
    fresh = _beside(path, ".salvaging")
    for leftover in (fresh, *(_beside(fresh, suffix) for suffix in _WITH_IT)):
        leftover.unlink(missing_ok=True)
    with closing(Database(fresh)) as database:
        prepare(database)
        database.outside_transaction(lambda conn: conn.execute("PRAGMA foreign_keys = 0"))
        with _readable(report.moved_to, _beside(path, ".mending")) as source:
            database.write(lambda conn: bring_over(source, conn, report))
        if report.damaged_tables:
            database.write(lambda conn: note_loss(conn, str(report)))
    for suffix in _WITH_IT:
        # Before the new file is there: SQLite would take an old -wal for its own.
        _beside(path, suffix).unlink(missing_ok=True)
    fresh.replace(path)
    log.error("%s", report)
    return report


@contextlib.contextmanager
def _readable(moved: Path, copy: Path) -> Iterator[Path]:
    """The damaged file itself or, if its header is wrong, a copy in which that is fixed."""
    header = read_header(moved)
    is_odd = is_wrong(header) or is_doubtful(header) or says_too_few(moved, header)
    if not is_odd and _is_open_to_sqlite(moved):
        yield moved
        return
    try:
        yield copy if make_fixed_copy(moved, copy) else moved
    finally:
        for suffix in ("", *_WITH_IT):
            _beside(copy, suffix).unlink(missing_ok=True)


def _is_open_to_sqlite(path: Path) -> bool:
    """Whether SQLite sees any table in the file."""
    if path.stat().st_size == 0:
        return True  # its log must not be touched
    try:
        with closing(FileConnection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            return value(connection, "SELECT 1 FROM sqlite_schema LIMIT 1") is not None
    except apsw.Error:
        return False


def _set_aside(path: Path) -> Path:
    """Give the damaged file a second name; what was set aside by a run that crashed is used."""
    for earlier in path.parent.glob(f"{path.name}.damaged-*"):
        if not earlier.name.endswith(_WITH_IT) and earlier.samefile(path):
            return earlier
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    moved = _beside(path, f".damaged-{stamp}")
    for suffix in (*_WITH_IT, ""):  # the file itself last: it stands for all of them
        part = _beside(path, suffix)
        if part.exists():
            # Under its own name a journal would keep SQLite from reading anything.
            target = _beside(moved, suffix.replace("-journal", ".journal"))
            try:
                target.hardlink_to(part)
            except OSError:  # a file system without links
                shutil.copy2(part, target)
    return moved
