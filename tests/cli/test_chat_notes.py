"""The plain chat is told what nobody asked for, while it waits for a line and after a kill."""

from __future__ import annotations

import time
from pathlib import Path

from .chat_pty import CTRL_D, Terminal
from .conftest import Hermes, ModelServer


def start_process(server: ModelServer, go: Path) -> None:
    command = f"while [ ! -e {go} ]; do sleep 0.02; done; exit 3"
    server.call("terminal", command=command, background=True, notify_on_complete=True)
    server.say("It runs.")


def last_question(server: ModelServer) -> str:
    return str(server.requests[-1]["messages"][-1]["content"])


def test_the_end_of_a_process_at_the_prompt(hermes: Hermes, server: ModelServer) -> None:
    go = hermes.home / "go"
    screen = Terminal(hermes)
    try:
        screen.wait_for("› ")
        start_process(server, go)
        screen.type("start it\n")
        screen.wait_for("It runs.")
        screen.wait_for("› ", times=2)
        server.say("It has failed.")
        screen.type("half a li")
        screen.wait_for("half a li")
        go.touch()
        with hermes.store() as db:
            while not db.list_noted():  # its end is known before the line is
                assert screen.process.poll() is None
                time.sleep(0.02)
        server.say("A whole line.")
        screen.type("ne\n")  # what is being typed is not interrupted
        screen.wait_for("It has failed.")
        screen.wait_for("› ", times=3)
        screen.type(CTRL_D)
        assert screen.exit_code() == 0
    finally:
        screen.close()
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        asked = [m["content"] for m in db.get_messages(session["id"]) if m["role"] == "user"]
    assert "half a line" in asked
    assert sum(text.startswith("[proc_") and "exit code 3" in text for text in asked) == 1


def test_a_process_that_went_with_a_killed_chat(hermes: Hermes, server: ModelServer) -> None:
    screen = Terminal(hermes)
    start_process(server, hermes.home / "go")
    screen.wait_for("› ")
    screen.type("start it\n")
    screen.wait_for("It runs.")
    screen.wait_for("› ", times=2)
    screen.kill()
    screen.close()
    server.say("I see.")
    screen = Terminal(hermes, "--continue")
    try:
        screen.wait_for("I see.")
        assert "Hermes was stopped while it ran" in last_question(server)
        screen.wait_for("› ")
        screen.type(CTRL_D)
        assert screen.exit_code() == 0
    finally:
        screen.close()
