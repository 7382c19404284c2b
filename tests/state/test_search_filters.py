"""Filters are exact, whatever the index believes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .search_store import SearchStore


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    yield store
    store.close()


@pytest.fixture
def people(store: SearchStore) -> dict[str, int]:
    """One message each, all with the word "plan"."""
    store.session("cli-none", "cli")
    store.session("tg-ann", "telegram", user_id="ann")
    store.session("tg-bob", "telegram", user_id="bob")
    store.session("tg-ann-2", "telegram", user_id="ann", conversation_id="tg-ann")
    return {
        "cli": store.message("cli-none", "the plan", "user"),
        "ann": store.message("tg-ann", "the plan", "assistant"),
        "bob": store.message("tg-bob", "the plan", "tool", tool_name="terminal"),
        "ann 2": store.message("tg-ann-2", "the plan", "user"),
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"cli", "ann", "bob", "ann 2"}),
        ({"source_filter": ["telegram"]}, {"ann", "bob", "ann 2"}),
        ({"source_filter": "cli"}, {"cli"}),
        ({"source_filter": ["cli", "telegram"]}, {"cli", "ann", "bob", "ann 2"}),
        ({"source_filter": ["nowhere"]}, set()),
        ({"exclude_sources": ["telegram"]}, {"cli"}),
        ({"exclude_sources": "cli"}, {"ann", "bob", "ann 2"}),
        ({"role_filter": ["user"]}, {"cli", "ann 2"}),
        ({"role_filter": ("assistant", "tool")}, {"ann", "bob"}),
        ({"role_filter": []}, {"cli", "ann", "bob", "ann 2"}),
        ({"user_id": "ann"}, {"ann", "ann 2"}),
        ({"user_id": ""}, set()),
        ({"session_id": "tg-ann"}, {"ann"}),
        ({"conversation_id": "tg-ann"}, {"ann", "ann 2"}),
        ({"conversation_id": "tg-ann-2"}, set()),
        ({"user_id": "ann", "role_filter": "user", "source_filter": "telegram"}, {"ann 2"}),
    ],
)
def test_filters(
    store: SearchStore, people: dict[str, int], options: dict[str, Any], expected: set[str]
) -> None:
    names = {number: name for name, number in people.items()}
    assert {names[number] for number in store.found("plan", **options)} == expected


def test_time(store: SearchStore) -> None:
    store.session("s1")
    numbers = [store.message("s1", "tick", timestamp=float(n)) for n in range(100)]
    assert store.found("tick", since=10, until=19.5) == set(numbers[10:20])
    assert store.found("tick", since=95) == set(numbers[95:])
    assert store.found("tick", until=2) == set(numbers[:3])
    assert store.found("tick", since=200) == set()


def test_old_times_under_new_ids(store: SearchStore) -> None:
    store.session("now")
    store.session("imported")
    now = [store.message("now", "tick", timestamp=5000.0 + n) for n in range(5000)]
    old = [store.message("imported", "tick", timestamp=float(n)) for n in range(9000)]
    last = store.message("now", "tick", timestamp=10_000.0)
    assert store.ids("tick", sort="newest", limit=3) == [last, now[-1], now[-2]]
    assert store.ids("tick", sort="oldest", limit=2) == old[:2]
    assert store.found("tick", since=4000, until=4002) == set(old[4000:4003])
    assert store.found("tick", since=9999, until=10_000) == {last, now[-1]}


def test_new_times_under_old_ids(store: SearchStore) -> None:
    """As when conversations are imported from the newest to the oldest."""
    store.session("s1")
    numbers = [
        store.message("s1", "tick", timestamp=1e6 - 10_000 * (n // 10) + n % 10) for n in range(400)
    ]
    assert store.ids("tick", sort="newest", limit=2) == [numbers[9], numbers[8]]
    assert store.ids("tick", sort="oldest", limit=2) == numbers[-10:-8]


def test_rewound_messages_are_hidden_and_compacted_ones_found(store: SearchStore) -> None:
    store.session("s1")
    live = store.message("s1", "egg")
    rewound = store.message("s1", "egg", active=0)
    compacted = store.message("s1", "egg", active=0, compacted=1)
    assert store.found("egg") == {live, compacted}
    assert store.found("egg", include_inactive=True) == {live, rewound, compacted}
    store.db.execute("UPDATE messages SET active = 0 WHERE id = ?", (live,))
    assert store.found("egg") == {compacted}


def test_copies_are_found_once_and_archived_sessions_too(store: SearchStore) -> None:
    store.session("s1", archived=1)
    store.session("s2")
    original = store.message("s1", "egg")
    store.message("s2", "egg", origin_id=original)
    assert store.found("egg") == {original}


def test_titles_obey_owner_source_and_time(store: SearchStore) -> None:
    store.session("a", "telegram", user_id="ann", title="Harvest plan")
    store.session("b", "cli", user_id="bob", title="Harvest party")
    started = {
        row[0]: row[1] for row in store.db.execute("SELECT id, started_at FROM sessions").fetchall()
    }

    def titled(**options: Any) -> set[str]:
        return {hit["session_id"] for hit in store.index.search_messages("harvest", **options)}

    assert titled() == {"a", "b"}
    assert titled(user_id="ann") == {"a"}
    assert titled(user_id="eve") == set()
    assert titled(source_filter="cli") == {"b"}
    assert titled(exclude_sources="cli") == {"a"}
    assert titled(since=started["b"]) == {"b"}
    assert titled(until=started["a"]) == {"a"}
    assert titled(role_filter="user") == titled(session_id="a") == set()


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([None, "ann", "bob", "ANN", "ann ", "", "é"]),
            st.sampled_from(["plan", "planning", "the plan"]),
        ),
        max_size=12,
    ),
    owner=st.sampled_from(["ann", "bob", "ANN", "ann ", "", "é", "eve"]),
    query=st.sampled_from(["plan", "pla*", "lann", "plan OR the", "title"]),
    options=st.sampled_from([{}, {"one_per_conversation": True}, {"sort": "newest"}]),
)
def test_owners_never_leak_into_each_other(
    store: SearchStore,
    rows: list[tuple[str | None, str]],
    owner: str,
    query: str,
    options: dict[str, Any],
) -> None:
    store.clear()
    owners = {}
    for number, (user_id, text) in enumerate(rows):
        session = store.session(f"s{number}", user_id=user_id, title=f"title {number}")
        owners[session] = user_id
        store.message(session, text)
    hits = store.index.search_messages(query, user_id=owner, limit=1000, **options)
    assert all(owners[hit["session_id"]] == owner for hit in hits)
    if query == "pla*" and not options:
        wanted = {session for session, user_id in owners.items() if user_id == owner}
        assert {hit["session_id"] for hit in hits} == wanted


def test_a_changed_owner_counts_at_once(store: SearchStore) -> None:
    store.session("s1", user_id="ann", title="Plan")
    number = store.message("s1", "the plan")
    assert store.found("plan", user_id="ann") == {number}
    store.db.execute("UPDATE sessions SET user_id = 'bob'")
    # Not even a change that the index was never told of leaks to the former owner.
    assert store.index.search_messages("plan", user_id="ann") == []
    store.changed("s1")
    assert store.found("plan", user_id="bob") == {number}
    assert store.found("plan", "title", user_id="bob") == {number}
    assert store.index.search_messages("plan", user_id="ann") == []
