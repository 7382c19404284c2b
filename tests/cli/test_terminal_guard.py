"""Other people's words reach a terminal as text; a pipe gets them as they are."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from hermes_cli.terminal_guard import harmless
from hermes_cli.tui.texts import clean

from .. import forked
from .conftest import Hermes, ModelServer

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = f"hi {CLIPBOARD}\x1b[8m\x9b2J\rover \u202etxt\x7f end"


def in_terminal(hermes: Hermes, *arguments: str) -> str:
    """What a command writes to a terminal, byte by byte."""
    master, slave = pty.openpty()
    nothing = os.open(os.devnull, os.O_RDONLY)
    process = forked.open_process(
        [*hermes.command, *arguments],
        [nothing, slave, slave],
        environ=hermes.environment,
        cwd=hermes.home,
    )
    os.close(nothing)
    os.close(slave)
    seen = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux's end of file on a terminal
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert process.wait(30) == 0, seen
    return seen.decode().replace("\r\n", "\n")


def assert_harmless(seen: str) -> None:
    rest = seen.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    obeyed = [char for char in rest if not char.isprintable() and char not in "\n\t"]
    assert obeyed == []


@pytest.mark.parametrize("options", [["-q"], ["--plain", "-q"]])
def test_a_model_cannot_reach_the_clipboard(
    hermes: Hermes, server: ModelServer, options: list[str]
) -> None:
    server.say("first\n\tline ", HOSTILE)
    seen = in_terminal(hermes, "chat", *options, "hello")
    assert_harmless(seen)
    assert "first\n\tline" in seen.replace("        ", "\t")
    assert "\\x1b]52;c;ZXZpbA==\\x07" in seen
    assert "\\u202etxt" in seen


def test_a_pipe_gets_the_answer_as_it_is(hermes: Hermes, server: ModelServer) -> None:
    server.say(HOSTILE)
    done = subprocess.run(
        [*hermes.command, "chat", "-q", "hello"],
        stdin=subprocess.DEVNULL, capture_output=True, env=hermes.environment, cwd=hermes.home,
    )  # fmt: skip
    assert done.stdout.decode() == f"{HOSTILE}\n"


def test_a_stranger_is_shown_as_who_he_is(hermes: Hermes) -> None:
    with hermes.store() as db:
        db.offer_pairing("telegram", "42\x1b[1A", f"Eve{HOSTILE}")
        code = db.offer_pairing("telegram", "43", "\x1b[2K\rAdmin\u200b")
    assert code is not None
    listed = in_terminal(hermes, "pairing", "list")
    assert_harmless(listed)
    assert "42\\x1b[1A" in listed
    approved = in_terminal(hermes, "pairing", "approve", code)
    assert_harmless(approved)
    assert approved == "\\x1b[2K\\rAdmin\\u200b may now talk on telegram.\n"


def test_what_is_kept_is_shown_without_effect(hermes: Hermes) -> None:
    with hermes.store() as db:
        db.create_session("s1", source="cli")
        db.append_message("s1", "user", f"question {HOSTILE}")
        db.append_message("s1", "assistant", f"needle {HOSTILE}")
    for command in (
        ["sessions", "list"],
        ["sessions", "show", "s1"],
        ["sessions", "search", "needle"],
        ["sessions", "export", "s1"],
        ["sessions", "export", "s1", "-f", "markdown"],
    ):
        assert_harmless(in_terminal(hermes, *command))


def test_text_stays_text() -> None:
    text = "plain\tand\nlines, é 中 👨‍👩‍👧 שלום \x1b[1mbold\x1b[0m"
    assert harmless(text) == text
    assert harmless("a\r\nb\rc\x00\x9b\ud800") == "a\nb\\rc\\x00\\x9b\\ud800"
    assert clean("a\u202eb\x1b]52;c;x\x07c") == "abc"
