"""Search agrees with a naive model of it, and no text makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state.search import vocabulary as search_vocabulary
from hermes_state.search.folding import words

from .search_store import SearchStore
from .test_search_query import typed_text

VOCABULARY = [
    "deploy",
    "deployed",
    "redeploy",
    "error",
    "err",
    "the",
    "a",
    "ab",
    "漢",
    "字",
    "日本",
]
documents = st.lists(
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6).map(" ".join),
    min_size=1,
    max_size=12,
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    yield store
    store.close()


def filled(store: SearchStore, texts: list[str]) -> dict[int, list[str]]:
    """The store with nothing but `texts`; returns their words by message id."""
    store.clear()
    store.session("s1")
    return {store.message("s1", text): words(text) for text in texts}


def has_phrase(found: list[str], phrase: list[str], prefix: bool = False) -> bool:
    for start in range(len(found) - len(phrase) + 1):
        piece = found[start : start + len(phrase)]
        if piece == phrase:
            return True
        if prefix and piece[:-1] == phrase[:-1] and piece[-1].startswith(phrase[-1]):
            return True
    return False


@quick
@given(texts=documents, wanted=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3))
def test_all_words_must_occur(store: SearchStore, texts: list[str], wanted: list[str]) -> None:
    docs = filled(store, texts)
    expected = {
        number
        for number, found in docs.items()
        if all(has_phrase(found, words(word)) for word in wanted)
    }
    assert store.found(" ".join(wanted)) == expected


@quick
@given(texts=documents, wanted=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3))
def test_phrases(store: SearchStore, texts: list[str], wanted: list[str]) -> None:
    docs = filled(store, texts)
    phrase = words(" ".join(wanted))
    expected = {number for number, found in docs.items() if has_phrase(found, phrase)}
    assert store.found(f'"{" ".join(wanted)}"') == expected


@quick
@given(texts=documents, start=st.sampled_from(["d", "de", "dep", "deploye", "e", "er", "t", "漢"]))
def test_prefixes(store: SearchStore, texts: list[str], start: str) -> None:
    docs = filled(store, texts)
    expected = {number for number, found in docs.items() if has_phrase(found, [start], True)}
    assert store.found(f"{start}*") == expected
    expected = {number for number, found in docs.items() if has_phrase(found, ["the", start], True)}
    assert store.found(f'"the {start}"*') == expected


@quick
@given(texts=documents, start=st.sampled_from(["d", "de", "dep", "deploye", "e", "er", "t"]))
def test_prefixes_by_naming_the_words(
    store: SearchStore, monkeypatch: pytest.MonkeyPatch, texts: list[str], start: str
) -> None:
    monkeypatch.setattr(search_vocabulary, "_SMALL", 0)  # as in a large store
    docs = filled(store, texts)
    expected = {number for number, found in docs.items() if has_phrase(found, [start], True)}
    assert store.found(f"{start}*") == expected


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("3f9ab12c77de", {0}),
        ("3f9ab*", {0}),
        ("commit 3f*", {0, 1}),
        ("1700000*", {1}),
        ("9ab1", set()),
    ],
)
def test_words_that_only_machines_write(store: SearchStore, typed: str, wanted: set[int]) -> None:
    docs = filled(store, ["commit 3f9ab12c77de done", "commit 3f00aa11bb at 1700000123", "commit"])
    numbers = sorted(docs)
    assert store.found(typed) | store.found(typed, "partial") == {numbers[n] for n in wanted}


@pytest.mark.parametrize("start", ["z", "zq", "zqx"])
def test_a_prefix_of_very_many_words(store: SearchStore, start: str) -> None:
    common = [f"word{n}" for n in range(40)]
    rare = [f"apple zqx{n}" for n in range(300)]
    docs = filled(store, [*common, *rare, "apple pie"])
    expected = {number for number, found in docs.items() if found[-1].startswith("z")}
    assert store.found(f"apple {start}*") == expected
    if start != "z":
        assert store.found(f"{start}*") == expected


def test_pairs_of_common_words_do_not_join_across_other_words(store: SearchStore) -> None:
    docs = filled(store, ["the of xyz of and", "the of and"])
    assert store.found('"the of and"') == {max(docs)}
    assert store.found('"of and"') == set(docs)


def test_phrases_of_words_that_most_messages_have(store: SearchStore) -> None:
    common, random = ["uno", "dos", "tres", "漢", "字"], Random(5)
    texts = [
        " ".join(random.choices([*common, "rara", "nunca"], [3, 3, 2, 2, 2, 1, 1], k=12))
        for _ in range(2100)
    ]
    docs = filled(store, texts)
    store.index.rebuild()
    for length in (2, 3, 3, 4, 5):
        phrase = random.choices(common, k=length)
        expected = {number for number, found in docs.items() if has_phrase(found, phrase)}
        assert store.found(f'"{" ".join(phrase)}"', limit=5000) == expected
        with_word = {
            number for number, found in docs.items() if has_phrase(found, ["nunca", "rara"])
        }
        typed = f'"nunca rara" -"{" ".join(phrase)}"'
        assert store.found(typed, limit=5000) == with_word - expected


@quick
@given(texts=documents, yes=st.sampled_from(VOCABULARY), no=st.sampled_from(VOCABULARY))
def test_or_and_not(store: SearchStore, texts: list[str], yes: str, no: str) -> None:
    docs = filled(store, texts)
    with_yes = {number for number, found in docs.items() if has_phrase(found, words(yes))}
    with_no = {number for number, found in docs.items() if has_phrase(found, words(no))}
    assert store.found(f"{yes} OR {no}") == with_yes | with_no
    assert store.found(f"{yes} -{no}") == with_yes - with_no
    assert store.found(f"{yes} NOT {no}") == with_yes - with_no


@quick
@given(texts=documents, part=st.sampled_from(["ploy", "err", "deploy", "ror", "edeplo", "the"]))
def test_bare_words_also_match_inside_longer_ones(
    store: SearchStore, texts: list[str], part: str
) -> None:
    docs = filled(store, texts)
    exact = {number for number, found in docs.items() if part in found}
    inside = {number for number, found in docs.items() if any(part in word for word in found)}
    assert store.found(part) == exact
    assert store.found(part, "partial") == inside - exact
    assert store.found(f'"{part}"', "partial") == set()
    order = [hit["match"] for hit in store.index.search_messages(part, limit=1000)]
    assert order == sorted(order)  # "exact" before "partial"


@pytest.mark.parametrize(
    "piece",
    [
        "src/app_main.py",
        "app_main",
        "app_ma",
        "main.p",
        "mple.com",
        "語テ",
        "テキス",
        "v1.2.3-r",
    ],
)
def test_a_piece_of_a_name_finds_it(store: SearchStore, piece: str) -> None:
    docs = filled(
        store, ["src/app_main.py a@example.com 日本語テキスト v1.2.3-rc1 etc/app", "other"]
    )
    assert store.found(piece) | store.found(piece, "partial") == {min(docs)}


@pytest.fixture(scope="module")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path_factory.mktemp("full"))
    store.session("s1", title="The foo of 漢字")
    for text in (
        "foo bar_baz",
        'a "quoted" NOT AND OR near',
        "漢字 '; DROP TABLE messages",
        "x" * 300,
    ):
        store.message("s1", text)
    yield store
    store.close()


@settings(max_examples=200, deadline=None)
@given(typed=typed_text, sort=st.sampled_from([None, "newest", "oldest", "odd"]))
def test_no_text_makes_a_search_fail(full_store: SearchStore, typed: str, sort: str | None) -> None:
    hits = full_store.index.search_messages(
        typed, sort=sort, source_filter=["cli", typed], one_per_conversation=len(typed) % 2 == 0
    )
    assert len(hits) <= 20
    assert all(isinstance(hit["snippet"], str) for hit in hits)
    assert full_store.index.search_messages("foo", user_id=typed, session_id=typed) == []


@quick
@given(text=st.text(st.characters(exclude_categories=[]), min_size=1, max_size=60))
def test_every_stored_text_is_found_by_its_words(store: SearchStore, text: str) -> None:
    store.clear()
    store.session("s1")
    number = store.message("s1", text if text.isprintable() else [{"type": "text", "text": text}])
    for word in words(text):
        assert store.ids(f'"{word}"') == [number]
    if words(text):
        quoted = text.replace('"', " ")
        assert store.ids(f'"{quoted}"') == [number]


@pytest.mark.parametrize("typed", [None, 7, b"foo", ["foo"]])
def test_what_is_not_text_finds_nothing(full_store: SearchStore, typed: object) -> None:
    assert full_store.index.search_messages(typed) == []  # type: ignore[arg-type]
