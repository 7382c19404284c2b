"""The suite can fail: its kills bite where they are said to, and its checks see what is wrong."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from . import report
from .adapter import Death, effects
from .chat_platform import Chat
from .checks import closed_turns, invented, lost, unknown_results, wrong_effects
from .counter import counter
from .implementations.engine import Engine
from .script import CUT_OFF, NOT_RUN, UNKNOWN, Message, answer, marks, turn
from .soak import Soak

TALK = [*turn("p1"), *turn("p2")]
SENT = ["p1", "p2"]
LOST, SKIPPED = Message("tool", UNKNOWN), Message("tool", NOT_RUN)
END = Message("assistant", CUT_OFF)


def all_faults(history: list[Message], done: list[str]) -> list[str]:
    """What the checks find, when everything was acknowledged."""
    return [
        *invented(history),
        *lost(history, [], SENT, SENT, SENT),
        *wrong_effects(history, done, SENT),
    ]


def test_a_whole_talk_is_faultless() -> None:
    assert all_faults(TALK, marks("p1") + marks("p2")) == []


@pytest.mark.parametrize("number", range(len(TALK)))
def test_each_missing_message_is_seen(number: int) -> None:
    history = TALK[:number] + TALK[number + 1 :]
    assert all_faults(history, marks("p1") + marks("p2"))


@pytest.mark.parametrize("number", range(len(TALK)))
def test_each_doubled_or_foreign_message_is_seen(number: int) -> None:
    for extra in (TALK[number], Message("assistant", "something else")):
        history = [*TALK[:number], extra, *TALK[number:]]
        assert all_faults(history, marks("p1") + marks("p2"))


def test_effects_that_are_missing_doubled_or_foreign_are_seen() -> None:
    done = marks("p1") + marks("p2")
    for number in range(len(done)):
        assert wrong_effects(TALK, done[:number] + done[number + 1 :], SENT)
        assert wrong_effects(TALK, [*done, done[number]], SENT)
    assert wrong_effects(TALK, [*done, "p9a"], SENT)
    assert wrong_effects(turn("p1")[:1], ["p1a"], ["p1"])


def test_turns_that_were_taken_over_are_told_from_broken_ones() -> None:
    whole = turn("p1")
    effectful = [
        n for n, one in enumerate(whole) if one.text in map("marked {}".format, marks("p1"))
    ]
    harmless = [n for n, one in enumerate(whole) if one.role == "tool" and n not in effectful]
    for number in effectful:
        taken_over = [*whole[:number], LOST, *whole[number + 1 :]]
        assert not invented([*taken_over, *turn("p2")], open_end=False)
        assert unknown_results(taken_over) == 1
        assert invented([*whole[:number], SKIPPED, *whole[number + 1 :]]), "gone on with, not run"
    for number in harmless:
        assert invented([*whole[:number], LOST, *whole[number + 1 :]]), "may run again"


def test_turns_that_were_closed_are_told_from_broken_ones() -> None:
    begun = turn("p1")[:2]
    assert not invented([*begun, LOST, SKIPPED, SKIPPED, END, *turn("p2")])
    assert closed_turns([*begun, LOST, SKIPPED, SKIPPED, END, *turn("p2")]) == ["p1"]
    assert not invented([*turn("p1"), *turn("p2")[:3]])
    assert invented([*turn("p1"), *turn("p2")[:3]], open_end=False), "recovered, and left open"
    assert invented([*begun, *turn("p2")]), "left open in the middle"
    assert invented([*begun, LOST, SKIPPED, END, *turn("p2")]), "a call without a result"
    assert invented([*turn("p1"), END, *turn("p2")]), "answered, and cut off"


def test_order_and_strangers_are_seen() -> None:
    assert lost([*turn("p2"), *turn("p1")], [], SENT, [], [])
    assert lost(TALK, [], ["p1"], [], [])
    assert lost(TALK, ["p2"], SENT, [], [])
    assert not lost(turn("p1"), ["p2"], SENT, SENT, ["p1"])


@pytest.mark.parametrize(
    ("death", "messages", "happened"),
    [
        (Death("before", 2), 1, 0),
        (Death("during", 2), 1, 0),
        (Death("after", 2), 2, 0),
        (Death("tool-before", 1), 2, 0),
        (Death("tool-after", 1), 2, 1),
        (Death("before", 3), 2, 1),
        (Death("after", 3), 3, 1),
        (Death("tool-before", 2), 3, 1),
        (Death("tool-after", 2), 3, 2),
    ],
    ids=str,
)
def test_a_kill_falls_where_it_is_said_to(
    tmp_path: Path, death: Death, messages: int, happened: int
) -> None:
    engine = Engine()
    engine.begin(tmp_path)
    counter().forget(tmp_path.name)
    talk = engine.talk(tmp_path, ["p1"], death)
    assert talk == (["p1"], [])
    assert engine.reached(tmp_path)
    assert engine.history(tmp_path) == turn("p1")[:messages]
    assert effects(tmp_path) == ["p1a", "p1b"][:happened]


def test_the_counter_counts_for_each_home() -> None:
    counting = counter()
    for path in ("/one/a", "/one/a", "/two/a"):
        connection = http.client.HTTPConnection(urlsplit(counting.url).netloc)
        connection.request("POST", path)
        told = connection.getresponse().read()
        connection.close()
    assert told == b"1"
    assert counting.marks("one") == ["a", "a"]
    counting.copy("one", "three")
    counting.forget("one")
    assert (counting.marks("one"), counting.marks("three")) == ([], ["a", "a"])


def chat_with(shown: list[str]) -> Chat:
    """A chat in which one message was accepted, and this was shown."""
    chat = Chat("1")
    chat.sent, chat.accepted = ["c1n1"], ["c1n1"]
    chat.shown = shown
    return chat


def test_the_soak_sees_what_is_lost_or_doubled(tmp_path: Path) -> None:
    run = Soak(tmp_path, 1, seed=1)
    right = answer("c1n1")
    assert run._unanswered(chat_with([right]), ["c1n1"]) == []
    assert run._unanswered(chat_with([]), ["c1n1"]), "no answer, and no word"
    assert run._unanswered(chat_with([right, right]), ["c1n1"]), "two answers"
    assert run._unanswered(chat_with([right]), []), "answered, and lost"
    assert run._unanswered(chat_with([right, answer("c9")]), ["c1n1"]), "never asked"


def a_cell(kills: int, violations: list[str]) -> report.Facts:
    """What is told of a cell."""
    numbers = {"kills": kills, "named": 4, "reached": 3, "cut_off": 2, "seconds": 1.0}
    names = {"property": "consume once", "implementation": "engine", "skipped": ""}
    return {**names, **numbers, "violations": violations}


def test_the_table_and_the_block_of_a_readme(tmp_path: Path) -> None:
    cells = [a_cell(1200, []), a_cell(1, ["twice"])]
    assert report.table(cells)[-1] == "| consume once | 1,201 / 1 |"
    soak = Soak(tmp_path, 3, seed=1).report()
    lines = report.block(cells, "make x", soak)
    assert lines[-1].startswith("Soak: 3 chats")
    readme = tmp_path / "README.md"
    readme.write_text("before\n")
    assert not report.update_readme(readme, lines)
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    for _ in range(2):
        assert report.update_readme(readme, lines)
        told = ["before", report.BEGIN, *lines, report.END, "after"]
        assert readme.read_text().splitlines() == told
