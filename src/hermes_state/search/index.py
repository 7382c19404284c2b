"""The file `search.db`: what is in it, and the connections to it.

The file is derived from `state.db` and may be deleted at any time. It holds

- feed               one row: which store was read, and how far
- doc_0, doc_1, …    the messages, one full-text table per 131,072 message ids. A search goes from
                     table to table and stops when it has enough, so it need not read them all
- span               which times the message ids cover (see `spans`)
- title, title_doc   the titles of sessions
- word, word_part    every distinct word (see `vocabulary`)

The full-text tables store no text. Before its words a document has facets: words that cannot be
typed, for its session, source, role and owner. So filters are part of the full-text expression.
After its words come pairs of common ones (see `pairs`).

Invariant: the contents of the file and the `feed` row change in one transaction, so whatever kills
the process, the file is as far as `feed` says.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from ..connection import (
    patient_busy_handler,
    private_folder,
    require_safe_sqlite,
    translated,
    use_wal,
)
from ..dialect import tuples
from ..errors import StoreClosedError, StoreUnavailableError
from ..lost_log import require_one_log
from ..opening import FileConnection
from . import spans as search_spans
from . import vocabulary as search_vocabulary
from .rank import Scorer

log = logging.getLogger(__name__)

T = TypeVar("T")
FileId = tuple[int, int] | None

FORMAT = 2
"""`PRAGMA user_version` of the file; raise it whenever words or tables are made differently."""

LOCK_WAIT = 5.0
IDLE_CONNECTIONS = 4

_DOCUMENTS = "fts5(body, content='', contentless_delete=1, tokenize='ascii')"
_SCHEMA = (
    "CREATE TABLE feed (store_id TEXT, message_seq INTEGER NOT NULL, change_seq INTEGER NOT NULL,"
    " last_id INTEGER, last_time REAL, common_words TEXT NOT NULL,"
    " built BLOB NOT NULL DEFAULT (randomblob(8)))",  # so that no two that were built are equal
    *search_spans.SCHEMA,
    "CREATE TABLE title (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE)",
    f"CREATE VIRTUAL TABLE title_doc USING {_DOCUMENTS}",
    *search_vocabulary.SCHEMA,
)


def facet(kind: str, value: str) -> str:
    """The word that marks documents by session (s), source (o), role (r) or owner (u)."""
    return f"§{kind}{blake2b(value.encode(errors='replace'), digest_size=8).hexdigest()}"


def parts(conn: FileConnection) -> list[int]:
    """The numbers of the full-text tables there are, ascending."""
    names = tuples(
        conn, "SELECT name FROM sqlite_schema WHERE name GLOB 'doc_[0-9]*' AND rootpage = 0"
    )
    return sorted(int(name[4:]) for (name,) in names)


def create_part(conn: FileConnection, part: int) -> None:
    """Make the full-text table for messages with these ids if there is none yet."""
    if part not in parts(conn):
        conn.execute(f"CREATE VIRTUAL TABLE doc_{part} USING {_DOCUMENTS}")
        # Words are gathered in memory up to this size; a batch then makes one sorted run.
        conn.execute(f"INSERT INTO doc_{part} (doc_{part}, rank) VALUES ('hashsize', 16777216)")


def create(conn: FileConnection) -> None:
    """Make an empty index, dropping whatever was in the file."""
    create_tables(conn, (*_SCHEMA, f"PRAGMA user_version = {FORMAT}"))


def create_tables(conn: FileConnection, statements: Iterable[str]) -> None:
    """Run the statements that make tables, dropping whatever was in the file."""
    names = tuples(
        conn,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " ORDER BY rootpage",  # virtual tables (0) come first and take their own tables with them
    )
    for (name,) in names:
        quoted = name.replace('"', '""')
        conn.execute(f'DROP TABLE IF EXISTS "{quoted}"')
    for statement in statements:
        conn.execute(statement)


class Outline(NamedTuple):
    """What a search asks of the index whatever it looks for; kept while `feed` stays the same."""

    feed: tuple[Any, ...]
    """The row it belongs to."""
    common: frozenset[str]
    """The words whose pairs are in the index."""
    parts: list[int]
    spans: search_spans.Spans
    has_titles: bool


class IndexConnection(FileConnection):
    """A connection to `search.db` with `state.db` attached read-only as `state`."""

    files: tuple[FileId, FileId]
    """Which files it is connected to."""
    scorer: Scorer
    """Computes relevance in queries on this connection."""
    versions: tuple[int, int] | None = None
    """`data_version` of both files when the index was last found to be current; else None."""
    reached: tuple[int, int] = (0, 0)
    """How far the index was then."""
    outline: Outline | None = None
    """As of the last search."""

    def require_outline(self) -> Outline:
        """The outline, which there is once the index was found to be at hand."""
        assert self.outline is not None
        return self.outline


def file_id(path: str) -> FileId:
    """Which file is there."""
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as quick, and asked for with every search
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def is_damage(error: apsw.Error) -> bool:
    """Whether an error means that the index file is unusable, rather than busy or full."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return True
    missing = ("no such table", "no such column", "vtable constructor failed")
    return isinstance(error, apsw.SQLError) and str(error).startswith(missing)


def delete_database(path: Path) -> None:
    """Delete a derived file that is damaged."""
    try:
        # The file itself last: as long as it is there nobody makes new ones beside it.
        for suffix in ("-wal", "-shm", ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"The damaged search index {path} cannot be deleted ({error.strerror}). "
            "Delete it by hand; it is rebuilt from the session store."
        ) from error


class IndexFile:
    """Hands out connections, notices when the files were replaced, and discards a damaged index."""

    def __init__(self, state_path: Path, search_path: Path) -> None:
        require_safe_sqlite()
        self.state_path = state_path.absolute()
        self.path = search_path.absolute()
        self._names = str(self.state_path), str(self.path)
        self.feeding = threading.Lock()
        """Held by the thread that feeds the index; the others of this process wait for it."""
        self._guard = threading.Lock()
        self._idle: list[IndexConnection] = []
        self._closed = False
        self._pid = os.getpid()

    def _files(self) -> tuple[FileId, FileId]:
        return file_id(self._names[0]), file_id(self._names[1])

    def _open(self) -> IndexConnection:
        private_folder(self.path.parent)
        is_new = not self.path.exists()
        conn = IndexConnection(
            str(self.path),
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI,
            statementcachesize=256,
        )
        try:
            if is_new and self.path.exists():
                self.path.chmod(0o600)  # before anything is in it; -wal and -shm inherit the mode
            # Else SQLite prepares a statement anew for each value that might change its plan, which
            # takes longer than most of a search's statements.
            conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            conn.set_busy_handler(patient_busy_handler(LOCK_WAIT))
            use_wal(conn, LOCK_WAIT)
            conn.execute("PRAGMA synchronous = NORMAL")
            conn.execute("PRAGMA journal_size_limit = 16777216").fetchall()
            conn.execute("PRAGMA cache_size = -16000")
            self._attach_store(conn)
            conn.execute("PRAGMA state.cache_size = -8000")
            conn.scorer = Scorer()
            conn.register_fts5_function("relevance", conn.scorer)
            conn.files = self._files()
        except BaseException:
            conn.close()
            raise
        return conn

    def _attach_store(self, conn: FileConnection) -> None:
        require_one_log(self.state_path)
        try:
            conn.execute("ATTACH ? AS state", (self.state_path.as_uri() + "?mode=ro",))
            conn.execute("SELECT 1 FROM state.sqlite_schema").fetchall()
        except apsw.Error as error:
            raise translated(error, self.state_path) from error

    def _take(self, files: tuple[FileId, FileId]) -> IndexConnection:
        """A connection to these files that nobody else uses."""
        if self._closed or os.getpid() != self._pid:
            raise StoreClosedError(f"The search index {self.path} was closed; open it again.")
        if files[0] is None:
            raise StoreUnavailableError(f"There is no session store {self.state_path} to search.")
        while True:
            with self._guard:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._open()
            if idle.files == files:
                return idle
            idle.close()  # the files were deleted or replaced since

    def _give_back(self, conn: IndexConnection) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(conn)
                return
        conn.close()

    def run(self, work: Callable[[IndexConnection], T]) -> T:
        """Run `work` on a connection of its own; a damaged index is discarded and tried anew."""
        for retry in (True, False):
            files = self._files()
            try:
                conn = self._take(files)
                try:
                    result = work(conn)
                except BaseException:
                    conn.close()
                    raise
                self._give_back(conn)
                return result
            except apsw.Error as error:
                if not (retry and is_damage(error)):
                    raise translated(error, self.path) from error
                log.warning("The search index %s is damaged (%s); it is rebuilt", self.path, error)
            self._discard(files[1])
        raise AssertionError("unreachable")

    def _discard(self, index_file: FileId) -> None:
        """Delete the index file, unless another process has already replaced it."""
        with self._guard:
            stale, self._idle = self._idle, []
        for conn in stale:
            conn.close()
        if file_id(self._names[1]) == index_file:
            delete_database(self.path)

    def close(self) -> None:
        """Close every connection; closing twice is fine."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        if os.getpid() == self._pid:
            for conn in idle:
                conn.close()
