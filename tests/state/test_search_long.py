"""Messages of any size: what of them is found, and that no size costs more than its share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state.search import batch as search_batch
from hermes_state.search import rank as search_rank
from hermes_state.search import source as search_source
from hermes_state.search.check import missing_from_index
from hermes_state.search.document import (
    calls_text,
    content_text,
    cut_calls_text,
    cut_content_text,
    without_embedded_data,
)

from .search_store import SearchStore


@pytest.fixture
def store(tmp_path: Path, database: str) -> Iterator[SearchStore]:
    store = SearchStore(tmp_path, database)
    store.session("s1")
    yield store
    store.close()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is long from 100 characters on; 20 of its words keep their order, 15 may differ."""
    monkeypatch.setattr(search_batch, "_LONG", 100)
    monkeypatch.setattr(search_batch, "_PIECE", 50)
    monkeypatch.setattr(search_batch, "MOST_WORDS", 20)
    monkeypatch.setattr(search_batch, "MOST_DIFFERENT", 15)


def distinct_words(count: int) -> str:
    """Words that a person could have typed, no two the same; nine letters each."""
    consonants, vowels = "bcdfgklmnprstvwz", "aeio"
    return " ".join(
        "".join(consonants[n >> shift & 15] + vowels[n >> shift & 3] for shift in (0, 4, 8, 12))
        + consonants[n >> 16 & 15]
        for n in range(count)
    )


PEAK = """
import sys
from pathlib import Path
from hermes_state.search import batch
from hermes_state.search.engine import SearchIndex

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

batch.MOST_DIFFERENT = 2000
index = SearchIndex(*sys.argv[1:])
before = peak()
assert len(index.search_messages("needle")) == 1
print(peak() - before)
"""


def kilobytes_to_index(folder: Path, text: str) -> int:
    """How much memory a process takes to search for the first time beside this message."""
    folder.mkdir()
    store = SearchStore(folder)
    store.session("s1")
    store.message("s1", text)
    store.message("s1", "a needle")
    store.close()
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(store.state_path), str(store.search_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return int(done.stdout)


@pytest.mark.sqlite
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says the peak")
def test_memory_grows_with_the_text_and_not_with_its_words(tmp_path: Path) -> None:
    small, large = (distinct_words(count) for count in (120_000, 480_000))
    least = kilobytes_to_index(tmp_path / "small", small)
    most = kilobytes_to_index(tmp_path / "large", large)
    # Read as bytes, decoded, and cut into pieces: three times its length and some.
    assert most - least < 5 * (len(large) - len(small)) / 1024


def test_every_word_of_a_long_message_is_found(store: SearchStore, small_limits: None) -> None:
    number = store.message("s1", "alpha beta " * 30 + "gamma delta and an omega point")
    for word in ("alpha", "gamma", "delta", "omega", "point"):
        assert store.found(word) == {number}
    assert store.found('"alpha beta"') == {number}
    assert store.found('"gamma delta"') == set()  # beyond what is kept in order
    assert missing_from_index(store.index) == []


def test_more_different_words_than_are_kept(store: SearchStore, small_limits: None) -> None:
    text = distinct_words(15) + " late words " + distinct_words(15)
    number = store.message("s1", text)
    first, second, *_, last = distinct_words(15).split()
    assert store.found(f'"{first} {second}"') == store.found(last) == {number}
    assert store.found("late") == store.found("words") == set()
    assert store.found(f'"{last} {first}"') == set()  # what stood between them was left out


def test_what_machines_write_does_not_crowd_out_words(
    store: SearchStore, small_limits: None
) -> None:
    log = " ".join(f"{n * 2_654_435_761 % 2**32:08x}" for n in range(1, 40))
    number = store.message("s1", f"{log} and at last a needle")
    assert store.found("needle") == {number}
    assert store.found(log.split()[0]) == {number}
    assert store.found(log.split()[-1]) == set()


def test_pieces_end_between_words(store: SearchStore, small_limits: None) -> None:
    number = store.message("s1", "\n".join(["needle", "haystack"] * 10))
    assert store.found("needle") == store.found('"needle haystack"') == {number}
    assert store.found("hay", match="exact") == set()


def test_parts_and_calls_that_are_too_long_to_be_decoded(store: SearchStore) -> None:
    padding = " " * (1 << 21)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJDlamp"}}
    parts = [{"type": "text", "text": f'a "lamp"\nstands{padding}here'}, image, "and a chair"]
    content = store.message("s1", parts)
    arguments = json.dumps({"path": "notes.md", "text": f"first\nzebra \u00e9t\u00e9{padding}"})
    calls = json.dumps([{"function": {"name": "write_file", "arguments": arguments}}])
    call = store.message("s1", None, "assistant", tool_calls=calls, tool_name="batch")
    assert store.found('"lamp stands here"') == {content}
    assert store.found("QUJDlamp") == store.found("image_url") == set()
    for word in ("zebra", "été", "write_file", "notes.md", "batch"):
        assert store.found(word) == {call}, word
    (hit,) = store.index.search_messages("zebra")
    assert hit["snippet"]


def test_of_a_huge_message_the_beginning_is_read(
    store: SearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_source, "MOST_BYTES", 100_000)
    padding = "word " * 500_000
    number = store.message("s1", f"early {padding} late")
    assert store.found("early") == store.found('"word word word"') == {number}
    assert store.found("late") == set()


@pytest.mark.sqlite
def test_nested_parts_take_one_step_each() -> None:
    leaves: object = [f"w{n}" for n in range(500)]
    for _ in range(400):
        leaves = [leaves]
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        text = content_text("\x00json:" + json.dumps(leaves))
        calls = calls_text(None, json.dumps([leaves]))
    finally:
        sys.setprofile(None)
    assert text.split() == calls.split() == [f"w{n}" for n in range(500)]
    assert steps < 20_000


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("data:" + ";a" * 50_000 + ";base64,", 0),
        ("data:" + ";a" * 50_000, 1),
        ("data:;base64" * 10_000, 10_000),
        ("data:" * 20_000, 20_000),
        ("data:image/png;base64,AAAA== " * 5_000, 0),
    ],
    ids=["parameters", "without data", "without a comma", "begun", "embedded"],
)
def test_embedded_data_in_hostile_text(text: str, left: int) -> None:
    """A pattern that goes back over what it has read would take very long here."""
    assert without_embedded_data(f"{text} ;base64,").count("data:") == left


@pytest.mark.sqlite
def test_what_is_cut_off_is_read_as_far_as_it_goes() -> None:
    raw = "\x00json:" + json.dumps([{"type": "text", "text": 'say "hi"\n'}, "then", {"url": "no"}])
    assert cut_content_text(raw).split() == ["say", '"hi"', "then"]
    assert "say" in cut_content_text(raw[:40])
    assert cut_content_text("\x00json:" + '"\\' * 50_000)
    assert cut_calls_text("name", "\\" * 100_000 + "nend") == "name\n end"


def test_matches_in_long_messages_are_counted_up_to_a_limit(
    store: SearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {store.message("s1", "lamp " * 21_000) for _ in range(3)}
    monkeypatch.setattr(search_rank, "_MOST_OFFSETS", 30_000)
    asked = []
    real = search_rank.Scorer._places_in_long
    monkeypatch.setattr(
        search_rank.Scorer,
        "_places_in_long",
        lambda self, *given: asked.append(real(self, *given)) or asked[-1],
    )
    assert store.found("lamp") == numbers
    assert [bool(places) for places in asked] == [True, True, False]


def test_a_query_of_as_many_words_as_are_looked_at(store: SearchStore) -> None:
    endings = ("aring", "oring", "eeling", "aling", "erling", "unding")
    words = [start + end for start in "bdfglmprt" for end in endings]
    exact = store.message("s1", " ".join(words))
    longer = store.message("s1", " ".join(f"{word}s" for word in words))
    assert store.found(" AND ".join(words)) == {exact}
    assert store.found(" ".join(words), match="partial") == {longer}
    assert store.found(" OR ".join(words)) == {exact}
