"""Questions at the terminal show what is asked, whatever it is written with."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes_cli.asking
from hermes_cli.asking import TerminalAsker
from hermes_cli.terminal_guard import visible
from hermes_state import SessionDB
from tools.base import ApprovalRequest


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -r x\n\tnext", "rm -r x\n\tnext"),
        ("rm -r x\r\x1b[2Kls", r"rm -r x\r\x1b[2Kls"),
        ("ls \u202egpj.x", r"ls \u202egpj.x"),
        ("l\u200bs", r"l\u200bs"),
        ("café 雪", "café 雪"),
        ("\x07\x9b1m", r"\x07\x9b1m"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("keys", "choices"),
    [
        (["host:example.org"], ("once", "session", "always", "deny")),
        (["no-wall"], ("once", "deny")),
        (["no-wall", "sudo"], ("once", "deny")),
        (["no-wall", "host:example.org"], ("once", "session", "always", "deny")),
    ],
)
def test_what_is_asked_each_time_is_not_offered_for_longer(
    keys: list[str], choices: tuple[str, ...]
) -> None:
    assert ApprovalRequest("", "", "x", "y", keys, 0.0).choices == choices


def test_whether_a_question_stands_in_the_terminal() -> None:
    seen = []

    class Person(TerminalAsker):
        def _read(self, *question: Any) -> str:
            seen.append(self.is_asking)
            return "left"

    person = Person()
    assert person.clarify("Which one?", []) == "left"
    assert seen == [True] and not person.is_asking


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal at which nobody types, in the place of the one of whoever runs the tests."""
    controller, side = os.openpty()
    name = os.ttyname(side)
    real_open = open
    monkeypatch.setattr(
        hermes_cli.asking, "open", lambda path, **how: real_open(name, **how), raising=False
    )
    yield controller
    os.close(controller)
    os.close(side)


def test_a_question_is_answered_from_elsewhere(terminal: int) -> None:
    person, answers = TerminalAsker(), []
    asking = threading.Thread(target=lambda: answers.append(person.clarify("Which one?", ["a"])))
    asking.start()
    assert not person.answer("Another one?", "b")
    while not person.answer("Which one?", "1"):
        assert asking.is_alive()
    assert not person.answer("Which one?", "b")  # somebody was first
    asking.join()
    assert answers == ["a"]
    assert not person.answer("Which one?", "b")


def test_an_approval_that_is_decided_elsewhere_is_not_asked_any_more(
    terminal: int, tmp_path: Path
) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        new = db.create_approval(session_id="s", command="c", description="d", pattern_keys=["k"])

        def decided() -> Any:
            row = db.get_approval(new.id)
            return row["choice"] if row is not None and row["state"] != "pending" else None

        request = ApprovalRequest(
            new.id, new.token, "c", "d", ["k"], new.expires_at, threading.Event(), decided,
            db.wake, lambda: db.clock,
        )  # fmt: skip
        choices: list[str] = []
        asking = threading.Thread(target=lambda: choices.append(TerminalAsker().approve(request)))
        asking.start()
        assert db.decide_asked_approval(new.id, "s", "session", None)
        asking.join()
        assert choices == ["session"]
