"""What the measurements of the session store share: their sizes, their files, the big store.

Files are made when a measurement first asks for them and serve all that follow, so that a single
measurement can be run alone and a whole run makes nothing twice.
"""

from __future__ import annotations

import functools
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from hermes_state import SessionDB

from .corpus import Corpus
from .measure import progress
from .processes import Child

TEXT_COLUMNS = ("content", "tool_calls", "reasoning", "reasoning_content")
"""What counts as the text of a message when its weight on disk is judged."""

SLOW_PHASE = 30.0
"""Seconds after which a phase that waits for the disk does not go on repeating itself."""


@dataclass(frozen=True)
class Sizes:
    """How much each measurement does."""

    append_rounds: int
    append_chunk: int
    """Messages that one side appends before the next has its turn."""
    conversation: int
    load_rounds: int
    writers: int
    writer_rounds: int
    writer_messages: int
    """Messages that each of the writing processes appends in a round."""
    stored: int
    """Messages in the big store."""
    session_length: int
    search_rounds: int
    import_rounds: int
    long_megabytes: tuple[float, ...]
    """Sizes of single messages, in rising order."""


FULL = Sizes(
    append_rounds=10,
    append_chunk=1000,
    conversation=5000,
    load_rounds=25,
    writers=8,
    writer_rounds=3,
    writer_messages=400,
    stored=1_000_000,
    session_length=200,
    search_rounds=7,
    import_rounds=25,
    long_megabytes=(1, 8, 43),
)
QUICK = Sizes(
    append_rounds=5,
    append_chunk=200,
    conversation=5000,
    load_rounds=9,
    writers=8,
    writer_rounds=1,
    writer_messages=100,
    stored=25_000,
    session_length=200,
    search_rounds=3,
    import_rounds=15,
    long_megabytes=(1, 4),
)


@dataclass
class Lab:
    """Where a run takes place."""

    folder: Path
    sizes: Sizes
    yardstick: str | None
    """The interpreter that has hermes-agent 0.19.0, if there is one."""
    durability: dict[str, str] = field(default_factory=dict)
    """Journal mode and PRAGMA synchronous of each side, as asked of its writing connection."""

    @property
    def sides(self) -> list[str]:
        """Who is measured: ours, bare and, where it is installed, theirs."""
        return ["ours", "bare", *(["theirs"] if self.yardstick else [])]

    def child(self, side: str, path: Path, *, seed: int = 1) -> Child:
        """A process that has `path` open with the store of `side`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        python = self.yardstick if side == "theirs" else None
        child = Child(self.folder / "home", python=python, seed=seed)
        opened = child.ask("open", kind="bare" if side == "bare" else "store", path=str(path))
        self.durability[side] = f"{opened['journal_mode']}/{opened['synchronous']}"
        return child

    @functools.cached_property
    def big(self) -> Path:
        """A store with `sizes.stored` messages, closed."""
        path = self.folder / "big" / "state.db"
        path.parent.mkdir()
        started = time.perf_counter()
        corpus = Corpus(seed=3, stream=self._stream)
        rng = random.Random(5)
        length, wanted = self.sizes.session_length, self.sizes.stored
        with SessionDB(path) as db:
            for first in range(0, wanted, length):
                # Most are from one place, some from another, few from a third.
                source = rng.choices(("telegram", "cli", "cron"), (0.7, 0.298, 0.002))[0]
                session_id = f"20260101_{first // length:06d}_{rng.getrandbits(24):06x}"
                db.create_session(session_id, source, user_id=f"user-{rng.randrange(40)}")
                db.append_messages(session_id, corpus.messages(min(length, wanted - first)))
                if (first // length + 1) % 1000 == 0:
                    rate = (first + length) / (time.perf_counter() - started)
                    progress(f"filling the store: {first + length:,} of {wanted:,}, {rate:,.0f}/s")
        return path

    @functools.cached_property
    def index_seconds(self) -> float:
        """How long building the search index of the big store took; from then on it is there."""
        progress(f"building the search index over {self.sizes.stored:,} messages")
        said = 0

        def report(done: int, total: int) -> None:
            nonlocal said
            if done * 5 // max(total, 1) > said:
                said = done * 5 // total
                rate = done / (time.perf_counter() - started)
                progress(f"building the search index: {done:,} of {total:,}, {rate:,.0f}/s")

        with SessionDB(self.big) as db:
            started = time.perf_counter()
            db.search_index.catch_up(report)
            return time.perf_counter() - started

    @functools.cached_property
    def conversation(self) -> Path:
        """A store with one long conversation, `long`, closed."""
        path = self.folder / "conversation" / "state.db"
        with SessionDB(path) as db:
            db.create_session("long", "cli")
            db.append_messages("long", Corpus(seed=2).messages(self.sizes.conversation))
        return path

    @functools.cached_property
    def theirs(self) -> Path:
        """A store of hermes-agent with the conversation `long`, closed."""
        path = self.folder / "theirs" / "state.db"
        with self.child("theirs", path, seed=2) as child:
            child.ask("create", session="long")
            child.ask("prepare", count=self.sizes.conversation)
            child.ask("append", session="long")
            child.ask("close")
        return path

    @functools.cached_property
    def theirs_big(self) -> Path:
        """A store of hermes-agent with the messages of the big store, closed."""
        path = self.folder / "theirs-big" / "state.db"
        sizes = self.sizes
        length, stream = sizes.session_length, self._stream
        step = max(1, sizes.stored // 10 // length) * length
        with self.child("theirs", path) as child, ThreadPoolExecutor() as meanwhile:
            ours = meanwhile.submit(lambda: self.big)  # if that is not filled yet
            for first in range(0, sizes.stored, step):
                progress(f"theirs: filling its store: {first:,} of {sizes.stored:,}")
                last = min(sizes.stored, first + step)
                child.ask("fill", stored=last, length=length, stream=stream, first=first)
            child.ask("close")
            ours.result()
        return path

    @property
    def _stream(self) -> int:
        """How many words the messages of the big stores are drawn from."""
        return min(1_500_000, 40 * self.sizes.stored)


def text_bytes(path: Path) -> int:
    """Bytes of text in the messages of a store."""
    terms = " + ".join(f"COALESCE(SUM(OCTET_LENGTH({name})), 0)" for name in TEXT_COLUMNS)
    return int(query(path, f"SELECT {terms} FROM messages")[0][0])


def disk_bytes(path: Path) -> dict[str, int]:
    """Bytes on disk of every file that belongs to the store at `path`, by name."""
    return {
        found.name: found.stat().st_size
        for found in sorted(path.parent.iterdir())
        if found.name.startswith((path.name, "search.db"))
    }


def query(path: Path, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Read from a store past its own code, whoever wrote it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()
