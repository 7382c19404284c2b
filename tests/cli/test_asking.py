"""Questions at the terminal show what is asked, whatever it is written with."""

from __future__ import annotations

import pytest

from hermes_cli.asking import visible


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
