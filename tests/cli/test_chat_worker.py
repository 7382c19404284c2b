"""What the conversations' one worker gives the plain chat: event hooks, a silence watch, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.running import WAITING
from conversation.abandoned import GOING_ON

from .chat_pty import CTRL_C, CTRL_D, Terminal
from .conftest import Hermes, ModelServer

Open = Callable[..., Terminal]
NOT_SENT = "your message was not sent"


@pytest.fixture
def terminal(hermes: Hermes) -> Iterator[Open]:
    opened = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(hermes, *arguments))
        return opened[-1]

    yield start
    for screen in opened:
        screen.close()


def configure(hermes: Hermes, text: str) -> None:
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + text)


def add_hook(hermes: Hermes, events: str, work: str = "") -> Callable[[], list[dict[str, Any]]]:
    """An event hook that does some work at each event; returns what it has heard so far."""
    told = hermes.home / "told"
    folder = hermes.home / ".hermes" / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text(f"name: watch\nevents: {events}\n")
    (folder / "handler.py").write_text(
        "import json, pathlib, time\n"
        f"TOLD = pathlib.Path({str(told)!r})\n"
        "def handle(event, context):\n"
        "    with TOLD.open('a') as file:\n"
        "        file.write(json.dumps({'event': event, **context}) + '\\n')\n"
        f"    {work}\n"
    )

    def heard() -> list[dict[str, Any]]:
        lines = told.read_text().splitlines() if told.exists() else []
        return [json.loads(line) for line in lines]

    return heard


def test_event_hooks_hear_of_a_turn(hermes: Hermes, server: ModelServer) -> None:
    heard = add_hook(hermes, "['session:*', 'agent:*']")
    server.call("todo", todos=[])
    server.say("It is done.")
    assert hermes.run("-Q", "-q", "Do it").stdout == "It is done.\n"
    told = heard()
    assert [one["event"] for one in told if one["event"] != "agent:step"] == [
        "session:start", "agent:start", "agent:end",
    ]  # fmt: skip
    (step,) = [one for one in told if one["event"] == "agent:step"]
    assert step["tool_names"] == ["todo"]
    assert {one["platform"] for one in told} == {"cli"}
    assert told[-1]["message"] == "Do it" and told[-1]["response"] == "It is done."
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
    assert {one["session_id"] for one in told} == {session["id"]}


def test_event_hooks_are_left_out_in_safe_mode(hermes: Hermes, server: ModelServer) -> None:
    heard = add_hook(hermes, "['agent:*']")
    server.say("Yes.")
    assert hermes.run("--safe-mode", "-Q", "-q", "Safe?").stdout == "Yes.\n"
    assert heard() == []


def test_event_hooks_hear_of_a_compression_between_turns(
    hermes: Hermes, server: ModelServer, terminal: Open
) -> None:
    heard = add_hook(hermes, "['session:compress']")
    screen = terminal()
    for number in range(1, 7):
        screen.wait_for("› ", times=number)
        server.say("word " * 400)
        screen.type(f"m{number} " + "word " * 400 + "\n")
    screen.wait_for("› ", times=7)
    server.say("What was said until now.")
    screen.type("/compress\n")
    screen.wait_for("› ", times=8)
    screen.type(CTRL_D)
    assert screen.exit_code() == 0
    with hermes.store() as db:
        (first,) = [
            one
            for one in db.list_sessions_rich(include_children=True)
            if not one["parent_session_id"]
        ]
        last = db.get_compression_tip(first["id"])
    assert heard() == [
        {
            "event": "session:compress", "platform": "cli", "user_id": None, "session_id": last,
            "old_session_id": first["id"], "in_place": False, "compression_count": 1,
        }
    ]  # fmt: skip
    assert last != first["id"]


def test_linked_chats_are_shown_what_is_said(hermes: Hermes, server: ModelServer) -> None:
    server.say("Hello.")
    hermes.run("-Q", "-q", "Hi")
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        origin = {"platform": "local", "chat_id": "7", "user_id": "u"}
        entry = {"session_id": session["id"], "linked": True, "origin": origin}
        db.create_bindings({"chat": entry})
    server.say("Again.")
    assert hermes.run("-Q", "--resume", session["id"], "-q", "More").stdout == "Again.\n"
    with hermes.store() as db:
        owed = [(row["chat_id"], row["content"]) for row in db.list_deliveries()]
    assert owed == [("7", "💬 At the computer: More"), ("7", "🤖 Again.")]


def test_a_silent_turn_is_told_of_and_stopped(hermes: Hermes, server: ModelServer) -> None:
    configure(hermes, "agent:\n  gateway_timeout_warning: 0.1\n  gateway_timeout: 1.5\n")
    server.say(threading.Event())
    done = hermes.run("-Q", "-q", "A story")
    assert (done.returncode, done.stdout) == (130, "")
    assert "waiting for the model. Ctrl-C ends it." in done.stderr
    assert done.stderr.index("Ctrl-C ends it.") < done.stderr.index("I stopped")
    assert said(hermes)[0] == "A story"


# Ctrl-C


@pytest.fixture
def busy(hermes: Hermes, server: ModelServer, terminal: Open) -> Terminal:
    """A terminal that answers until its end."""
    configure(hermes, "memory:\n  enabled: false\n")
    server.say("Once upon", threading.Event())
    first = terminal()
    first.wait_for("› ")
    first.type("A story\n")
    first.wait_for("Once upon")
    return first


def said(hermes: Hermes) -> list[str]:
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        return [row["content"] for row in db.get_messages(session["id"])]


@pytest.mark.parametrize(
    ("how", "code"), [("key", 130), ("SIGTERM", 128 + signal.SIGTERM)], ids=["ctrl-c", "sigterm"]
)
def test_one_question_that_waits_can_be_left(
    hermes: Hermes, terminal: Open, busy: Terminal, how: str, code: int
) -> None:
    second = terminal("-q", "And then?", "--continue")
    second.wait_for(WAITING)
    if how == "key":
        second.type(CTRL_C)
    else:
        second.process.send_signal(signal.SIGTERM)
    second.wait_for(NOT_SENT)
    assert second.exit_code() == code
    assert said(hermes) == ["A story"]


def test_after_ctrl_c_in_an_abandoned_turn_the_question_is_not_sent(
    hermes: Hermes, server: ModelServer, terminal: Open, busy: Terminal
) -> None:
    busy.kill()
    server.say("Once more", threading.Event())
    again = terminal("-q", "And then?", "--continue")
    again.wait_for(GOING_ON)
    again.wait_for("Once more")
    again.type(CTRL_C)
    again.wait_for(NOT_SENT)
    assert again.exit_code() == 130
    assert said(hermes) == ["A story", "Once more"]


def test_ctrl_c_while_a_hook_is_told_of_a_turn_keeps_it_from_beginning(
    hermes: Hermes, server: ModelServer, terminal: Open
) -> None:
    go = hermes.home / "go"
    work = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    heard = add_hook(hermes, "['agent:start']", work)
    screen = terminal()
    screen.wait_for("› ")
    screen.type("Hello\n")
    while not heard():
        assert screen.process.poll() is None
        time.sleep(0.01)
    screen.type(CTRL_C)
    screen.wait_for("^C")
    go.touch()
    screen.wait_for(NOT_SENT)
    server.say("Hello yourself.")
    screen.wait_for("› ", times=2)
    screen.type("Again\n")
    screen.wait_for("Hello yourself.")
    screen.wait_for("› ", times=3)
    screen.type(CTRL_D)
    assert screen.exit_code() == 0
    assert said(hermes) == ["Again", "Hello yourself."]


def test_ctrl_c_twice_does_not_wait_for_a_hook(
    hermes: Hermes, server: ModelServer, terminal: Open
) -> None:
    heard = add_hook(hermes, "['agent:start']", "time.sleep(600)")
    screen = terminal()
    screen.wait_for("› ")
    screen.type("Hello\n")
    while not heard():
        assert screen.process.poll() is None
        time.sleep(0.01)
    pressed = 0.0
    while screen.process.poll() is None:
        if time.monotonic() > pressed + 1.0:  # two at once are one signal
            pressed = time.monotonic()
            screen.type(CTRL_C)
        time.sleep(0.01)
    screen.wait_for("[interrupted]")
    assert screen.exit_code() == 130 and "Traceback" not in screen.seen


def test_the_worker_brings_nothing_heavy_to_the_start() -> None:
    heavy = ("gateway", "tui_gateway", "agent.slash", "httpx", "yaml")
    program = f"import sys, hermes_cli.chat; print(sorted({{*{heavy!r}}} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
