"""Questions at the terminal show what is asked, whatever it is written with."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_cli.asking import TerminalAsker
from hermes_cli.terminal_guard import visible
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
