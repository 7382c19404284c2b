"""`hermes chat` after a crash, and two of them in one conversation."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from agent.running import WAITING
from conversation.abandoned import GOING_ON, TAKEN_AWAY
from hermes_state.turn_log import CUT_OFF

from .chat_pty import CTRL_C, CTRL_D, Terminal
from .conftest import Hermes, ModelServer

Open = Callable[..., Terminal]


@pytest.fixture
def hermes(hermes: Hermes) -> Hermes:
    """A home in which nothing but the conversation asks the model."""
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + "memory:\n  enabled: false\n")
    return hermes


@pytest.fixture
def terminal(hermes: Hermes) -> Iterator[Open]:
    opened = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(hermes, *arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def cut_off(hermes: Hermes, server: ModelServer, terminal: Open) -> str:
    """A conversation whose answer was cut off by a kill; returns its session."""
    server.say("Once upon", threading.Event())
    first = terminal()
    first.wait_for("› ")
    first.type("A story\n")
    first.wait_for("Once upon")
    first.kill()
    with hermes.store() as db:
        (turn,) = db.list_abandoned_turns()
    return str(turn["session_id"])


def said(hermes: Hermes) -> list[str]:
    """What was said in the one conversation there is, which is in order."""
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        assert session["ended_at"], "the session was left open"
        assert db.list_abandoned_turns() == []
        return [one["content"] for one in db.get_messages(session["id"])]


def leave(terminal: Terminal, prompts: int) -> None:
    terminal.wait_for("› ", times=prompts)
    terminal.type(CTRL_D)
    assert terminal.exit_code() == 0


@pytest.mark.parametrize("how", ["--continue", "--resume"])
def test_the_next_chat_goes_on(
    hermes: Hermes, server: ModelServer, terminal: Open, cut_off: str, how: str
) -> None:
    server.say("Once upon", " a time.")
    again = terminal(how, *([cut_off] if how == "--resume" else []))
    again.wait_for(GOING_ON)
    again.wait_for("Once upon a time.")
    leave(again, 1)
    assert said(hermes) == ["A story", "Once upon a time."]


def test_ctrl_c_stops_what_is_gone_on_with(
    hermes: Hermes, server: ModelServer, terminal: Open, cut_off: str
) -> None:
    server.say("Once more", threading.Event())
    again = terminal("--continue")
    again.wait_for("Once more")
    again.type(CTRL_C)
    again.wait_for("[interrupted]")
    server.say("All right.")
    again.wait_for("› ")
    again.type("Never mind\n")
    again.wait_for("All right.")
    leave(again, 2)
    assert said(hermes) == ["A story", "Once more", "Never mind", "All right."]


@pytest.mark.parametrize("quiet", [True, False])
def test_one_question_comes_after_what_was_cut_off(
    hermes: Hermes, server: ModelServer, cut_off: str, quiet: bool
) -> None:
    server.say("A time.")
    server.say("Another.")
    done = hermes.run("chat", *(["-Q"] if quiet else []), "-q", "More?", "--continue")
    assert (done.returncode, done.stdout) == (0, "Another.\n" if quiet else "A time.\nAnother.\n")
    assert GOING_ON in done.stderr
    assert said(hermes) == ["A story", "A time.", "More?", "Another."]


def test_a_new_conversation_says_where_an_answer_was_cut_off(
    hermes: Hermes, server: ModelServer, terminal: Open, cut_off: str
) -> None:
    new = terminal()
    new.wait_for(f"hermes chat --resume {cut_off}")
    assert "“A story”" in new.seen
    leave(new, 1)
    server.say("The end.")
    server.say("Yes.")
    assert hermes.run("chat", "-Q", "-q", "Really?", "--resume", cut_off).stdout == "Yes.\n"
    later = terminal()
    later.wait_for("› ")
    assert "cut off" not in later.seen
    leave(later, 1)


def test_one_that_is_not_gone_on_with_is_closed_and_said(
    hermes: Hermes, server: ModelServer, terminal: Open, cut_off: str
) -> None:
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + "agent:\n  cut_off_turns: ask\n")
    again = terminal("--continue")
    again.wait_for('say "continue"')
    leave(again, 1)
    assert said(hermes) == ["A story", CUT_OFF]


def test_a_command_that_ran_is_not_run_again(
    hermes: Hermes, server: ModelServer, terminal: Open
) -> None:
    effects = hermes.home / "effects"
    command = f"echo once >> {effects}; echo told; sleep 600"
    server.call("terminal", command=command, timeout=601)
    first = terminal()
    first.wait_for("› ")
    first.type("Do it\n")
    while not effects.exists() or not effects.read_text():
        assert first.process.poll() is None
        time.sleep(0.01)
    first.kill()
    server.say("I do not know.")
    again = terminal("--continue")
    again.wait_for("It may or may not have taken effect")
    again.wait_for("I do not know.")
    leave(again, 1)
    assert effects.read_text() == "once\n"
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        results = [one for one in db.get_messages(session["id"]) if one["role"] == "tool"]
    assert [one["effect_disposition"] for one in results] == ["unknown"]
    assert "outcome unknown" in server.requests[-1]["messages"][-1]["content"]


# Two terminals in one conversation


@pytest.fixture
def busy(server: ModelServer, terminal: Open) -> tuple[Terminal, threading.Event, Terminal]:
    """One that answers until it is let go on, and one that waits for it with a question."""
    half = threading.Event()
    server.say("Once upon", half, " a time.")
    first = terminal()
    first.wait_for("› ")
    first.type("A story\n")
    first.wait_for("Once upon")
    second = terminal("--continue")
    second.wait_for("› ")
    second.type("And then?\n")
    second.wait_for(WAITING)
    return first, half, second


def test_a_second_terminal_waits_and_then_answers(
    hermes: Hermes, server: ModelServer, busy: tuple[Terminal, threading.Event, Terminal]
) -> None:
    first, half, second = busy
    server.say("Nothing more.")
    half.set()
    second.wait_for("Nothing more.")
    leave(second, 2)
    leave(first, 2)
    assert said(hermes) == ["A story", "Once upon a time.", "And then?", "Nothing more."]


def test_ctrl_c_ends_the_wait(
    hermes: Hermes, server: ModelServer, busy: tuple[Terminal, threading.Event, Terminal]
) -> None:
    first, half, second = busy
    second.type(CTRL_C)
    second.wait_for("your message was not sent")
    half.set()
    leave(first, 2)
    leave(second, 2)
    assert said(hermes) == ["A story", "Once upon a time."]


def test_the_second_goes_on_if_the_first_dies(
    hermes: Hermes, server: ModelServer, busy: tuple[Terminal, threading.Event, Terminal]
) -> None:
    first, _, second = busy
    server.say("Once upon a morning.")
    server.say("Nothing more.")
    first.kill()
    second.wait_for(GOING_ON)
    second.wait_for("Nothing more.")
    leave(second, 2)
    assert said(hermes) == ["A story", "Once upon a morning.", "And then?", "Nothing more."]


def test_one_that_slept_too_long_says_so_and_writes_nothing(
    hermes: Hermes, server: ModelServer, terminal: Open
) -> None:
    half = threading.Event()
    server.say("Once upon", half, " a time.")
    first = terminal()
    first.wait_for("› ")
    first.type("A story\n")
    first.wait_for("Once upon")
    first.process.send_signal(signal.SIGSTOP)
    with hermes.store() as db:
        db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    server.say("Of another.")
    server.say("Yes.")
    assert hermes.run("chat", "-Q", "-q", "Over?", "--continue").stdout == "Yes.\n"
    half.set()
    first.process.send_signal(signal.SIGCONT)
    first.wait_for(TAKEN_AWAY)
    leave(first, 2)
    assert said(hermes) == ["A story", "Of another.", "Over?", "Yes."]
