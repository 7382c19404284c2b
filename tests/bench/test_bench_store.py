"""The store's benchmark runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import measure, store, store_rivals
from bench.__main__ import main
from bench.corpus import CJK_TERMS, COMMONEST, RARE, Corpus
from bench.measure import Finding, interleaved, paired_ratio, spread, table, verdict
from bench.processes import Child
from bench.store_lab import Lab, Sizes, disk_bytes, query, text_bytes

pytestmark = [pytest.mark.long, pytest.mark.by_name]
"""At the end of a run its tests would be spread over all processes, and `run` made in each."""

TINY = Sizes(
    append_rounds=2,
    append_chunk=5,
    conversation=40,
    load_rounds=2,
    writers=2,
    writer_rounds=1,
    writer_messages=8,
    stored=600,
    session_length=50,
    search_rounds=1,
    import_rounds=1,
    long_megabytes=(0.02, 0.04),
)


@dataclass
class Run:
    """One run of every measurement, in the order in which a whole run has them."""

    lab: Lab
    findings: dict[str, list[Finding]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    # Our own store stands in for the one we compare with: it has the same methods.
    lab = Lab(tmp_path_factory.mktemp("lab"), TINY, sys.executable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_rivals, "SMALL", 200)
        patch.setattr(store_rivals, "YOUNG", 100)
        return Run(lab, {name: measured(lab) for name, measured in store.MEASUREMENTS.items()})


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, TINY, None)


@pytest.mark.parametrize("name", store.MEASUREMENTS)
def test_every_measurement_gives_findings(name: str, run: Run) -> None:
    findings = run.findings[name]
    names = [found.what for found in findings]
    assert names
    assert len(set(names)) == len(names)
    for found in findings:
        assert found.ours
        assert (found.met is None) == (not found.goal)
    assert any(found.theirs for found in findings) or name in ("search", "group", "long")
    for row in (found.row for found in findings if found.row):
        assert ("theirs" in row.samples) != bool(row.absent)
    json.dumps([found.details for found in findings])


def test_all_sides_write_with_the_same_durability(run: Run) -> None:
    assert run.lab.durability == dict.fromkeys(["ours", "bare", "theirs"], "wal/2")


def test_writers_lose_nothing_and_raise_nothing(run: Run) -> None:
    last = run.findings["writers"][-1]
    assert (last.ours, last.bare, last.theirs) == ("0, 0", "0, 0", "0, 0")
    assert last.met


def test_all_sides_search_the_same_messages(run: Run) -> None:
    texts = {
        path: query(path, "SELECT content, tool_calls IS NULL FROM messages ORDER BY id LIMIT 600")
        for path in (run.lab.big, run.lab.theirs_big)
    }
    first, second = texts.values()
    assert first == second
    with run.lab.child("theirs", run.lab.theirs_big) as child:
        hits = {"theirs": child.ask("search", text=RARE, limit=20)["hits"]}
    for side in ("ours", "bare"):
        with run.lab.child(side, run.lab.folder / side / "state.db") as child:
            child.ask("create", session="s")
            child.ask("prepare", count=40)
            child.ask("append", session="s")
            hits[side] = child.ask("search", text=RARE, limit=20)["hits"]
    assert hits == {"ours": 1, "bare": 1, "theirs": 1}


def test_a_small_store_is_searched_only_where_the_big_one_is_bigger(run: Run, lab: Lab) -> None:
    assert [found.row.key for found in run.findings["small"] if found.row] == [
        "search.small.typical", "search.small.slowest", "search.small.phrase",
        "search.young.typical", "search.young.slowest", "search.young.phrase",
    ]  # fmt: skip
    assert store_rivals.small_rivals(lab) == []


def test_searches_find_what_a_scan_finds(run: Run) -> None:
    last = run.findings["search"][-1]
    assert last.details["incomplete"] == {}
    assert last.met


def test_disk_counts_the_store_and_its_index(run: Run) -> None:
    path = run.lab.big
    assert {"state.db", "search.db"} <= set(disk_bytes(path))
    contents = query(path, "SELECT content, tool_calls FROM messages")
    assert text_bytes(path) == sum(len(t.encode()) for row in contents for t in row if t)


def test_without_the_yardstick_its_column_is_empty(lab: Lab) -> None:
    (found,) = store.load(lab)
    assert found.theirs == ""
    assert found.bare


def test_bare_loop_writes_the_rows_that_the_store_writes(lab: Lab, tmp_path: Path) -> None:
    columns = "role, content, tool_calls, tool_call_id, tool_name, finish_reason, observed, active"
    rows = {}
    for side in ("ours", "bare"):
        path = tmp_path / side / "state.db"
        with lab.child(side, path, seed=4) as child:
            child.ask("create", session="s")
            child.ask("prepare", count=30)
            reply = child.ask("append", session="s")
            assert child.ask("load", session="s")["count"] == 30
        assert reply["errors"] == []
        assert reply["ids"] == list(range(1, 31))
        assert len(reply["waits"]) == 30
        rows[side] = query(path, f"SELECT {columns} FROM messages ORDER BY id")
    assert any(row[2] for row in rows["ours"])
    assert rows["ours"] == rows["bare"]


def test_an_append_that_fails_is_counted(lab: Lab, tmp_path: Path) -> None:
    with lab.child("ours", tmp_path / "state.db") as child:
        child.ask("prepare", count=2)
        reply = child.ask("append", session="nobody made this one")
    assert reply["ids"] == []
    assert len(reply["errors"]) == 2
    assert "UnknownSessionError" in reply["errors"][0]


def test_a_child_that_dies_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="ended with status 1"),
        Child(tmp_path / "home") as child,
    ):
        child.ask("load", session="nothing is open")


def test_run_prints_a_table_and_keeps_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUICK", "1")
    monkeypatch.setattr(store, "QUICK", TINY)
    monkeypatch.setattr(measure, "OUT", tmp_path)
    monkeypatch.setattr(store, "find_yardstick", lambda: None)
    main(["store.load"])
    printed = capsys.readouterr().out
    assert "load 40 messages" in printed
    assert "hermes-agent 0.19.0 is not measured" in printed
    kept = json.loads((tmp_path / "store.json").read_text())
    assert [found["what"] for found in kept["findings"]] == ["load 40 messages: per second"]
    assert kept["facts"]["durability"] == {"ours": "wal/2", "bare": "wal/2"}
    assert [found.name for found in tmp_path.iterdir()] == ["store.json"]


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["store.apend"])
    assert "store.append" in capsys.readouterr().err


def test_sides_take_turns_and_the_first_changes() -> None:
    clock = itertools.count()
    results = interleaved({"a": lambda: next(clock), "b": lambda: next(clock)}, 3)
    assert results == {"a": [0, 3, 4], "b": [1, 2, 5]}


def test_rounds_stop_when_the_time_is_up_but_not_before_the_third() -> None:
    assert interleaved({"a": lambda: 1}, 5, seconds=0.0) == {"a": [1, 1, 1]}
    assert interleaved({"a": lambda: 1}, 2, seconds=0.0) == {"a": [1, 1]}


def test_medians_and_ratios() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0, 3)
    # Round by round: a disturbed round counts once, not for one side only.
    assert paired_ratio([8.0, 1.0, 9.0], [10.0, 1.0, 10.0]).median == 0.9


def test_table_shows_what_was_missed() -> None:
    findings = [
        Finding("fast enough", "1 ms", "1 ms", ratio=1.0, goal="≤ 2 ms", met=True),
        Finding("too slow", "30 ms", theirs="90 ms", goal="≤ 2 ms", met=False),
        Finding("just so", "7"),
    ]
    head, rule, *lines = table(findings).splitlines()
    assert head.split() == ["what", "ours", "bare", "theirs", "ratio", "goal", "met"]
    assert set(rule) == {"-", " "}
    assert [line.split()[-1] for line in lines] == ["yes", "NO", "7"]
    assert lines[1].index("90 ms") + 5 == head.index("theirs") + 6
    assert verdict(findings) == "1 of 2 goals met. Missed: too slow."
    assert verdict(findings[:1]) == "1 of 1 goals met."


def test_corpus_is_the_same_for_the_same_seed() -> None:
    assert Corpus(7, stream=5000).messages(50) == Corpus(7, stream=5000).messages(50)
    assert Corpus(7, stream=5000).messages(50) != Corpus(8, stream=5000).messages(50)


def test_corpus_reads_like_conversations() -> None:
    messages = Corpus(1, stream=50_000).messages(3000)
    texts = [message["content"] for message in messages]
    assert 200 < sum(len(text.encode()) for text in texts) / len(texts) < 350
    words = Counter(" ".join(texts).split())
    assert words.most_common(1)[0][0] == COMMONEST[0]
    assert RARE in words
    assert any(CJK_TERMS[0] in text for text in texts)
    assert messages[0]["role"] == "user"
    for before, after in itertools.pairwise(messages):
        if "tool_calls" in before:
            assert after["tool_call_id"] == before["tool_calls"][0]["id"]
        else:
            assert after["role"] == ("user" if before["role"] == "assistant" else after["role"])
            assert after["role"] != before["role"]
