"""Every command of the catalogue gets its verdict; no dangerous one passes."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.danger.analyse import Finding, analyse

from .. import seeds
from .danger_catalogue import ASKED, FORBIDDEN, HARMLESS

PROJECT, USER = Path("/home/ada/project"), Path("/home/ada")


def look(command: str) -> list[Finding]:
    return analyse(command, PROJECT, user_home=USER, home=USER / ".hermes")


def commands(catalogue: dict[str, Any]) -> Iterator[str]:
    for listed in catalogue.values():
        yield from listed


def test_the_catalogue_is_large_enough() -> None:
    assert len(set(commands(ASKED)) | set(commands(FORBIDDEN))) >= 200
    assert len(set(commands(HARMLESS))) >= 200


@pytest.mark.parametrize("command", list(commands(FORBIDDEN)))
def test_what_nobody_may_run(command: str) -> None:
    assert any(finding.hard for finding in look(command))


@pytest.mark.parametrize("command", list(commands(ASKED)))
def test_what_is_asked(command: str) -> None:
    assert look(command)


@pytest.mark.parametrize("command", list(commands(HARMLESS)))
def test_what_runs_unasked(command: str) -> None:
    assert look(command) == []


def wrapped(command: str, how: str) -> str:
    """The same command in another guise."""
    quoted = shlex.quote(command)
    encoded = base64.b64encode(command.encode()).decode()
    return {
        "bash": f"bash -c {quoted}",
        "eval": f"eval {quoted}",
        "env": f"env guise_env=1 sh -c {quoted}",
        "xargs": f"echo {quoted} | xargs -d '\\n' -I@ sh -c @",
        "variable": f'guise_var={quoted}; sh -c "$guise_var"',
        "base64": f"echo {encoded} | base64 -d | sh",
        "here": f"bash <<'EOF'\n{command}\nEOF",
        "after": f"true && ( {command}\n)",
        "substitution": f'echo "$(sh -c {quoted})"',
        "nohup": f"nohup timeout 5 nice -n 3 sh -c {quoted} &",
    }[how]


GUISES = [
    "bash", "eval", "env", "xargs", "variable",
    "base64", "here", "after", "substitution", "nohup",
]  # fmt: skip


# A look-alike letter only deceives whoever reads it; encoded, it is just no such command.
DANGEROUS = [one for one in (*commands(FORBIDDEN), *commands(ASKED)) if one.isascii()]


@settings(max_examples=seeds.examples(120), deadline=None)
@given(
    command=st.sampled_from(DANGEROUS),
    how=st.lists(st.sampled_from(GUISES), min_size=1, max_size=2),
)
def test_no_guise_makes_a_dangerous_command_pass(command: str, how: list[str]) -> None:
    for one in how:
        command = wrapped(command, one)
    assert look(command)


@settings(max_examples=seeds.examples(100), deadline=None)
@given(st.text(max_size=200) | st.text(alphabet="rm -f/$`'\"\\(){}<>|&;*~\n=EOF", max_size=60))
def test_any_text_is_looked_through(text: str) -> None:
    assert isinstance(look(text), list)
