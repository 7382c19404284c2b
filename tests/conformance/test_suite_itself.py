"""The suite can fail: its kills bite where they are said to, and its checks see what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from .adapter import Death, effects
from .checks import invented, lost, wrong_effects
from .implementations.engine import Engine
from .script import CUT_OFF, UNKNOWN, Message, marks, turn

TALK = [*turn("p1"), *turn("p2")]
SENT = ["p1", "p2"]
CLOSED = [Message("tool", UNKNOWN), Message("tool", UNKNOWN), Message("assistant", CUT_OFF)]


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


def test_turns_that_were_cut_off_are_told_from_broken_ones() -> None:
    begun = turn("p1")[:2]
    assert not invented([*begun, *CLOSED, *turn("p2")])
    assert not invented([*turn("p1"), *turn("p2")[:3]])
    assert invented([*begun, *turn("p2")]), "left open in the middle"
    assert invented([*begun, *CLOSED[1:], *turn("p2")]), "a call without a result"
    assert invented([*turn("p1"), *CLOSED[-1:], *turn("p2")]), "answered, and cut off"


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
    ],
    ids=str,
)
def test_a_kill_falls_where_it_is_said_to(
    tmp_path: Path, death: Death, messages: int, happened: int
) -> None:
    engine = Engine()
    engine.begin(tmp_path)
    talk = engine.talk(tmp_path, ["p1"], death)
    assert talk == (["p1"], [])
    assert engine.history(tmp_path) == turn("p1")[:messages]
    assert effects(tmp_path) == ["p1a"][:happened]
