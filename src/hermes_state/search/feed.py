"""Feeding the index: what was stored since the last time, in short transactions.

Two cursors say how far the index is: over message ids (new messages) and over `search_changes`
(titles, owners, deletions, rewritten messages). Each batch is one write transaction that reads the
cursors anew, so any number of processes may feed at once and each message is read once.

An index that belongs to another store, or to another past of this one (a restored backup), is
noticed here and started over.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from ..connection import translated
from ..dialect import tuples, value
from ..opening import FileConnection
from . import pairs as search_pairs
from . import spans as search_spans
from .batch import BATCH_ROWS, Batch
from .document import as_text, content_text
from .folding import words
from .index import FORMAT, IndexConnection, IndexFile, Outline, create, create_part, facet, parts
from .pairs import pairs
from .source import SOURCE_ROWS, SourceMessage, texts_of
from .vocabulary import OCCURS, add_words

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with (messages done, messages to do) after each batch."""

CHANGES_PER_BATCH = 256
LATE_MESSAGE = "message"
"""The kind of a change that names a message, not a session; only a mirror notes it."""
LONGEST_TITLE = 10_000
"""Characters of a title that can be found."""
STUCK_AFTER = 60.0
"""Seconds to wait for another process that holds the index and makes no progress."""
MOST_ASKED = 4
"""Words of which one statement says whether they occur."""

_OPENING = "BEGIN; SELECT (SELECT 1 FROM feed), (SELECT 1 FROM state.state_meta)"
"""Begins to read both files; what these rows say does not matter."""
_OPENINGS = [_OPENING + f", {OCCURS}" * count for count in range(MOST_ASKED + 1)]
"""The same, asking as well for so many words."""


class Position(NamedTuple):
    """How far the index is, and how far the store."""

    store_id: str | None
    message_seq: int
    change_seq: int
    last_id: int | None
    """The newest message that was read, and its time: if that changes, so has the past."""
    last_time: float | None
    now_store_id: str | None
    now_message_seq: int
    now_change_seq: int
    now_last_time: float | None

    def invalid(self) -> str | None:
        """Why the index cannot be carried on, if so."""
        if self.store_id != self.now_store_id:
            return "it belongs to another store"
        if self.message_seq > self.now_message_seq or self.change_seq > self.now_change_seq:
            return "it is ahead of the store"
        if self.now_last_time is not None and self.last_time != self.now_last_time:
            return "the store has another past"
        return None

    def is_current(self) -> bool:
        """Whether there is nothing to do."""
        return not self.invalid() and self.reached(self.now_message_seq, self.now_change_seq)

    def reached(self, message_seq: int, change_seq: int) -> bool:
        """Whether everything up to here has been read."""
        return self.message_seq >= message_seq and self.change_seq >= change_seq


def position(conn: FileConnection) -> Position | None:
    """Where the index stands; None if the file holds no index that we can read."""
    if conn.pragma("user_version", schema="main") != FORMAT:
        return None
    positions = tuples(
        conn,
        "SELECT feed.store_id, feed.message_seq, feed.change_seq, feed.last_id, feed.last_time,"
        " (SELECT value FROM state.state_meta WHERE key = 'store_id'),"
        " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'messages'), 0),"
        " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'search_changes'), 0),"
        " (SELECT CAST(timestamp AS REAL) FROM state.messages WHERE id = feed.last_id) FROM feed",
    )
    return Position(*positions[0]) if positions else None


def common_words(conn: FileConnection) -> frozenset[str]:
    """The words whose pairs are in the index."""
    return frozenset(str(value(conn, "SELECT common_words FROM feed")).split())


def catch_up(
    file: IndexFile, conn: IndexConnection, progress: Progress | None = None, *, anew: bool = False
) -> int:
    """Bring the index up to what the store holds now; returns how many messages were read.

    With `anew` everything in the index is dropped first.
    """
    if not anew and _is_current(conn):
        return 0
    with file.feeding:
        feeder = _Feeder(file, conn)
        if anew:
            feeder.transaction(lambda: feeder.start_over("a rebuild was asked for"))
        while not feeder.transaction(feeder.step):
            total = feeder.goal[0] - feeder.first
            if progress is not None and total > 0:
                progress(min(feeder.seq - feeder.first, total), total)
        if feeder.indexed > BATCH_ROWS or feeder.is_anew:
            _merge(conn, [*(f"doc_{part}" for part in feeder.parts), "word_part"])
        conn.reached = feeder.goal
    return feeder.indexed


def begin_current(
    file: IndexFile, conn: IndexConnection, asked: Sequence[str] = ()
) -> dict[str, bool]:
    """Begin a transaction: one view of both files, in which the index has caught up.

    Returns for some of the words `asked`, of which each must be listed, whether they occur.
    """
    while True:
        if conn.versions is not None:
            # In one statement: what a search that finds little costs is the number of these.
            asked = asked[:MOST_ASKED]
            opened = conn.execute(_OPENINGS[len(asked)], asked).fetchall()[0]
            if _versions(conn) == conn.versions:
                # Nobody has written since, so what is known of the index holds.
                return dict(
                    zip(asked, [present is not None for present in opened[2:]], strict=True)
                )
        else:
            conn.execute("BEGIN")
        if _is_current(conn) and _is_at_hand(conn):
            conn.versions = _versions(conn)
            return {}
        conn.execute("ROLLBACK")
        conn.versions = None
        catch_up(file, conn)
        conn.execute("BEGIN")
        if _is_at_hand(conn):  # the store may have gone on meanwhile
            return {}
        conn.execute("ROLLBACK")


def _versions(conn: IndexConnection) -> tuple[int, int]:
    """Numbers that change with each commit to a file; to be asked within a transaction."""
    return conn.data_version("main"), conn.data_version("state")


def _is_current(conn: IndexConnection) -> bool:
    """Whether there is nothing to read; notes how far the index is."""
    here = position(conn)
    if here is None or not here.is_current():
        return False
    conn.reached = here.message_seq, here.change_seq
    return True


def _is_at_hand(conn: IndexConnection) -> bool:
    """Whether what `catch_up` reached is still there: another process may have started over."""
    feed = tuples(
        conn, "SELECT * FROM feed WHERE message_seq >= ? AND change_seq >= ?", conn.reached
    )
    if not feed:
        return False
    if conn.outline is None or conn.outline.feed != feed[0]:
        conn.outline = Outline(
            feed[0],
            common_words(conn),
            parts(conn),
            search_spans.Spans(conn),
            bool(tuples(conn, "SELECT 1 FROM title LIMIT 1")),
        )
    return True


def optimize(file: IndexFile, conn: IndexConnection) -> int:
    """Merge each full-text table into one sorted run; returns how many tables there are."""
    if position(conn) is None:
        return 0
    tables = [*(f"doc_{part}" for part in parts(conn)), "title_doc", "word_part"]
    with file.feeding:
        _merge(conn, tables)
    return len(tables)


def _merge(conn: FileConnection, tables: Iterable[str]) -> None:
    try:
        for table in tables:
            conn.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        conn.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.BusyError:
        log.info("The search index is in use; its tables were not merged")


class _Feeder:
    """One run of `catch_up`."""

    def __init__(self, file: IndexFile, conn: IndexConnection) -> None:
        self.file = file
        self.conn = conn
        self.goal = (0, 0)
        self.first = 0
        self.seq = 0
        self.indexed = 0
        self.parts: set[int] = set()
        self.is_anew = False
        """Whether the index was started over."""
        self._started = False
        self._known: set[str] = set()
        self._facets: dict[str, str] = {}

    def transaction(self, work: Callable[[], bool]) -> bool:
        """Run `work` in a write transaction; wait for others as long as they make progress."""
        seen, since = None, time.monotonic()
        while True:
            try:
                self.conn.execute("BEGIN IMMEDIATE")
                break
            except apsw.BusyError:
                here = position(self.conn)
                if here != seen:
                    seen, since = here, time.monotonic()
                elif time.monotonic() - since > STUCK_AFTER:
                    raise
        try:
            done = work()
            self.conn.execute("COMMIT")
        except BaseException:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            raise
        return done

    def step(self) -> bool:
        """One batch; True when the index has reached what the store held at the beginning."""
        here = position(self.conn)
        reason = here.invalid() if here else "it is new, or of another version"
        if here is None or reason:
            self.start_over(reason or "")
            return False
        if not self._started:
            self._started = True
            self.goal = here.now_message_seq, here.now_change_seq
            self.first = here.message_seq
        if here.reached(*self.goal):
            return True
        if here.message_seq != self.seq:
            self._known.clear()  # another process has written in between
        self.seq = here.message_seq
        if here.change_seq < self.goal[1]:
            self._read_changes(here)
        else:
            self._read_messages(here)
        return False

    def start_over(self, reason: str) -> bool:
        log.info("Building the search index %s from nothing: %s", self.file.path, reason)
        self.is_anew = True
        conn = self.conn
        create(conn)
        counted, messages = self._sample()
        conn.execute(
            "INSERT INTO feed (store_id, message_seq, change_seq, common_words) VALUES ("
            " (SELECT value FROM state.state_meta WHERE key = 'store_id'), 0,"
            " coalesce((SELECT seq FROM state.sqlite_sequence WHERE name = 'search_changes'), 0),"
            " ?)",
            (" ".join(sorted(search_pairs.common_words(counted, messages))),),
        )
        self._known.clear()
        add_words(conn, counted, self._known)  # first, so that the commonest are numbered first
        self._started = False
        self.seq = 0
        titled = self._from_store(
            "SELECT id FROM state.sessions WHERE title IS NOT NULL ORDER BY started_at"
        )
        for (session_id,) in list(titled):
            self._read_title(session_id)
        return False

    def _from_store(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of the store."""
        with self._reading_store():
            yield from self.conn.execute(sql, values)

    @contextlib.contextmanager
    def _reading_store(self) -> Iterator[None]:
        """Damage found meanwhile is the store's, not the index's."""
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise translated(error, self.file.state_path) from error

    def _sample(self) -> tuple[Counter[str], int]:
        """In how many of some messages from all over the store each word occurs; how many."""
        counted: Counter[str] = Counter()
        last = (
            value(self.conn, "SELECT seq FROM state.sqlite_sequence WHERE name = 'messages'") or 0
        )
        size = min(last, search_pairs.SAMPLE)
        for number in range(size):
            for (content,) in self._from_store(
                "SELECT CASE WHEN octet_length(content) <= 65536 THEN CAST(content AS BLOB) END"
                " FROM state.messages WHERE id >= ? ORDER BY id LIMIT 1",
                (number * 2_654_435_761 % last,),  # evenly, but in no rhythm with the talk
            ):
                # Not a set: words that are equally common are numbered in the order they come.
                counted.update(list(dict.fromkeys(words(content_text(as_text(content))))))
        return counted, size

    def _read_messages(self, here: Position) -> None:
        batch = Batch(common_words(self.conn))
        rows = self._from_store(
            f"{SOURCE_ROWS} WHERE m.id > ? AND m.origin_id IS NULL ORDER BY m.id",
            (here.message_seq,),
        )
        self._fill(batch, rows)
        self._write(batch)
        search_spans.extend(self.conn, batch.times)
        self.seq = batch.last[0] if batch.last and batch.is_full else here.now_message_seq
        self.indexed += batch.rows
        self.conn.execute("UPDATE feed SET message_seq = ?", (self.seq,))
        if batch.last:
            self.conn.execute("UPDATE feed SET last_id = ?, last_time = ?", batch.last)

    def _fill(self, batch: Batch, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._reading_store():
            for message in map(SourceMessage._make, rows):
                texts = texts_of(self.conn, message)
                facets = self._facets_of(message)
                batch.add(message.id, message.timestamp, message.size, facets, texts)
                if batch.is_full:
                    return

    def _facets_of(self, message: SourceMessage) -> str:
        facets = [self._facet("s", message.session_id), self._facet("r", message.role)]
        if message.source is not None:
            facets.append(self._facet("o", message.source))
        if message.owner is not None:
            facets.append(self._facet("u", message.owner))
        return " ".join(facets)

    def _facet(self, kind: str, value: str) -> str:
        key = kind + value
        known = self._facets.get(key)
        if known is None:
            if len(self._facets) > 10_000:
                self._facets.clear()
            known = self._facets[key] = facet(kind, value)
        return known

    def _write(self, batch: Batch) -> None:
        conn = self.conn
        for part, documents in batch.documents.items():
            create_part(conn, part)
            self.parts.add(part)
            # A second document under the same id would leave the words of the first in place.
            conn.executemany(
                f"INSERT OR REPLACE INTO doc_{part} (rowid, body) VALUES (?, ?)", documents
            )
        add_words(conn, batch.counted, self._known)

    def _read_changes(self, here: Position) -> None:
        changes = list(
            self._from_store(
                "SELECT seq, session_id, kind FROM state.search_changes"
                " WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                (here.change_seq, self.goal[1], CHANGES_PER_BATCH),
            )
        )
        reached = changes[-1][0] if len(changes) == CHANGES_PER_BATCH else self.goal[1]
        late = sorted({int(row[1]) for row in changes if row[2] == LATE_MESSAGE})
        self._read_late([message_id for message_id in late if message_id <= here.message_seq])
        changes = [row for row in changes if row[2] != LATE_MESSAGE]
        for session_id in dict.fromkeys(row[1] for row in changes if row[2] == "session"):
            self._read_session(session_id, here.message_seq)
        for session_id in dict.fromkeys(row[1] for row in changes):
            self._read_title(session_id)
        self.conn.execute("UPDATE feed SET change_seq = ?", (reached,))

    def _read_late(self, ids: Sequence[int]) -> None:
        """Read messages that became visible after others with higher ids."""
        common = common_words(self.conn) if ids else frozenset()
        for message_id in ids:
            batch = Batch(common)
            self._fill(
                batch,
                self._from_store(
                    f"{SOURCE_ROWS} WHERE m.id = ? AND m.origin_id IS NULL", (message_id,)
                ),
            )
            self._write(batch)
            search_spans.include(self.conn, batch.times)
            self.indexed += batch.rows

    def _read_session(self, session_id: str, last_id: int) -> None:
        """Replace the session's documents by what the store holds now."""
        conn, mark = self.conn, f'"{facet("s", session_id)}"'
        common = common_words(conn)
        for part in parts(conn):
            old = conn.execute(
                f"SELECT rowid FROM doc_{part} WHERE doc_{part} MATCH ?", (mark,)
            ).fetchall()
            conn.executemany(f"DELETE FROM doc_{part} WHERE rowid = ?", old)
        rows = self._from_store(
            f"{SOURCE_ROWS} WHERE m.session_id = ? AND m.id <= ? AND m.origin_id IS NULL"
            " ORDER BY m.id",
            (session_id, last_id),
        )
        while True:
            batch = Batch(common)
            self._fill(batch, rows)
            self._write(batch)
            search_spans.include(conn, batch.times)
            if not batch.is_full:
                break

    def _read_title(self, session_id: str) -> None:
        conn = self.conn
        conn.execute(
            "DELETE FROM title_doc WHERE rowid = (SELECT id FROM title WHERE session_id = ?)",
            (session_id,),
        )
        sessions = list(
            self._from_store(
                "SELECT CAST(title AS BLOB), source, user_id FROM state.sessions"
                " WHERE id = ? AND title IS NOT NULL",
                (session_id,),
            )
        )
        if not sessions:
            conn.execute("DELETE FROM title WHERE session_id = ?", (session_id,))
            return
        title, source, owner = sessions[0]
        found_words = words((as_text(title) or "")[:LONGEST_TITLE])
        facets = [facet("o", source)] + ([facet("u", owner)] if owner is not None else [])
        conn.execute(
            "INSERT INTO title (session_id) VALUES (?) ON CONFLICT DO NOTHING", (session_id,)
        )
        conn.execute(
            "INSERT INTO title_doc (rowid, body) SELECT id, ? FROM title WHERE session_id = ?",
            (
                " ".join([*facets, *found_words, *pairs(found_words, common_words(conn))]),
                session_id,
            ),
        )
        add_words(conn, Counter(found_words), self._known)
