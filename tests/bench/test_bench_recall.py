"""The recall benchmark measures what it says, the same every time; no figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.compression.tokens import estimate_tokens
from bench import measure, recall
from bench.__main__ import main
from bench.recall import METHODS, Item, Known, last_line, lines_of, plain, score, truncated
from bench.recall_reader import clerk
from bench.recall_talk import Talk

pytestmark = pytest.mark.by_name

PORT = Item("decision", "the port", ["8080", "9090"])
PARCEL = Item("task", "pick up the Kelvex parcel", ["Kelvex"], settled="REF-17")


def test_a_talk_is_the_same_for_the_same_seed() -> None:
    first, again, other = (list(Talk(seed).stages(2)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_every_planted_value_is_said_and_nothing_else_says_it() -> None:
    *_, last = stages = list(Talk(5).stages(4))
    said = [plain(str(m.get("content") or "")) for stage in stages for m in stage.messages]
    for item in last.items:
        for value in item.values:
            times = sum(plain(value) in text for text in said)
            assert 1 <= times <= 3, value  # told, perhaps taken up, perhaps named in a change
    assert {item.sort for item in last.items} == {"fact", "decision", "task"}
    assert any(len(item.values) > 1 for item in last.items)
    assert any(item.settled for item in last.items)


def test_stages_know_what_holds_at_their_end() -> None:
    first, second = Talk(5).stages(2)
    assert len(second.items) > len(first.items)
    changed = [(a, b) for a, b in zip(first.items, second.items, strict=False) if a != b]
    for before, after in changed:
        assert after.values[: len(before.values)] == before.values


@pytest.mark.parametrize(
    ("text", "item", "held", "stale"),
    [
        ("use 8080\nno, 9090", PORT, True, False),
        ("9090 instead of 8080", PORT, True, False),
        ("use 8080", PORT, False, True),
        ("9090, then\nback to 8080", PORT, True, True),
        ("18080 and 90901", PORT, False, False),
        ("get the Kelvex parcel", PARCEL, False, True),
        ("get the Kelvex parcel\ndone, ref-17", PARCEL, False, False),
        ("nothing", PARCEL, False, False),
    ],
)
def test_scores(text: str, item: Item, held: bool, stale: bool) -> None:
    assert score(item, lines_of([{"role": "user", "content": text}])) == (held, stale)


def test_values_are_compared_as_words() -> None:
    assert last_line([plain("a, B-7!"), plain("c")], "b-7") == 0
    assert last_line([plain("ab 7")], "b 7") == -1


def test_shares() -> None:
    known = Known(items=10, held=6, stale=1, found=9, tokens=2000)
    assert known.share == 0.5
    assert known.density == 0.25


def test_truncation_keeps_the_newest_that_fit() -> None:
    messages = [m for stage in Talk(1).stages(1) for m in stage.messages]
    kept = truncated(messages)
    assert kept == messages[-len(kept) :]
    assert kept[0]["role"] == "user"
    assert estimate_tokens(kept) <= recall.TARGET


async def test_the_stand_in_reads_only_what_it_is_shown_and_overlooks_some() -> None:
    prompt = "\n".join(
        [
            "The record as it stands:",
            "D1 Use 8080 for the staging proxy. [#3]",
            "",
            "The messages since:",
            *(f"[#{n} user] Put zq{n}xk down for ab{n}yz." for n in range(10, 110)),
            "[#200 user] The staging proxy should use 9191 from today.",
            "(end of the messages)",
        ]
    )
    reply = json.loads(await clerk(1, overlooked=0.0)("", prompt))
    assert {entry["messages"][0] for entry in reply["add"]} == set(range(10, 110))
    assert [entry["id"] for entry in reply["replace"]] == ["D1"]
    some = json.loads(await clerk(1)("", prompt))
    assert 60 < len(some["add"]) < 100
    assert some == json.loads(await clerk(1)("", prompt))


async def test_every_method_is_measured_on_the_same_conversations(tmp_path: Path) -> None:
    tallies = await recall.recall(tmp_path, 1, depths=(1, 2))
    assert set(tallies) == {(depth, method) for depth in (1, 2) for method in METHODS}
    for depth in (1, 2):
        assert len({tallies[depth, method].known[0].items for method in METHODS}) == 1
        for method in METHODS:
            known = tallies[depth, method].known[0]
            assert known.tokens <= recall.TARGET
            assert known.found == known.items  # nothing is ever deleted
    findings = recall.findings_of(tallies, (1, 2))
    assert len(findings) == 4
    assert all(found.goal and found.met is not None for found in findings)
    json.dumps([found.details for found in findings])
    assert "our record" in recall.table(tallies)


def test_run_prints_the_table_and_says_who_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUICK", "1")
    monkeypatch.setattr(recall, "DEPTHS", (1,))
    monkeypatch.setattr(measure, "OUT", tmp_path)
    main(["recall"])
    printed = capsys.readouterr().out
    assert "per 1,000 tokens" in printed
    assert "a stand-in that understands little and overlooks 18%" in printed
    kept = json.loads((tmp_path / "recall.json").read_text())
    assert [found["what"] for found in kept["findings"]] == [
        "known after 1 compressions",
        "known per 1,000 tokens after 1 compressions",
    ]


def test_a_configured_model_can_be_asked_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def configured(seed: int) -> recall.Ask:
        async def ask(system: str, prompt: str) -> str:
            asked.append(prompt)
            return '{"add": []}'

        return ask

    monkeypatch.setenv("QUICK", "1")
    monkeypatch.setattr(recall, "DEPTHS", (1,))
    monkeypatch.setattr(measure, "OUT", tmp_path)
    monkeypatch.setattr(recall, "configured", configured)
    recall.main(["--model"])
    assert asked
    assert "the configured model" in capsys.readouterr().out
