"""Search by meaning: beside the words, never in their way, and gone with what it was made from."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state.meaning.coarse import Allowed
from hermes_state.meaning.meaning import Meaning, Status
from hermes_state.meaning.vectors import from_fine, normalized, to_bits, to_fine
from hermes_state.search.engine import SearchIndex

from .concepts import Concepts, direction
from .search_store import SearchStore

ASKED = "which gift does she get?"


@pytest.fixture
def model() -> Concepts:
    return Concepts()


class Store(SearchStore):
    """A store with small talk in it, and search by meaning."""

    def __init__(self, folder: Path, database: str, model: Concepts) -> None:
        super().__init__(folder, database)
        self.meaning = self.index.search_by_meaning(lambda: model)
        self.talk = self.session("talk")
        for number in range(40):
            self.message(self.talk, f"small talk number {number}")

    def ids(self, query: str = ASKED, **options: Any) -> list[int | None]:
        return super().ids(query, related=True, **options)

    def status(self) -> Status:
        status = self.meaning.status()
        assert status is not None
        return status


@pytest.fixture
def store(tmp_path: Path, database: str, model: Concepts) -> Iterator[Store]:
    store = Store(tmp_path, database, model)
    yield store
    store.close()


def test_words_that_are_not_there_find_what_means_the_same(store: Store) -> None:
    told = store.message(store.session("b"), "I ordered a mixer for her")
    hits = store.index.search_messages(ASKED, related=True, explain=True)
    assert hits[0]["id"] == told
    assert hits[0]["match"] == "related"
    assert hits[0]["why"]["meaning"] > 0.0
    store.index.meaning = None
    assert told not in store.ids()


def test_what_has_the_words_comes_first(store: Store) -> None:
    other = store.message(store.session("b"), "I ordered a mixer")
    told = store.message(store.session("c"), "which gift does she get, you ask")
    found = store.ids()
    assert found.index(told) < found.index(other)


def test_exact_queries_stay_exact(store: Store) -> None:
    store.message(store.session("b"), "I ordered a mixer for her birthday")
    for query in ('"gift"', "gift -card", "gif*", "gift AND present"):
        assert store.ids(query) == []


def test_nothing_is_found_for_what_means_nothing_that_was_said(store: Store) -> None:
    assert store.ids("xqzzy") == []


def test_filters_hold_before_the_ranking(store: Store) -> None:
    theirs = store.session("theirs", user_id="bob", source="telegram")
    for number in range(600):
        store.message(theirs, f"gift present mixer ordered birthday {number}")
    mine = store.session("mine", user_id="ann")
    told = store.message(mine, "the mixer and some more words about other things")
    store.index.catch_up()
    store.meaning.catch_up()
    for options in (
        {"user_id": "ann"}, {"session_id": "mine"}, {"conversation_id": "mine"},
        {"exclude_sources": ["telegram"]}, {"since": store.clock - 0.5},
    ):  # fmt: skip
        found = store.ids("present for whom", limit=5, **options)
        assert told in found, options
        assert not set(found) & set(range(told - 600, told)), options
    assert told not in store.ids("present for whom", source_filter=["telegram"])
    assert store.ids("present for whom", user_id="carol") == []


def test_another_owner_takes_a_session_over(store: Store) -> None:
    store.session("b", user_id="ann")
    told = store.message("b", "I ordered a mixer")
    assert told in store.ids(user_id="ann")
    store.db.execute("UPDATE sessions SET user_id = 'bob' WHERE id = 'b'")
    store.changed("b")
    assert told in store.ids(user_id="bob")
    assert told not in store.ids(user_id="ann")


def test_deleted_messages_are_gone_at_once_and_then_their_vectors(store: Store) -> None:
    store.session("b")
    told = store.message("b", "I ordered a mixer")
    assert told in store.ids()
    assert store.status().stored == 41
    store.db.execute("DELETE FROM messages WHERE session_id = 'b'")
    store.changed("b")
    assert told not in store.ids()
    store.index.catch_up()
    store.meaning.catch_up()
    assert store.status().stored == 40


def test_the_file_may_be_deleted(store: Store) -> None:
    told = store.message(store.talk, "I ordered a mixer")
    assert told in store.ids()
    for path in store.search_path.parent.glob("vectors.db*"):
        path.unlink()
    assert told in store.ids()
    store.search_path.with_name("vectors.db").write_bytes(b"no database at all" * 500)
    assert told in store.ids()


def test_another_model_makes_other_vectors(store: Store, model: Concepts) -> None:
    told = store.message(store.talk, "I ordered a mixer")
    store.ids()
    model.name, model.asked = "other concepts", []
    assert told in store.ids()
    assert len(model.asked) > 41
    assert store.status()[:4] == ("other concepts", told, told, 41)


def test_a_model_that_cannot_be_asked_holds_nothing_up(store: Store, model: Concepts) -> None:
    told = store.message(store.talk, "I ordered a mixer for her birthday")
    model.is_broken = True
    assert told in store.ids("when is her birthday")
    assert told not in store.ids()
    model.is_broken = False
    assert told not in store.ids()  # it is asked again after a while only
    store.meaning._failed_at = None
    assert told in store.ids()


def test_vectors_that_cannot_be_kept_hold_nothing_up(store: Store) -> None:
    told = store.message(store.talk, "I ordered a mixer for her birthday")
    store.meaning.path.mkdir()  # where the file would be
    assert told in store.ids("when is her birthday")
    assert store.ids("xqzzy mixer")[:1] == [told]
    assert store.meaning._failed_at is not None


def test_half_of_the_vectors_are_used_with_the_words_of_the_rest(
    store: Store, model: Concepts
) -> None:
    first = store.message(store.talk, "I ordered a mixer")
    store.ids()
    store.meaning._embedder = lambda: Slow(model)
    second = store.message(store.talk, "a gift from her")
    found = store.ids("which gift?")
    assert {first, second} <= set(found)


class Slow:
    """The same model, for which no search waits, and which never answers but questions."""

    is_quick = False

    def __init__(self, model: Concepts) -> None:
        self.model, self.name = model, model.name

    def embed(self, texts: Any, *, is_question: bool = False) -> Any:
        return self.model.embed(texts if is_question else [""] * len(texts))


def test_several_feed_at_once_and_each_message_is_entered_once(
    store: Store, model: Concepts, tmp_path: Path
) -> None:
    for number in range(3000):
        store.message(store.talk, f"number {number}")
    store.index.catch_up()
    others = [
        Meaning(store.meaning._file.state_path, store.meaning.path, lambda: model) for _ in range(3)
    ]
    threads = [threading.Thread(target=other.catch_up) for other in (*others, store.meaning)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    status = store.status()
    assert status.stored == 3040
    assert status.done == status.total


def test_what_many_messages_are_is_told_while_it_goes_on(store: Store) -> None:
    for number in range(1500):
        store.message(store.talk, f"number {number}")
    store.index.catch_up()
    seen: list[tuple[int, int]] = []
    assert store.meaning.catch_up(lambda *step: seen.append(step)) == 1540
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0][0] < seen[0][1]
    assert store.meaning.catch_up() == 0
    assert store.meaning.catch_up(anew=True) == 1540


def test_feeding_in_the_background_ends_by_itself(store: Store) -> None:
    for number in range(600):
        store.message(store.talk, f"number {number}")
    told = store.message(store.talk, "I ordered a mixer")
    store.ids()
    store.index.feed_meaning()
    store.meaning.feed_in_background().join(30)
    assert store.status().stored == 641
    assert told in store.ids()


def test_any_message_may_be_there(store: Store, model: Concepts) -> None:
    odd = [
        [{"type": "text", "text": "I ordered a mixer"}, {"type": "image_url", "image_url": {}}],
        "mixer " * 2_000_000,
        "\x00 mixer",
        "😀",
        " ",
        "你好",
        [{"type": "text", "text": "x" * 9000}],
    ]
    numbers = [store.message(store.talk, content) for content in odd]
    found = store.ids(limit=10)
    assert numbers[0] in found and numbers[2] in found
    assert max(map(len, model.asked)) <= 1500
    assert any(text.startswith("I ordered a mixer") for text in model.asked)
    for query in ("a", "😀", "你", "?", "\x00"):
        store.ids(query)


def test_tools_and_repetitions_have_no_vectors(store: Store) -> None:
    store.message(store.talk, "a mixer was ordered", role="tool")
    store.message(store.talk, "a mixer was ordered", origin_id=1)
    store.message(store.talk, None, role="assistant")
    store.ids()
    assert store.status().stored == 40


def test_a_conversation_each(store: Store) -> None:
    for name in ("b", "c"):
        store.session(name)
        for _ in range(30):
            store.message(name, "I ordered a mixer")
    hits = store.index.search_messages(ASKED, related=True, one_per_conversation=True, limit=5)
    conversations = [hit["conversation_id"] for hit in hits]
    assert {"b", "c"} <= set(conversations)
    assert len(conversations) == len(set(conversations))


@pytest.mark.sqlite
def test_another_store_under_the_same_name_is_noticed(tmp_path: Path, model: Concepts) -> None:
    for number in range(2):
        folder = tmp_path / "home"
        folder.mkdir(exist_ok=True)
        for path in folder.glob("s*.db*"):
            path.unlink()
        store = SearchStore(folder, store_id=f"store-{number}")
        meaning = store.index.search_by_meaning(lambda: model)
        store.session("a")
        for _ in range(5 - number):
            store.message("a", "words")
        meaning.catch_up()
        status = meaning.status()
        assert status is not None and status.stored == 5 - number
        store.close()


@pytest.mark.sqlite
def test_bits_in_memory_are_let_go(store: Store) -> None:
    store.ids()
    assert store.meaning._bits is not None
    store.meaning._let_go()
    assert store.meaning._bits is not None  # a question was asked just now
    store.meaning._asked_at -= 1000.0
    store.meaning._let_go()
    assert store.meaning._bits is None
    assert store.meaning.question(ASKED) is not None


@pytest.mark.sqlite
def test_few_bytes_say_almost_the_same() -> None:
    rows = normalized([direction(str(number)) for number in range(200)])
    again = from_fine(to_fine(rows), rows.shape[1])
    assert float((rows * again).sum(axis=1).min()) > 0.98
    assert to_bits(rows).shape == (200, 2)
    odd = normalized([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    assert from_fine(to_fine(odd), 3).shape == (2, 3)
    assert not odd[1].any()
    for useless in ([[float("nan")]], [1.0], [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError):
            normalized(useless)  # type: ignore[arg-type]


@pytest.mark.sqlite
def test_bits_find_what_is_nearest(store: Store) -> None:
    told = store.message(store.talk, "I ordered a mixer")
    likeness = store.meaning.question(ASKED)
    assert likeness is not None
    assert likeness.nearest(Allowed(), 3)[0] == told
    assert likeness.of([10**9]) == {}


@pytest.mark.sqlite
def test_without_a_model_nothing_of_it_is_loaded_or_written(tmp_path: Path) -> None:
    script = (
        "import sys; from hermes_state import SessionDB\n"
        f"db = SessionDB({str(tmp_path / 'state.db')!r}); db.embedder = lambda: None\n"
        "db.create_session('s', 'cli'); db.append_message('s', 'user', 'hello')\n"
        "db.search_messages('what was said hello'); db.search_index.feed_meaning(); db.close()\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert not (tmp_path / "vectors.db").exists()


@pytest.mark.sqlite
def test_the_file_is_private_and_a_store_closes_it(tmp_path: Path, model: Concepts) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.embedder = lambda: model
        session = db.create_session("s", "cli")
        told = db.append_message(session, "user", "I ordered a mixer")
        assert [hit["id"] for hit in db.search_messages("a mixer")] == [told]
        assert [hit["id"] for hit in db.search_messages("what present?")][:1] == [told]
        assert isinstance(db.search_index, SearchIndex)
    assert (tmp_path / "vectors.db").stat().st_mode & 0o777 == 0o600
