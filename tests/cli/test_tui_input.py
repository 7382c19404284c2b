"""The input of the terminal interface: keys, history, completion, pastes, pictures, commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
sys.path.insert(0, str(Path(__file__).parent))

from textual import events
from textual.pilot import Pilot
from tui_stand_in import Refusal, StandIn, make_app

from hermes_cli.tui.app import HermesApp, Opening
from hermes_cli.tui.blocks import Notice, UserMessage
from hermes_cli.tui.completions import Candidate
from hermes_cli.tui.session_picker import SessionPicker
from hermes_cli.tui.themes import NAMES


async def until(pilot: Pilot[Any], holds: Callable[[], object], what: str = "it") -> None:
    """Wait for a state."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        await pilot.pause(0.01)


async def opened(pilot: Pilot[Any]) -> HermesApp:
    """The interface with its conversation open."""
    app = pilot.app
    assert isinstance(app, HermesApp)
    await until(pilot, app.chat._is_open.is_set, "a conversation")
    return app


async def say(pilot: Pilot[Any], text: str) -> None:
    """Write a line and send it."""
    assert isinstance(pilot.app, HermesApp)
    pilot.app.chat.composer.put(text)
    await pilot.press("enter")


def notices(app: HermesApp) -> list[str]:
    """What was told in the conversation."""
    return [one.text for one in app.chat.query(Notice)]


async def test_lines_and_history(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await pilot.press("a", "ctrl+j", "b", "shift+enter", "c", "\\", "enter", "d", "enter")
        await until(pilot, lambda: server.asked("prompt.submit"))
        assert server.asked("prompt.submit")[0]["text"] == "a\nb\nc\nd"
        assert app.chat.composer.text == ""
        server.emit("message.complete", text="", status="complete", usage={})
        await pilot.press("e", "enter", "up")
        await until(pilot, lambda: app.chat.composer.text == "e")
        await pilot.press("up")
        await until(pilot, lambda: app.chat.composer.text == "a\nb\nc\nd")
        await pilot.press("down")
        await pilot.press("down")
        await until(pilot, lambda: app.chat.composer.text == "")
    async with make_app(StandIn(), tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await pilot.press("f", "up", "up")  # what was sent is there after a restart
        await until(pilot, lambda: app.chat.composer.text == "a\nb\nc\nd")
        await pilot.press(*["down"] * 5)
        await until(pilot, lambda: app.chat.composer.text == "f")


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["small", "large"])
async def test_completion_of_commands_titles_and_paths(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    server = StandIn()
    names = [("/new", "Begin"), ("/next", "Go on")]

    def slash(params: dict[str, Any]) -> dict[str, Any]:
        typed = params["text"]
        if typed.startswith("/resume "):
            return {"items": [item("Trip to Rome")], "replace_from": 8}
        items = [item(name, told) for name, told in names if name.startswith(typed)]
        return {"items": items, "replace_from": 0}

    server.answers["complete.slash"] = slash
    server.answers["complete.path"] = lambda _: {"items": [item("@src/"), item("@setup.py")]}
    server.answers["slash.exec"] = lambda params: {"type": "exec", "output": params["command"]}
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        composer, popup = app.chat.composer, app.chat.completions
        await pilot.press("/", "n")
        await until(pilot, lambda: len(popup.candidates) == 2)
        await pilot.press("down", "tab")
        await until(pilot, lambda: composer.text == "/next " and not popup.is_open)
        await pilot.press(*["backspace"] * 6, "/", "n", "e", "w")
        await until(pilot, lambda: [one.text for one in popup.candidates] == ["/new"])
        await pilot.press("enter")  # a whole name is carried out
        await until(pilot, lambda: "/new" in notices(app))
        await pilot.press(*"/resume Tri")
        await until(pilot, lambda: [one.text for one in popup.candidates] == ["Trip to Rome"])
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "/resume Trip to Rome" in notices(app))
        await pilot.press(*"see @s")
        await until(pilot, lambda: len(popup.candidates) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: not popup.is_open)
        assert composer.text == "see @s"
        await pilot.press("tab")
        await until(pilot, lambda: popup.is_open)
        await pilot.press("tab")
        await until(pilot, lambda: composer.text == "see @src/")
        await until(pilot, lambda: popup.is_open, "what is in the folder")
        await pilot.click(popup, offset=(3, 1))
        await until(pilot, lambda: composer.text == "see @setup.py ")


async def test_candidates_for_what_was_typed_before_are_not_taken(tmp_path: Path) -> None:
    server = StandIn()

    def slash(params: dict[str, Any]) -> dict[str, Any]:
        # The server is slow: only what was typed first has an answer.
        items = [item("/reasoning")] if params["text"] == "/re" else []
        return {"items": items, "replace_from": 0}

    server.answers["complete.slash"] = slash
    server.answers["slash.exec"] = lambda params: {"type": "exec", "output": params["command"]}
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        composer, popup = app.chat.composer, app.chat.completions
        await pilot.press(*"/re")
        await until(pilot, lambda: [one.text for one in popup.candidates] == ["/reasoning"])
        composer.text = "/resume 2"  # typed faster than the next answer comes
        composer.move_cursor(composer.document.end)
        popup.offer(popup.candidates or [Candidate("/reasoning", "/reasoning", "")], 0, "/re")
        await pilot.press("enter")
        await until(pilot, lambda: "/resume 2" in notices(app))


def item(text: str, meta: str = "") -> dict[str, str]:
    """A candidate."""
    return {"text": text, "display": text, "meta": meta}


async def test_pastes_and_pictures(tmp_path: Path) -> None:
    server = StandIn()
    server.answers["input.detect_drop"] = lambda params: {
        "matched": True,
        "is_image": params["text"].endswith(".png"),
        "path": params["text"],
        "text": "" if params["text"].endswith(".png") else f"`{params['text']}`",
    }
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        composer = app.chat.composer
        long = "\n".join(f"line {number}" for number in range(50))
        composer.post_message(events.Paste("short"))
        composer.post_message(events.Paste(long))
        await until(pilot, lambda: composer.text == "short[Pasted text 1: 50 lines]")
        composer.post_message(events.Paste("x" * 2000))
        await until(pilot, lambda: composer.text.endswith("[Pasted text 2: 2,000 characters]"))
        await pilot.press("backspace")
        await until(pilot, lambda: composer.text == "short[Pasted text 1: 50 lines]")
        composer.post_message(events.Paste("/tmp/notes.txt"))
        await until(pilot, lambda: composer.text.endswith("`/tmp/notes.txt`"))
        composer.post_message(events.Paste("/tmp/a.png"))
        composer.post_message(events.Paste("/tmp/b.png"))
        await until(pilot, lambda: app.chat.waiting.images == ["/tmp/a.png", "/tmp/b.png"])
        await pilot.press("enter")
        await until(pilot, lambda: server.asked("prompt.submit"))
        assert server.asked("prompt.submit")[0]["text"] == f"short{long}`/tmp/notes.txt`"
        await until(pilot, lambda: not app.chat.waiting.images)
        composer.post_message(events.Paste("/tmp/c.png"))
        await until(pilot, lambda: app.chat.waiting.images == ["/tmp/c.png"])
        await pilot.press("backspace")
        await until(pilot, lambda: server.asked("image.detach"))
        assert not app.chat.waiting.images


async def test_messages_during_a_turn(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        waiting = app.chat.waiting
        server.emit("message.start", prompt="One", prompt_id="1", timestamp=1.0)
        await until(pilot, lambda: app.chat.turn.is_running)
        server.answers["prompt.submit"] = lambda _: {"status": "queued"}
        await pilot.press(*"Two", "enter")
        await until(pilot, lambda: [one.how for one in waiting.messages] == ["queued"])
        server.answers["prompt.submit"] = lambda _: {"status": "steered"}
        await pilot.press(*"Three", "enter")
        await until(pilot, lambda: [one.how for one in waiting.messages] == ["queued", "steered"])
        server.emit("message.steered", text="Three")
        await until(pilot, lambda: len(waiting.messages) == 1)
        server.emit("message.complete", text="Done.", status="complete", usage={})
        queued = server.asked("prompt.submit")[0]["message_id"]
        server.emit("message.start", prompt="Two", prompt_id=queued, timestamp=2.0)
        await until(pilot, lambda: not waiting.messages)
        assert [one.text for one in app.chat.query(UserMessage)] == ["One", "Three", "Two"]
        assert app.chat.turn.is_running


async def test_a_refused_message_is_offered_again(tmp_path: Path) -> None:
    server = StandIn()
    server.answers["prompt.submit"] = lambda _: Refusal("The store is full.", 5000)
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: "The store is full." in notices(app))
        assert app.chat.composer.text == "Hi"
        assert not app.chat.query(UserMessage) and not app.chat.turn.is_running


async def test_commands(tmp_path: Path) -> None:
    server = StandIn()
    results: dict[str, Any] = {
        "/undo": {"type": "prefill", "output": "", "message": "Hi", "notice": "Took back 2."},
        "/retry": {"type": "send", "output": "", "message": "Hi", "notice": "Asking again."},
        "/nope": Refusal("There is no command /nope."),
        "/quit": {"type": "exec", "output": "", "leave": True},
    }
    server.answers["slash.exec"] = lambda params: results[params["command"].strip()]
    server.answers["image.attach"] = lambda params: {"path": params["path"]}
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await say(pilot, "/undo")
        await until(pilot, lambda: app.chat.composer.text == "Hi")
        assert server.asked("session.activate"), "the conversation is another one now"
        assert "Took back 2." in notices(app)
        app.chat.composer.put("")
        await say(pilot, "/retry")
        await until(pilot, lambda: server.asked("prompt.submit"))
        assert server.asked("prompt.submit")[0]["text"] == "Hi"
        await say(pilot, "/nope")
        await until(pilot, lambda: "There is no command /nope." in notices(app))
        await say(pilot, "/image /tmp/x.png")
        await until(pilot, lambda: app.chat.waiting.images == ["/tmp/x.png"])
        await say(pilot, f"/theme {NAMES[2]}")
        await until(pilot, lambda: app.theme == NAMES[2])
        await pilot.press("f3")
        await until(pilot, lambda: app.theme == NAMES[3])
        await say(pilot, "/sessions")
        await until(pilot, lambda: isinstance(app.screen, SessionPicker))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await say(pilot, "/quit")
        await until(pilot, lambda: app.return_value == 0)
    async with make_app(StandIn(), tmp_path).run_test() as pilot:
        assert (await opened(pilot)).theme == NAMES[3], "the theme was not kept"


async def test_ctrl_c_twice_leaves_also_from_a_dialog(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await pilot.press(*"draft", "ctrl+c")
        assert app.chat.composer.text == "" and app.return_value is None
        app._last_ctrl_c = 0.0
        await pilot.press("up")
        await until(pilot, lambda: app.chat.composer.text == "draft", "what was cleared")
        server.emit("clarify.request", request_id="1", question="Which?", choices=[])
        await until(pilot, lambda: app.screen is not app.chat)
        await pilot.press("ctrl+c")
        assert app.return_value is None
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.return_value == 0)


async def test_a_conversation_is_continued_with_another_model(tmp_path: Path) -> None:
    server = StandIn()
    server.messages = [{"role": "user", "content": "Hi", "timestamp": 1.0}]
    server.answers["session.most_recent"] = lambda _: {"session_id": "last"}
    server.answers["config.set"] = lambda _: {"key": "model", "value": "m2", "scope": "session"}
    opening = Opening(continue_last=True, model="m2")
    async with make_app(server, tmp_path, opening).run_test() as pilot:
        app = await opened(pilot)
        assert app.chat.key == "last"
        assert [one.text for one in app.chat.query(UserMessage)] == ["Hi"]
        assert server.asked("config.set")[0]["value"] == "m2"


async def test_what_a_snapshot_has_shown_does_not_come_twice(tmp_path: Path) -> None:
    server = StandIn()
    server.messages = [
        {"role": "user", "content": "Hi", "timestamp": 1.0},
        {"role": "assistant", "content": "Hello.", "timestamp": 2.0},
    ]
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        server.emit("message.start", prompt="Hi", prompt_id="p", timestamp=1.0)
        server.emit("message.complete", text="Hello.", status="complete", usage={}, timestamp=2.0)
        server.emit("status.update", kind="notice", text="done")
        await until(pilot, lambda: "done" in notices(app))
        assert len(app.chat.query(UserMessage)) == 1
        assert app.chat.transcript.answers() == ["Hello."]
