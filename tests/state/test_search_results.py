"""What a hit looks like, and in which order hits come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .search_store import SearchStore


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    yield store
    store.close()


def test_a_hit_has_everything_needed_to_show_it(store: SearchStore) -> None:
    store.session("s1", "telegram", model="m1", title="Garden", conversation_id="c1")
    store.message("s1", "before")
    number = store.message("s1", "We plant\n\ntulips  today", "assistant", timestamp=5.0)
    store.message("s1", "hidden", active=0)
    store.message("s1", "after " * 100, "tool", tool_name="terminal")
    (hit,) = store.index.search_messages("tulips")
    context = hit.pop("context")
    started = hit.pop("session_started")
    assert started == store.db.execute("SELECT started_at FROM sessions").fetchall()[0][0]
    assert hit == {
        "id": number,
        "session_id": "s1",
        "conversation_id": "c1",
        "role": "assistant",
        "snippet": "We plant >>>tulips<<< today",
        "timestamp": 5.0,
        "tool_name": None,
        "source": "telegram",
        "model": "m1",
        "title": "Garden",
        "match": "exact",
    }
    assert [part["role"] for part in context] == ["user", "assistant", "tool"]
    assert [part["content"] for part in context[:2]] == ["before", "We plant tulips today"]
    assert len(context[2]["content"]) == 200


@pytest.mark.parametrize(
    ("text", "query", "snippet"),
    [
        ("Größe zählt", "grosse", ">>>Größe<<< zählt"),
        ("foo_bar.py is it", "foo_bar.py", ">>>foo_bar.py<<< is it"),
        ("to be or not", '"to be"', ">>>to be<<< or not"),
        ("redeployment", "deploy", ">>>redeployment<<<"),
        ("deployment done", "deplo*", ">>>deployment<<< done"),
        ("我们的数据库很快", "数据库", "我们的>>>数据库<<<很快"),
        ("x " * 300 + "needle" + " y" * 300, "needle", ">>>needle<<<"),
    ],
)
def test_snippets_mark_what_matched(
    store: SearchStore, text: str, query: str, snippet: str
) -> None:
    store.session("s1")
    store.message("s1", text)
    (hit,) = store.index.search_messages(query)
    assert snippet in hit["snippet"]
    assert len(hit["snippet"]) < 180


def test_the_snippet_shows_most_of_the_words(store: SearchStore) -> None:
    store.session("s1")
    store.message("s1", "apple " + "x " * 3000 + "the apple and a pear " + "y " * 3000 + "pear")
    (hit,) = store.index.search_messages("apple pear")
    assert ">>>apple<<< and a >>>pear<<<" in hit["snippet"]


def test_tool_names_and_arguments_are_found_and_shown(store: SearchStore) -> None:
    store.session("s1")
    arguments = json.dumps({"path": "notes/plan.md", "text": "line one\nzebra"})
    calls = json.dumps([{"id": "1", "function": {"name": "write_file", "arguments": arguments}}])
    call = store.message("s1", "I write it down.", "assistant", tool_calls=calls)
    result = store.message("s1", "done", "tool", tool_name="write_file")
    store.message("s1", None, reasoning="zebra")
    assert store.found("zebra") == {call}
    assert store.found("write_file") == {call, result}
    (hit,) = store.index.search_messages("zebra")
    assert ">>>zebra<<<" in hit["snippet"]
    assert store.found('"down write"') == set()  # not one text


def test_parts_are_found_and_embedded_data_is_not(store: SearchStore) -> None:
    store.session("s1")
    number = store.message(
        "s1",
        [
            {"type": "text", "text": "what is this lamp"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,lamp/QUJD/zzz"}},
        ],
    )
    assert store.found("lamp") == {number}
    assert store.found("QUJD") == set()
    broken = store.message("s1", ["half \ud83d smile"])
    assert store.found("smile") == {broken}


def test_titles_are_hits_of_their_own(store: SearchStore) -> None:
    store.session("s1", title="Kitchen plans")
    first = store.message("s1", "hello")
    second = store.message("s1", "about the kitchen")
    store.session("s2", title="Kitchen chairs")
    hits = store.index.search_messages("kitchen")
    assert {(hit["match"], hit["id"]) for hit in hits} == {
        ("title", first),
        ("title", None),
        ("exact", second),
    }
    title = next(hit for hit in hits if hit["id"] == first)
    assert title["snippet"] == ">>>Kitchen<<< plans"
    assert title["context"][0] == {"role": "user", "content": "hello"}
    assert store.found("itchen", "title", session_id="s1") == set()
    store.db.execute("UPDATE sessions SET title = 'Garage' WHERE id = 's1'")
    store.changed("s1", "title")
    assert store.found("kitchen", "title") == {None}
    assert store.found("garage", "title") == {first}


def test_phrases_in_titles(store: SearchStore) -> None:
    store.session("s1", title="To be or not to be")
    store.session("s2", title="The end of the be to")
    assert [hit["session_id"] for hit in store.index.search_messages('"or not to be"')] == ["s1"]
    assert [hit["session_id"] for hit in store.index.search_messages('"be to"')] == ["s2"]


def test_at_most_one_hit_per_conversation(store: SearchStore) -> None:
    for number in range(30):
        store.session(f"s{number}", conversation_id=f"c{number % 10}")
        for _ in range(60):
            store.message(f"s{number}", "apple")
    hits = store.index.search_messages("apple", one_per_conversation=True, limit=100)
    assert sorted(hit["conversation_id"] for hit in hits) == [f"c{n}" for n in range(10)]
    pages = [
        hit["conversation_id"]
        for offset in (0, 4, 8)
        for hit in store.index.search_messages(
            "apple", one_per_conversation=True, limit=4, offset=offset
        )
    ]
    assert pages == [hit["conversation_id"] for hit in hits]


def test_pages_together_are_the_whole(store: SearchStore) -> None:
    store.session("s1")
    numbers = {store.message("s1", f"apple {'pie ' * (n % 7)}") for n in range(1000)}
    pages = [store.ids("apple", limit=150, offset=offset) for offset in range(0, 1050, 150)]
    assert [len(page) for page in pages] == [150] * 6 + [100]
    assert {number for page in pages for number in page} == numbers
    assert store.ids("apple", limit=1000) == [number for page in pages for number in page]
    assert store.ids("apple", limit=0) == store.ids("apple", limit=-3) == []


def test_order_of_relevance(store: SearchStore) -> None:
    store.session("s1")
    filler = "lorem ipsum dolor sit amet " * 20
    for n in range(50):
        store.message("s1", f"common {n}")
    far = store.message("s1", f"apple {filler} pear")
    close = store.message("s1", f"apple pear {filler}")
    often = store.message("s1", "apple pear apple pear")
    assert store.ids("apple pear") == [often, close, far]
    rare = store.message("s1", "common common rare")
    many = store.message("s1", "common common common")
    assert store.ids("rare OR common", limit=2) == [rare, many]


def test_order_of_time(store: SearchStore) -> None:
    store.session("s1")
    numbers = [store.message("s1", "apple") for _ in range(5)]
    assert store.ids("apple", sort="newest") == numbers[::-1]
    assert store.ids("apple", sort="oldest") == numbers
    assert store.ids("apple", sort="newest", limit=2, offset=1) == [numbers[3], numbers[2]]


def test_a_very_long_message(store: SearchStore) -> None:
    store.session("s1")
    text = " ".join(f"word{n % 5000}" for n in range(600_000)) + " haystack needle end"
    number = store.message("s1", text)
    after = store.message("s1", "short")
    (hit,) = store.index.search_messages("needle")
    assert hit["id"] == number
    assert ">>>needle<<<" in hit["snippet"]
    assert len(hit["context"][0]["content"]) <= 200
    assert store.found('"haystack needle end"') == {number}
    assert store.found("word4321") == {number}
    assert store.found("short") == {after}


def test_a_long_message_of_parts(store: SearchStore) -> None:
    store.session("s1")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50_000}}
    number = store.message("s1", [{"type": "text", "text": 'a "lamp"\nhere'}, image])
    (hit,) = store.index.search_messages("lamp")
    assert (hit["id"], hit["snippet"]) == (number, 'a ">>>lamp<<<" here')
    assert hit["context"][0]["content"] == 'a "lamp" here'


@pytest.mark.sqlite
def test_text_that_is_not_valid_unicode_is_still_indexed(store: SearchStore) -> None:
    store.session("s1")
    number = store.message("s1", "x")
    store.db.execute(
        "UPDATE messages SET content = CAST(x'6C616D7020FF20626164' AS TEXT) WHERE id = ?",
        (number,),
    )
    other = store.message("s1", "lamp")
    assert store.found("lamp") == {number, other}


@pytest.mark.sqlite
def test_an_odd_time_in_an_old_store_does_no_harm(store: SearchStore) -> None:
    store.session("s1")
    odd = store.message("s1", "lamp", timestamp="yesterday")
    good = store.message("s1", "lamp")
    assert store.ids("lamp", sort="newest") == [good, odd]
