"""Slash commands in `hermes chat`, typed into a real (pseudo) terminal."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator

import pytest

from .conftest import Hermes, ModelServer
from .test_chat_terminal import Terminal

TAB = "\t"


@pytest.fixture
def screen(hermes: Hermes) -> Iterator[Terminal]:
    terminal = Terminal(hermes)
    terminal.wait_for("› ")
    yield terminal
    terminal.close()


def test_a_title_before_the_first_message_and_resuming_by_it(
    hermes: Hermes, server: ModelServer, screen: Terminal
) -> None:
    for answer in ("Tulips.", "Tiles.", "Roses."):
        server.say(answer)
    screen.type("/title Garden\n")
    screen.wait_for("Title: Garden (kept with the first message)")
    screen.type("What to plant?\n")
    screen.wait_for("Tulips.")
    screen.type("/new Kitchen\n")
    screen.wait_for("New conversation: Kitchen")
    screen.type("Which floor?\n")
    screen.wait_for("Tiles.")
    screen.type("/resume Gar" + TAB + "\n")
    screen.wait_for("Going on with: Garden (2 messages)")
    screen.type("What else?\n")
    screen.wait_for("Roses.")
    screen.type("/exit\n")
    assert screen.exit_code() == 0
    assert [m["content"] for m in server.requests[-1]["messages"]][-3:] == [
        "What to plant?", "Tulips.", "What else?",
    ]  # fmt: skip
    with hermes.store() as db:
        assert {one["title"] for one in db.list_sessions_rich()} == {"Garden", "Kitchen"}
        assert all(one["ended_at"] for one in db.list_sessions_rich())


def test_undo_puts_the_message_back_on_the_line(
    hermes: Hermes, server: ModelServer, screen: Terminal
) -> None:
    server.say("Wrong.")
    server.say("Right.")
    screen.type("What is 1+1\n")
    screen.wait_for("Wrong.")
    screen.type("/undo\n")
    screen.wait_for("Took back 2 messages")
    screen.wait_for("› What is 1+1", times=2)
    screen.type(", exactly?\n")
    screen.wait_for("Right.")
    screen.type("/exit\n")
    assert screen.exit_code() == 0
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        said = [m["content"] for m in db.get_messages(session["id"])]
    assert said == ["What is 1+1, exactly?", "Right."]


def test_retry_sends_the_message_again(
    hermes: Hermes, server: ModelServer, screen: Terminal
) -> None:
    server.say("Hm.")
    server.say("Now I know.")
    screen.type("Well?\n")
    screen.wait_for("Hm.")
    screen.type("/retry\n")
    screen.wait_for("Now I know.")
    screen.type("/copy\n")
    screen.wait_for(base64.b64encode(b"Now I know.").decode())
    screen.type("/exit\n")
    assert screen.exit_code() == 0


def test_a_path_is_a_message_and_a_picture_goes_along(
    hermes: Hermes, server: ModelServer, screen: Terminal
) -> None:
    server.say("I see.")
    (hermes.home / "dot.png").write_bytes(b"\x89PNG")
    screen.type("/image dot.png\n")
    screen.wait_for("goes along with your next message")
    screen.type("/tmp/x is what?\n")
    screen.wait_for("I see.")
    screen.type("/exit\n")
    assert screen.exit_code() == 0
    text, image = server.requests[-1]["messages"][-1]["content"]
    assert text["text"] == "/tmp/x is what?"
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_background_task_is_told_and_stopped_with_the_program(
    hermes: Hermes, server: ModelServer, screen: Terminal
) -> None:
    server.say("the report")
    screen.type("/bg look around\n")
    screen.wait_for("completed; your next message brings the result")
    server.say("I have read it.")
    screen.type("And?\n")
    screen.wait_for("I have read it.")
    assert "the report" in str(server.requests[-1]["messages"][-1]["content"])
    server.streaming.clear()
    server.say("half", threading.Event())
    screen.type("/bg never ends\n")
    assert server.streaming.wait(20)
    screen.type("/exit\n")
    screen.wait_for("[stopping 1 background tasks]")
    assert screen.exit_code() == 0
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        states = [one["state"] for one in db.list_delegations(session["id"])]
    assert states == ["interrupted", "completed"]
