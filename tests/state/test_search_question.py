"""Questions find what they are about, although no message has all of their words."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state.search.forms import forms
from hermes_state.search.query import parse
from hermes_state.search.question import read_question
from hermes_state.search.times import asks_when, named_time, tells_time

from .search_store import SearchStore
from .test_search_query import typed_text

NOW = datetime.datetime(2026, 11, 18, 13).timestamp()


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    yield store
    store.close()


def asked(store: SearchStore, query: str, **options: Any) -> list[tuple[int, str]]:
    hits = store.index.search_messages(query, related=True, **options)
    return [(hit["id"], hit["match"]) for hit in hits]


def ids(store: SearchStore, query: str, **options: Any) -> list[int]:
    return [number for number, _ in asked(store, query, **options)]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("typed", "is_question", "about"),
    [
        ("What did we say about the roof?", True, ["roof"]),
        ("Was haben wir über das Dach gesagt?", True, ["dach"]),
        ("¿Qué dijimos del tejado?", True, ["dijimos", "tejado"]),
        ("where is tools/foo_bar.py", True, ["tools foo bar py"]),
        ("grandmother's well-known cake", True, ["grandmother", "well", "known", "cake"]),
        ("数据库什么时候备份", True, ["数 据", "据 库", "备 份"]),
        ("歯医者の予約はいつですか", True, ["歯 医", "医 者", "予 約"]),
        ("roof", True, ["roof"]),
        ("what about it", True, ["what", "about", "it"]),
        ('"the roof" leaks', False, []),
        ("roof -leak", False, []),
        ("roof OR leak", False, []),
        ("roof AND leak", False, []),
        ("roo*", False, []),
        ("", False, []),
    ],
)
def test_what_a_question_is_about(typed: str, is_question: bool, about: list[str]) -> None:
    question = read_question(typed, parse(typed), NOW)
    assert (question is not None) == is_question
    if question is not None:
        pieces = [" ".join(term.words) for term in question.pieces]
        assert [piece for piece in pieces if piece != "s"] == about


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("bought", "buy", "en"),
        ("went", "going", "en"),
        ("adopting", "adopted", "en"),
        ("recommendations", "recommend", "en"),
        ("stories", "story", "en"),
        ("running", "runs", "en"),
        ("knitting", "knit", "en"),
        ("zaune", "zaun", "de"),
        ("gezogen", "zieht", "de"),
        ("lieferte", "geliefert", "de"),
        ("maisons", "maison", "fr"),
        ("achete", "acheter", "fr"),
        ("fiestas", "fiesta", "es"),
        ("trabajando", "trabajo", "es"),
    ],
)
def test_forms(one: str, other: str, language: str) -> None:
    assert other in forms(one, (language,))
    assert one in forms(other, (language,))
    assert forms(one, (language,))[0] == one


def test_a_question_finds_what_it_is_about(store: SearchStore) -> None:
    store.session("s1")
    roof = store.message("s1", "The roof leaks again")
    store.message("s1", "Shall I call somebody?", "assistant")
    store.session("s2")
    other = store.message("s2", "Nora bought a lamp")
    assert ids(store, "what did we say about the roofs?")[0] == roof
    assert ids(store, "What has Nora been buying?")[0] == other
    assert store.ids("what did we say about the roofs?") == []  # all words are required


def test_what_has_all_words_comes_first(store: SearchStore) -> None:
    store.session("s1")
    rare = store.message("s1", "zanzibar zanzibar")
    for _ in range(20):
        store.message("s1", "filler")
    full = store.message("s1", "what about the roof of zanzibar")
    hits = asked(store, "what about the roof of zanzibar", limit=5)
    assert hits[0] == (full, "exact")
    assert (rare, "related") in hits


def test_keywords_that_match_are_left_alone(store: SearchStore) -> None:
    store.session("s1")
    both = store.message("s1", "lamp in the hall")
    lamp = store.message("s1", "lamp")
    assert asked(store, "lamp hall") == [(both, "exact")]
    assert ids(store, "lamp unheard") == [lamp, both]  # never nothing while something fits


def test_the_answer_beside_the_words_is_found(store: SearchStore) -> None:
    store.session("s1")
    store.message("s1", "How expensive was the new bicycle of Greta?")
    answer = store.message("s1", "Four hundred", "assistant")
    for session in range(2, 8):
        store.session(f"s{session}")
        store.message(f"s{session}", "Greta says hello")
        store.message(f"s{session}", "Nice", "assistant")
    assert answer in ids(store, "what did the bicycle of Greta cost?", limit=3)


def test_tool_results_do_not_part_an_answer_from_its_question(store: SearchStore) -> None:
    store.session("s1")
    store.message("s1", "Which port does the staging broker use?")
    for _ in range(12):
        store.message("s1", "output of a command", "tool", tool_name="terminal")
    answer = store.message("s1", "It is 5671", "assistant")
    assert answer in ids(store, "what is the port of the staging broker", limit=5)


def test_another_owners_words_do_not_count(store: SearchStore) -> None:
    store.session("mine", user_id="ann")
    store.session("theirs", user_id="bob")
    mine = store.message("mine", "the harp is in the attic")
    theirs = store.message("theirs", "where did we put the harp and the flute")
    assert ids(store, "where did we put the harp?", user_id="ann") == [mine]
    assert ids(store, "where did we put the harp?", user_id="bob") == [theirs]
    assert ids(store, "where did we put the harp?", user_id="eve") == []


def test_filters_hold(store: SearchStore) -> None:
    store.session("s1")
    said = store.message("s1", "the harp is broken", timestamp=100.0)
    answer = store.message("s1", "I am sorry", "assistant", timestamp=200.0)
    question = "what happened to the harp?"
    assert ids(store, question) == [said, answer]
    assert ids(store, question, role_filter="assistant") == [answer]
    assert ids(store, question, until=150.0) == [said]
    assert ids(store, question, since=150.0, role_filter="user") == []
    assert ids(store, question, source_filter="telegram") == []
    assert ids(store, question, exclude_sources="cli") == []
    assert ids(store, question, session_id="s2") == []
    assert ids(store, question, one_per_conversation=True) == [said]
    assert ids(store, question, sort="newest") == [answer, said]
    assert ids(store, question, sort="oldest") == [said, answer]


def test_what_was_rewound_or_deleted_is_gone_and_counts_no_more(store: SearchStore) -> None:
    store.session("s1")
    gone = store.message("s1", "the harp is broken")
    beside = store.message("s1", "I am sorry", "assistant")
    assert ids(store, "what about the harp?") == [gone, beside]
    store.db.execute("UPDATE messages SET active = 0 WHERE id = ?", (gone,))
    store.changed("s1")
    assert ids(store, "what about the harp?") == []
    assert ids(store, "what about the harp?", include_inactive=True) == [gone, beside]
    store.db.execute("DELETE FROM messages WHERE id = ?", (gone,))
    store.changed("s1")
    assert ids(store, "what about the harp?", include_inactive=True) == []


def test_pages_of_what_fits_in_part(store: SearchStore) -> None:
    store.session("s1")
    for number in range(60):
        store.message("s1", f"harp number {number}")
    question = "which of the harps is broken?"
    whole = ids(store, question, limit=30)
    assert len(set(whole)) == 30
    pages = [ids(store, question, limit=10, offset=offset) for offset in (0, 10, 20)]
    assert [number for page in pages for number in page] == whole


def test_titles_answer_too(store: SearchStore) -> None:
    store.session("s1", title="Kitchen renovation")
    first = store.message("s1", "hello")
    assert asked(store, "what about renovating the kitchen?")[0] == (first, "title")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("Wann kommt der Schornsteinfeger?", "Der Schornsteinfeger kommt am Montag"),
        ("quelle école ferme", "L'école ferme demain"),
        ("cuándo abre la panadería", "La panaderia abre a las siete"),
        ("屋顶什么时候修", "屋顶下周修好"),
        ("バックアップはいつですか", "バックアップは毎晩です"),
        ("지붕 수리 언제", "지붕 수리는 월요일"),
        ("what about 😀", "that was 😀"),
        ("what is in 8f3ab27c", "commit 8f3ab27c is broken"),
        ("Steuer dieses Jahr", "die Steuererklärung ist fertig"),
    ],
)
def test_languages(store: SearchStore, typed: str, text: str) -> None:
    store.session("s1")
    number = store.message("s1", text)
    store.session("s2")
    store.message("s2", "something else entirely")
    assert ids(store, typed)[:1] == [number]


def test_all_that_was_said_at_a_time(store: SearchStore) -> None:
    store.session("s1")
    now = time.time()
    store.message("s1", "old news", timestamp=now - 40 * 86400)
    recent = store.message("s1", "fresh news", timestamp=now - 86400)
    assert ids(store, "what did we talk about yesterday?") == [recent]


def test_a_named_time_counts(store: SearchStore) -> None:
    march = datetime.datetime(2024, 3, 9).timestamp()
    for number in range(30):
        store.session(f"s{number}")
        store.message(f"s{number}", "the boiler was repaired", timestamp=march + 90 * 86400)
        if number == 3:
            wanted = store.message("s3", "the boiler was repaired", timestamp=march)
    assert ids(store, "what about the boiler in March 2024?")[0] == wanted


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("typed", "first", "days"),
    [
        ("what did we say yesterday", "2026-11-17", 1),
        ("was war letzte Woche", "2026-11-09", 7),
        ("en mars", "2026-03-01", 31),
        ("in February 2024", "2024-02-01", 29),
        ("on 3 May", "2026-05-03", 1),
        ("2023年3月", "2023-03-01", 31),
        ("last Friday", "2026-11-13", 1),
        ("in 2020", "2020-01-01", 366),
        ("what may happen", None, 0),
        ("31 february 2020", None, 0),
    ],
)
def test_named_times(typed: str, first: str | None, days: int) -> None:
    named = named_time(typed, NOW)
    if first is None:
        assert named is None
        return
    assert named is not None
    assert datetime.date.fromtimestamp(named.since).isoformat() == first
    assert round((named.until - named.since) / 86400) == days


@pytest.mark.sqlite
def test_questions_for_a_time() -> None:
    assert asks_when("When did it break?") and asks_when("Wann?") and asks_when("いつですか")
    assert not asks_when("Who broke it?")
    assert tells_time("on Monday") and tells_time("am 3. März") and tells_time("3月5日")
    assert not tells_time("by the river")


@pytest.mark.sqlite
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(typed=typed_text, sort=st.sampled_from([None, "newest", "oldest"]))
def test_no_question_fails(tmp_path_factory: Any, typed: str, sort: str | None) -> None:
    global _full
    if _full is None:
        _full = SearchStore(tmp_path_factory.mktemp("full"))
        _full.session("s1", title="The foo of 漢字")
        for text in ("foo bar_baz", 'a "quoted" NOT AND OR near', "漢字 DROP TABLE", "x" * 300):
            _full.message("s1", text)
    hits = _full.index.search_messages(f"what {typed}", sort=sort, related=True)
    assert len({(hit["match"] == "title", hit["id"]) for hit in hits}) == len(hits) <= 20


_full: SearchStore | None = None


def test_a_hostile_question_is_gone_through_once(store: SearchStore) -> None:
    store.session("s1")
    for number in range(30):
        store.message("s1", f"word{number} " * 50)
    typed = "what " + " ".join(f"word{number}" for number in range(400))
    assert ids(store, typed, limit=10)
    assert ids(store, "漢" * 2000) == []
    assert ids(store, "a" * 2000) == []
