"""Searching the messages of the store.

A search first brings the index up to date, then

1. turns the query and its filters into a full-text expression (`query`, `filters`);
2. takes the newest few hundred matches and ranks them (`run`). Older ones follow in further
   blocks of that kind: page after page comes out the same, and the commonest word costs no more
   than a rare one;
3. if these are fewer than were asked for, looks for bare words inside longer words as well;
4. reads the messages that it returns, for snippets and context (`hits`).

Every match is checked against the store itself: deleted and rewound messages vanish at once, and
owner and time are compared exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..codec import without_surrogates
from ..errors import StoreCorruptedError, StoreUnavailableError
from . import feed as search_feed
from .collect import Wanted
from .feed import Progress
from .filters import Filters
from .hits import read_hits
from .index import IndexConnection, IndexFile
from .query import Query, parse
from .question import read_question
from .run import Search
from .vocabulary import is_listed

if TYPE_CHECKING:
    from ..meaning.embedder import Embedder
    from ..meaning.meaning import Likeness, Meaning
    from .mirror import Mirror

T = TypeVar("T")

MOST_HITS = 10_000
TITLES_SHARE = 5
"""One in so many hits of a page may be a title that comes before the messages."""
BUDGET = 0.04
"""Seconds of work after which a search looks at no further, older part of the index."""


class SearchIndex:
    """Full-text search over `state.db`, with an index in a file of its own; usable by threads.

    With a mirror, the store is on a server, and `state_path` is the mirror's file.
    """

    def __init__(
        self,
        state_path: Path | str,
        search_path: Path | str,
        *,
        mirror: Mirror | None = None,
        budget: float = BUDGET,
    ) -> None:
        self._file = IndexFile(Path(state_path), Path(search_path))
        self.mirror = mirror
        self.meaning: Meaning | None = None
        self._budget = budget

    def search_by_meaning(self, embedder: Callable[[], Embedder | None]) -> Meaning:
        """From now on search by meaning too, with the model that `embedder` gives, if any."""
        from ..meaning.meaning import Meaning

        path = self._file.path.with_name("vectors.db")
        self.meaning = Meaning(self._file.state_path, path, embedder)
        return self.meaning

    def feed_meaning(self) -> None:
        """Make the vectors that are missing, in the background; nothing without a model."""
        if self.meaning is None or not self.meaning.is_usable:
            return
        if self.mirror is not None:
            self.mirror.catch_up(None)
        self.meaning.feed_in_background()

    def close(self) -> None:
        """Close the index; closing twice is fine."""
        if self.meaning is not None:
            self.meaning.close()
        self._file.close()
        if self.mirror is not None:
            self.mirror.close()

    def _run(
        self,
        work: Callable[[IndexConnection], T],
        progress: Progress | None = None,
        *,
        anew: bool = False,
    ) -> T:
        """Run `work` on the index of a store that is a file, or once the mirror has caught up."""
        mirror = self.mirror
        if mirror is None:
            return self._file.run(work)
        mirror.catch_up(_half(progress, 0), anew=anew)
        try:
            return self._file.run(work)
        except StoreCorruptedError:
            mirror.discard()  # the index is rebuilt by itself, so this is what is damaged
        except StoreUnavailableError:
            if mirror.path.exists():  # else it was deleted meanwhile
                raise
        mirror.catch_up(_half(progress, 0))
        return self._file.run(work)

    def catch_up(self, progress: Progress | None = None) -> int:
        """Read what was stored since the last time; returns how many messages that were.

        `progress` is called with (done, total) after each batch. Searches do this by themselves.
        """
        report = progress if self.mirror is None else _half(progress, 1)
        return self._run(lambda conn: search_feed.catch_up(self._file, conn, report), progress)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Build the index from nothing; returns how many messages were read."""
        report = progress if self.mirror is None else _half(progress, 1)
        return self._run(
            lambda conn: search_feed.catch_up(self._file, conn, report, anew=True),
            progress,
            anew=True,
        )

    def optimize(self) -> int:
        """Merge what many small batches left behind; returns how many tables were merged."""
        return self._run(lambda conn: search_feed.optimize(self._file, conn))

    def search_messages(
        self,
        query: str,
        source_filter: Iterable[str] | str | None = None,
        exclude_sources: Iterable[str] | str | None = None,
        role_filter: Iterable[str] | str | None = None,
        limit: int = 20,
        offset: int = 0,
        sort: str | None = None,
        include_inactive: bool = False,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        conversation_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        one_per_conversation: bool = False,
        related: bool = False,
        explain: bool = False,
    ) -> list[dict[str, Any]]:
        """Messages (and titles) that match what a person typed, best first.

        With `related`, messages that fit it in part follow, if it is a question (see `question`).
        With `explain`, each hit has a `why`: what matched, and how it was ranked.
        `sort` may be "newest" or "oldest". `since` and `until` are times in seconds. `match` in a
        hit says how it was found: "exact", "partial" (a word inside a longer one), "title" or
        "related".
        """
        parsed = parse(query) if isinstance(query, str) else Query()
        first, last = max(0, int(offset)), min(MOST_HITS, max(0, int(offset)) + int(limit))
        if not parsed.groups or first >= last:
            return []
        filters = Filters(
            sources=_names(source_filter),
            without_sources=_names(exclude_sources),
            roles=_names(role_filter),
            user_id=None if user_id is None else _storable(str(user_id)),
            session_id=None if session_id is None else _storable(str(session_id)),
            conversation_id=None if conversation_id is None else _storable(str(conversation_id)),
            since=since,
            until=until,
            include_inactive=include_inactive,
        )
        wanted = Wanted(
            need=last,
            order=sort if sort in ("newest", "oldest") else None,
            one_per_conversation=one_per_conversation,
            titles_first=max(1, (last - first) // TITLES_SHARE),
            budget=self._budget,
        )

        question = read_question(query, parsed, time.time()) if related else None
        asked = [
            word
            for group in parsed.groups
            for term in group
            for word in (term.words[:-1] if term.prefix else term.words)
            if is_listed(word)
        ]

        def likeness() -> Likeness | None:
            return None if self.meaning is None else self.meaning.question(query)

        def work(conn: IndexConnection) -> list[dict[str, Any]]:
            occurring = search_feed.begin_current(self._file, conn, asked)
            try:
                search = Search(conn, parsed, filters, wanted, occurring, question, likeness)
                hits = search.hits()[first:last]
                read = read_hits(conn, hits, include_inactive)
                if explain:
                    why = {(kind, hit[:2]): search.explain(hit, kind) for hit, kind, _ in hits}
                    for hit in read:
                        hit["why"] = why[hit["match"], (hit["id"], hit["session_id"])]
                return read
            finally:
                if conn.in_transaction:  # SQLite ends it by itself when it finds damage
                    conn.execute("ROLLBACK")

        return self._run(work)


def _half(progress: Progress | None, which: int) -> Progress | None:
    """Tells the progress of one of two halves: copying to the mirror, then building the index."""
    if progress is None:
        return None
    return lambda done, total: progress((done + which * total) // 2, total)


def _names(value: Iterable[str] | str | None) -> tuple[str, ...]:
    """A filter's values; a single name may be given without a list around it."""
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else value
    return tuple(dict.fromkeys(_storable(str(name)) for name in names))


def _storable(text: str) -> str:
    """`text` without lone surrogates, which no stored value contains."""
    return without_surrogates(text)
