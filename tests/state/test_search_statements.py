"""How many statements a search takes: few, however much it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_state.search.engine import SearchIndex

from .search_store import SearchStore

pytestmark = pytest.mark.sqlite


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of connections that are opened from now on, in order."""
    statements: list[str] = []

    def note(_cursor: apsw.Cursor, sql: str, _values: Any) -> bool:
        statements.append(sql)
        return True

    hooks = [*apsw.connection_hooks, lambda conn: conn.set_exec_trace(note)]
    monkeypatch.setattr(apsw, "connection_hooks", hooks)
    return statements


@pytest.fixture
def store(tmp_path: Path, executed: list[str]) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path)
    for number in range(40):
        store.session(f"s{number}", title=f"about lamps {number}")
        store.message(f"s{number}", "before")
        store.message(f"s{number}", f"the lamp number {number} of the hall is lit")
        store.message(f"s{number}", "after")
    store.index.catch_up()
    store.ids("warm")
    yield store
    store.close()


@pytest.mark.parametrize("query", ["lamp", "lamp lit", '"the lamp"', '"of the"', "lam*"])
def test_reading_more_hits_takes_no_more_statements(
    store: SearchStore, executed: list[str], query: str
) -> None:
    counts = []
    for limit in (2, 30):
        store.ids(query, limit=limit)
        executed.clear()
        assert len(store.ids(query, limit=limit)) == limit
        counts.append(len(executed))
    few, many = counts
    assert many <= few + 2  # their neighbours may be too many for one statement
    assert many <= 20


def test_what_each_search_asks_of_the_index_is_kept_until_it_changes(
    store: SearchStore, executed: list[str]
) -> None:
    def reads_spans() -> bool:
        executed.clear()
        store.ids("lamp")
        return any("FROM span" in sql for sql in executed)

    assert not reads_spans()
    number = store.message("s0", "another lamp")
    assert reads_spans()
    assert not reads_spans()
    assert number in store.ids("another")


def test_a_group_of_hits_larger_than_one_statement_reads(store: SearchStore) -> None:
    hits = store.index.search_messages("number", limit=100)
    assert len(hits) == 40
    for hit in hits:
        assert [message["content"] for message in hit["context"]][::2] == ["before", "after"]
        assert hit["title"] == f"about lamps {hit['session_id'][1:]}"
        assert ">>>number<<<" in hit["snippet"]


def test_a_neighbour_that_is_only_a_long_call_is_shown(store: SearchStore) -> None:
    calls = '[{"function": {"name": "write_file", "arguments": "' + "word " * 2000 + '"}}]'
    store.session("long")
    store.message("long", None, "assistant", tool_calls=calls)
    number = store.message("long", "unmistakable")
    (hit,) = store.index.search_messages("unmistakable")
    assert hit["id"] == number
    assert "write_file" in hit["context"][0]["content"]


def test_a_search_that_finds_nothing_asks_for_little(
    store: SearchStore, executed: list[str]
) -> None:
    executed.clear()
    assert store.ids("unheard") == []
    assert len(executed) <= 5  # begin, both files, the word, longer words, end


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("lamp before", 5),  # begin, both files, matches, longer words, end
        ('"lit the"', 4),  # begin, both files, matches, end
        ("unheard lamp", 4),  # without asking for matches
    ],
)
def test_words_that_never_stand_together_take_few_statements(
    tmp_path: Path, executed: list[str], query: str, most: int
) -> None:
    store = SearchStore(tmp_path)
    store.session("s")
    store.message("s", "before")
    store.message("s", "the lamp is lit")
    assert store.ids(query) == store.ids(query) == []
    executed.clear()
    assert store.ids(query) == []
    assert len(executed) <= most
    assert not any("count(*)" in sql for sql in executed)  # how common they are does not matter
    store.close()


def test_longer_words_of_a_common_one_are_not_looked_for_beside_a_rare_one(
    tmp_path: Path, executed: list[str]
) -> None:
    store = SearchStore(tmp_path)
    store.session("s")
    for number in range(40):
        store.message("s", f"the lamp {number} of the hall; others are lamplight")
    both = store.message("s", "the unmistakable lamp")
    assert store.ids("lamp unmistakable") == store.ids("lamp unmistakable") == [both]
    executed.clear()
    assert store.ids("lamp unmistakable") == [both]
    assert sum("word_part MATCH" in sql for sql in executed) == 1
    assert sum("MATCH" in sql for sql in executed) == 3  # the matches, how many, longer words
    store.close()


@pytest.mark.parametrize("query", ["lamp", "lamp lit", '"of the hall"', "unheard", "lam*", "amp"])
def test_searching_again_prepares_no_statement_anew(
    store: SearchStore, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    prepared: list[object] = []

    def note(*what: object) -> int:
        prepared.append(what)
        return apsw.SQLITE_OK

    hooks = [*apsw.connection_hooks, lambda conn: conn.set_authorizer(note)]
    monkeypatch.setattr(apsw, "connection_hooks", hooks)
    other = SearchIndex(store.state_path, store.search_path)
    try:
        other.search_messages(query)  # finds out how far the index is
        other.search_messages(query)  # sees that nothing has changed since
        assert prepared
        prepared.clear()
        other.search_messages(query)
        assert prepared == []
    finally:
        other.close()


def test_longer_words_are_not_looked_for_where_they_could_add_nothing(
    store: SearchStore, executed: list[str]
) -> None:
    def passes(query: str, *expected: int) -> int:
        executed.clear()
        assert sorted(store.ids(query)) == sorted(expected)
        return sum("relevance(doc_" in sql for sql in executed)

    both = store.message("s0", "the unmistakable lamp")
    store.message("s0", "streetlamps and lamplight")
    store.index.catch_up()
    assert passes("lamp unmistakable", both) == 1
    longer = store.message("s0", "an unmistakable streetlamp")
    store.index.catch_up()
    assert passes("lamp unmistakable", both, longer) == 2


def test_parts_of_many_words_are_looked_for_a_few_at_a_time(
    store: SearchStore, executed: list[str]
) -> None:
    longer = store.message("s0", "streetlamps unhooked forthcoming yesterdays bookshelf overdue")
    store.ids("lamp hook")
    executed.clear()
    assert store.ids("lamp hook thcom terda kshel verdu") == [longer]
    assert sum("word_part MATCH" in sql for sql in executed) == 2
