"""The file `search-mirror.db`: what search reads of a store on a server, kept on this machine.

The search index reads a store that is a file. For a store on a server that file is this mirror: the
same tables, with the columns that search reads, so that search is one and the same for both. The
file is derived, one per machine, and may be deleted at any time. It holds

- sessions, messages   copies of the server's rows; of a very long message the beginning
- search_changes       notes for the index, numbered here in the order in which they were learnt
- state_meta           `store_id`, another one for each mirror that is made; none until it is whole
- mirrored             one row: which snapshot of which past of the server was read

Every search first asks the server what was committed since that snapshot (see `follow`).
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from ..connection import patient_busy_handler, private_folder, translated, use_wal
from ..dialect import column, tuples
from ..errors import StoreClosedError
from ..lost_log import logs_of
from ..opening import FileConnection
from . import server_rows
from .feed import Progress
from .follow import Follower, read_state
from .index import LOCK_WAIT, delete_database, file_id, is_damage

if TYPE_CHECKING:
    from ..server import ServerDatabase

log = logging.getLogger(__name__)

T = TypeVar("T")


class Mirror:
    """Follows a store on a server; usable by threads and shared by the machine's processes."""

    def __init__(self, database: ServerDatabase, path: Path) -> None:
        self.path = path.absolute()
        self._database = database
        self._lock = threading.Lock()
        """Held by the thread that uses the connection; the others of this process wait for it."""
        self._begun = self._done = 0
        self._connection: FileConnection | None = None
        self._files: tuple[object, ...] = ()
        self._closed = False
        self._pid = os.getpid()

    # The file

    def _open(self) -> FileConnection:
        """The connection; a new one if the file was deleted or replaced."""
        if self._closed or os.getpid() != self._pid:
            raise StoreClosedError(f"The search mirror {self.path} was closed; open it again.")
        files = self._identity()
        if self._connection is not None and files != self._files:
            self._disconnect()
            if files[0] is not None and files[0] == self._files[0]:
                delete_database(self.path)  # its log is gone, and with it some of its rows
        if self._connection is not None:
            return self._connection
        private_folder(self.path.parent)
        is_new = not self.path.exists()
        conn = FileConnection(str(self.path), statementcachesize=64)
        try:
            if is_new and self.path.exists():
                self.path.chmod(0o600)  # before anything is in it; -wal and -shm inherit the mode
            conn.set_busy_handler(patient_busy_handler(LOCK_WAIT))
            use_wal(conn, LOCK_WAIT)
            conn.execute("PRAGMA synchronous = NORMAL")
            conn.execute("PRAGMA journal_size_limit = 16777216").fetchall()
            tuples(conn, "SELECT 1 FROM sqlite_schema")  # makes the log, if there is none
        except BaseException:
            conn.close()
            raise
        self._connection, self._files = conn, self._identity()
        return conn

    def _identity(self) -> tuple[object, ...]:
        path = str(self.path)
        return (file_id(path), *logs_of(path))

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with self._lock:
            self._closed = True
            if os.getpid() == self._pid:
                self._disconnect()

    def discard(self) -> None:
        """Delete the file; the next search makes it anew."""
        with self._lock:
            self._disconnect()
            delete_database(self.path)

    def _run(self, work: Callable[[FileConnection], T]) -> T:
        """Run `work` on the connection; a damaged file is discarded and tried anew."""
        for retry in (True, False):
            try:
                return work(self._open())
            except apsw.Error as error:
                damaged = self._files[0] if self._connection is not None else None
                self._disconnect()
                if not (retry and is_damage(error)):
                    raise translated(error, self.path) from error
                log.warning("The search mirror %s is damaged (%s); it is rebuilt", self.path, error)
                if damaged in (None, file_id(str(self.path))):  # else it was replaced already
                    delete_database(self.path)
            except BaseException:
                self._disconnect()  # a transaction may be open
                raise
        raise AssertionError("unreachable")

    # Following the server

    def catch_up(self, progress: Progress | None = None, *, anew: bool = False) -> None:
        """Bring the mirror up to what the server holds now.

        What was committed before this is called is there when it returns. `progress` is called
        with (done, total) while everything is copied for the first time.
        """
        enough = self._begun + 1  # begun after this call, so it sees what was committed before
        with self._lock:
            if self._done >= enough and not anew:
                return  # another thread has asked the server meanwhile
            self._begun += 1
            number = self._begun
            self._run(lambda conn: Follower(self._database, conn, self.path).run(progress, anew))
            self._done = number

    def missing(self) -> list[int]:
        """Messages that the mirror should hold and does not; copies left out."""
        self.catch_up()
        with self._lock:
            return self._run(self._find_missing)

    def _find_missing(self, conn: FileConnection) -> list[int]:
        state = read_state(conn)
        assert state is not None, "the mirror has caught up"
        missing: list[int] = []
        after = 0
        while True:
            ask = functools.partial(server_rows.read_seen_ids, seen=state.seen, after=after)
            ids = self._database.read(ask)
            if not ids:
                return missing
            between = "SELECT id FROM messages WHERE id BETWEEN ? AND ?"
            known = set(column(conn, between, (ids[0], ids[-1])))
            missing += [message_id for message_id in ids if message_id not in known]
            after = ids[-1]
