"""Slash commands in `hermes chat`, typed into a real (pseudo) terminal."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.config import load_config
from hermes_cli.chat_surface import ChatSurface
from hermes_state import SessionDB

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


def test_a_title_that_cannot_be_stored_waits_on(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        chat: Any = SimpleNamespace(
            db=db, config=load_config(tmp_path, {}), agent=SimpleNamespace(session_id="s")
        )
        surface = ChatSurface(chat)
        surface.pending_title = "Garden"
        with SessionDB(tmp_path / "state.db") as surface.db:
            pass  # it takes nothing any more
        told = surface.give_title()
        assert told is not None and "'Garden' is not stored yet" in told
        surface.db = db
        assert surface.give_title() is None and surface.pending_title is None
        assert db.get_session_title("s") == "Garden"


def test_plugins_hear_of_ends_and_beginnings_in_order(
    hermes: Hermes, server: ModelServer, tmp_path: Path
) -> None:
    folder = hermes.home / ".hermes" / "plugins" / "ears"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: ears\nversion: '1'\n")
    heard = tmp_path / "heard"
    (folder / "__init__.py").write_text(EARS.format(path=str(heard)))
    configured = (hermes.home / ".hermes" / "config.yaml").read_text()
    hermes.configure(f"{configured}\nplugins: {{enabled: [ears]}}\n")
    server.say("One.")
    terminal = Terminal(hermes)
    terminal.wait_for("› ")
    terminal.type("/new\n")  # nothing was said: no session ends
    terminal.wait_for("New conversation.")
    terminal.type("first\n")
    terminal.wait_for("One.")
    terminal.type("/new\n")
    terminal.wait_for("New conversation.", times=2)
    terminal.type("/exit\n")
    assert terminal.exit_code() == 0
    terminal.close()
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
    ended, begun = [line.split() for line in heard.read_text().splitlines()]
    assert ended == ["on_session_finalize", session["id"], "cli", "session_boundary"]
    assert begun[0] == "on_session_reset" and begun[1] != session["id"]
    assert begun[2:] == ["cli", "new_session"]


EARS = """
def note(hook):
    def heard(session_id, platform, reason="", **facts):
        with open({path!r}, "a") as file:
            file.write(f"{{hook}} {{session_id}} {{platform}} {{reason}}\\n")
    return heard


def register(ctx):
    for hook in ("on_session_finalize", "on_session_reset"):
        ctx.register_hook(hook, note(hook))
"""


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


def test_busy_says_that_lines_wait_here(screen: Terminal) -> None:
    screen.type("/busy interrupt\n")
    screen.wait_for("always waits")


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
    server.say("I have read it.")
    screen.type("/bg look around\n")
    screen.wait_for(" completed]")
    screen.wait_for("I have read it.")  # nobody spoke: a turn of its own
    assert "the report" in str(server.requests[-1]["messages"][-1]["content"])
    server.streaming.clear()
    server.say("half", threading.Event())
    screen.type("/bg never ends\n")
    assert server.streaming.wait(60)
    screen.type("/exit\n")
    screen.wait_for("[stopping 1 background tasks]")
    assert screen.exit_code() == 0
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        states = [one["state"] for one in db.list_delegations(session["id"])]
    assert states == ["interrupted", "completed"]
