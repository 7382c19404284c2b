"""Every screen of the terminal interface, small and large, with a stand-in for the server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
sys.path.insert(0, str(Path(__file__).parent))

from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static, Tree
from tui_stand_in import StandIn, make_app

from hermes_cli.tui.answer import Answer
from hermes_cli.tui.app import HermesApp
from hermes_cli.tui.approval_dialog import ApprovalDialog
from hermes_cli.tui.blocks import Notice, UserMessage, Welcome
from hermes_cli.tui.copy_screen import CopyScreen
from hermes_cli.tui.dialog import Dialog
from hermes_cli.tui.help_screen import HelpScreen, Section
from hermes_cli.tui.question_dialog import PasswordDialog, QuestionDialog
from hermes_cli.tui.reasoning import Reasoning
from hermes_cli.tui.session_picker import Glimpse, SessionPicker
from hermes_cli.tui.settings import Settings
from hermes_cli.tui.tool_card import ToolCard
from hermes_state import SessionDB

SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["small", "large"])


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


def shown(app: HermesApp) -> str:
    """The text on the screen."""
    return "\n".join(
        "".join(segment.text for segment in strip)
        for strip in app.screen._compositor.render_strips()
    )


def one_turn(server: StandIn) -> None:
    """A turn with everything in it, not over yet."""
    server.emit("message.start", prompt="Fix it", prompt_id="p", timestamp=1.0)
    server.emit("reasoning.delta", text="Where is it? ")
    server.emit("reasoning.delta", text="In the pool.")
    server.emit("tool.start", tool_id="t1", name="patch", context="pool.py", args={"path": "x"})
    server.emit(
        "tool.complete",
        tool_id="t1",
        name="patch",
        result_text="Edited.\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n",
        duration_s=0.2,
        is_error=False,
    )
    server.emit("tool.start", tool_id="t2", name="terminal", context="pytest", args={})
    server.emit("tool.progress", tool_id="t2", text="collecting\n")
    server.emit("tool.progress", tool_id="t2", text="66 passed\n")


async def test_what_is_to_know_of_the_configuration_is_said_once(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=(100, 30)) as pilot:
        app = await opened(pilot)
        for _ in range(2):
            server.emit("session.info", model="test-model", config_warning="kanban means nothing")
        await until(pilot, lambda: "kanban means nothing" in shown(app), "the warning")
        server.emit("session.info", model="other-model")
        await until(pilot, lambda: "other-model" in shown(app), "the other model")
        assert shown(app).count("kanban means nothing") == 1


@SIZES
async def test_a_turn_from_question_to_answer(tmp_path: Path, size: tuple[int, int]) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: "test-model" in shown(app), "the model")
        assert app.chat.query(Welcome)
        await pilot.press(*"Fix it", "enter")
        await until(pilot, lambda: server.asked("prompt.submit"))
        sent = server.asked("prompt.submit")[0]
        assert sent["text"] == "Fix it"
        assert [one.text for one in app.chat.query(UserMessage)] == ["Fix it"]
        assert not app.chat.query(Welcome)

        server.emit("message.start", prompt="Fix it", prompt_id=sent["message_id"], timestamp=1.0)
        server.emit("reasoning.delta", text="Where is it?")
        server.emit("tool.start", tool_id="t", name="terminal", context="pytest -q", args={})
        server.emit("tool.progress", tool_id="t", text="66 passed\n")
        await until(pilot, lambda: "66 passed" in shown(app), "live output")
        await until(pilot, lambda: "Esc stops" in shown(app), "the way to stop it")
        server.emit(
            "tool.complete", tool_id="t", name="terminal", result_text="66 passed",
            duration_s=1.0, is_error=False,
        )  # fmt: skip
        for piece in ("Done:\n\n", "```python\n", "x = 1\n```\n", "**fine**"):
            server.emit("message.delta", text=piece)
        text = "Done:\n\n```python\nx = 1\n```\n**fine**"
        server.emit("message.complete", text=text, status="complete", usage={}, timestamp=2.0)
        await until(pilot, lambda: "fine" in shown(app) and "● ready" in shown(app), "the end")
        assert [one.text for one in app.chat.query(Answer)] == [text]
        assert [one.text for one in app.chat.query(UserMessage)] == ["Fix it"]
        for there in ("x = 1", "$0.25", "12k/128k 9%"):
            await until(pilot, lambda there=there: there in shown(app), there)
        assert "**" not in shown(app)


@SIZES
async def test_cards_fold(tmp_path: Path, size: tuple[int, int]) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        one_turn(server)
        await until(pilot, lambda: "66 passed" in shown(app), "live output")
        edit, test = app.chat.query(ToolCard)
        assert edit.state == "done" and edit.is_open
        await until(pilot, lambda: "+new" in shown(app), "the change")
        assert test.state == "running" and test.is_open
        server.emit(
            "tool.complete", tool_id="t2", name="terminal", result_text="66 passed",
            duration_s=0.1, is_error=False,
        )  # fmt: skip
        await until(pilot, lambda: test.state == "done")
        assert not test.is_open
        await pilot.click(test.query_one(".headline"))
        await until(pilot, lambda: test.is_open, "the click")
        thought = app.chat.query_one(Reasoning)
        assert not thought.is_open
        await pilot.press("ctrl+r")
        await until(pilot, lambda: thought.is_open, "reasoning")
        await until(pilot, lambda: "In the pool." in shown(app), "what it thought")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: not any(one.is_open for one in app.chat.query(ToolCard)))
        assert test.has_focus
        await pilot.press("h", "i")
        await until(pilot, lambda: app.chat.composer.text == "hi", "the input")
        await pilot.press("ctrl+up", "enter")
        await until(pilot, lambda: test.is_open, "by key")


@pytest.mark.parametrize("chosen", [None, True, False])
@pytest.mark.parametrize("configured", [True, False])
async def test_reasoning_is_shown_as_configured_unless_it_was_chosen_here(
    tmp_path: Path, configured: bool, chosen: bool | None
) -> None:
    server = StandIn()
    server.answers["config.get"] = lambda params: {"key": params["key"], "value": configured}
    if chosen is not None:
        Settings(tmp_path).set("show_reasoning", chosen)
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        assert app.chat.turn.show_reasoning is (configured if chosen is None else chosen)
        wanted = [] if chosen is not None else [{"key": "display.show_reasoning"}]
        assert server.asked("config.get") == wanted


async def test_a_turn_that_ends_badly(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        one_turn(server)
        server.emit("message.complete", text="", status="error", usage={}, warning="No credit.")
        await until(pilot, lambda: "No credit." in shown(app))
        assert [card.state for card in app.chat.query(ToolCard)] == ["done", "failed"]
        server.emit("message.start", prompt="Again", prompt_id="q", timestamp=3.0)
        server.emit("message.delta", text="Half an ans")
        await until(pilot, lambda: "Half an ans" in shown(app))
        server.emit("message.start", restart=True)
        server.emit("message.delta", text="A whole answer.")
        await until(pilot, lambda: "A whole answer." in shown(app))
        assert "Half an ans" not in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: server.asked("session.interrupt"), "the interrupt")
        server.emit("message.complete", text="A whole", status="interrupted", usage={})
        await until(pilot, lambda: "Stopped." in shown(app))


@pytest.mark.parametrize(
    ("key", "choice", "size"),
    [
        ("o", "once", (80, 24)),
        ("s", "session", (80, 24)),
        ("a", "always", (160, 50)),
        ("enter", "deny", (160, 50)),
    ],
)
async def test_an_approval(
    tmp_path: Path,
    key: str,
    choice: str,
    size: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes_cli.tui.dialog.DEAF_SECONDS", 3600)  # until the test says so
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        server.emit(
            "approval.request", request_id="r", command="rm -rf build", description="It deletes.",
            choices=["once", "session", "always", "deny"], allow_permanent=True, expires_at=0,
        )  # fmt: skip
        await until(pilot, lambda: isinstance(app.screen, ApprovalDialog))
        await pilot.press(key)  # meant for the input: it has not been read yet
        assert isinstance(app.screen, ApprovalDialog) and not server.asked("approval.respond")
        app.screen._listen()
        await until(pilot, lambda: "Esc denies" in shown(app))
        await until(pilot, lambda: "rm -rf build" in shown(app) and "It deletes." in shown(app))
        await pilot.press(key)
        await until(pilot, lambda: server.asked("approval.respond"))
        assert server.asked("approval.respond")[0]["choice"] == choice
        assert app.screen is app.chat


@SIZES
async def test_questions_come_one_after_the_other(tmp_path: Path, size: tuple[int, int]) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        server.emit("clarify.request", request_id="1", question="Which?", choices=["this", "that"])
        server.emit("clarify.request", request_id="2", question="Why?", choices=[])
        server.emit("sudo.request", request_id="3")
        server.emit("clarify.request", request_id="4", question="Gone?", choices=[])
        await until(pilot, lambda: ready(app, QuestionDialog))
        await pilot.press("down", "enter")
        await until(pilot, lambda: ready(app, QuestionDialog, "2"))
        await pilot.press(*"so", "enter")
        await until(pilot, lambda: ready(app, PasswordDialog))
        await pilot.press(*"pw")
        assert "pw" not in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: ready(app, QuestionDialog, "4"))
        server.emit("request.closed", request_id="4")
        await until(pilot, lambda: app.screen is app.chat)
        assert [one["answer"] for one in server.asked("clarify.respond")] == ["that", "so"]
        assert server.asked("sudo.respond") == [{"request_id": "3", "password": "pw"}]


def ready(app: HermesApp, kind: type[Dialog[Any]], request_id: str | None = None) -> bool:
    """Whether such a dialog is shown and listens."""
    screen = app.screen
    return isinstance(screen, kind) and screen.is_ready and request_id in (None, screen.request_id)


@SIZES
async def test_help(tmp_path: Path, size: tuple[int, int]) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: len(app.screen.query(Section)) == 5, "the commands")
        await until(pilot, lambda: "Shift+Enter" in shown(app), "the keys")
        await pilot.press("end")
        await until(pilot, lambda: "/theme" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("?")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("q", "x", "?")  # not the first character: it is written
        await until(pilot, lambda: app.chat.composer.text == "x?")


@SIZES
async def test_copying(tmp_path: Path, size: tuple[int, int]) -> None:
    server = StandIn()
    server.messages = [
        {"role": "user", "content": "How?", "timestamp": 1.0},
        {"role": "assistant", "content": "So:\n```sh\nls -l\n```\n", "timestamp": 2.0},
    ]
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        await pilot.press("f4")
        await until(pilot, lambda: isinstance(app.screen, CopyScreen))
        await pilot.press("enter")
        await until(pilot, lambda: app.clipboard == "So:\n```sh\nls -l\n```")
        await pilot.press("f4", "down", "enter")
        await until(pilot, lambda: app.clipboard == "ls -l")
        server.emit("clipboard.copy", text="from the server")
        await until(pilot, lambda: app.clipboard == "from the server")


def a_family(home: Path) -> None:
    """A conversation, and a branch of it."""
    with SessionDB(home / "state.db") as db:
        db.create_session("first", "tui")
        db.append_message("first", "user", "Where to?")
        db.append_message("first", "assistant", "To Rome.")
        db.set_session_title("first", "Trip")
        db.branch_session("first", "second", title="Trip to Oslo")


@SIZES
async def test_choosing_a_conversation(tmp_path: Path, size: tuple[int, int]) -> None:
    a_family(tmp_path)
    row = {"started_at": 1.0, "last_active": 2.0, "source": "tui", "model": "m", "waiting": False}
    found = [
        {**row, "id": "first", "title": "Trip", "preview": "Where to?", "message_count": 2},
        {**row, "id": "none", "title": None, "preview": "Hello", "message_count": 0},
    ]
    server = StandIn()
    server.answers["session.list"] = lambda params: {
        "sessions": [one for one in found if (params.get("query") or "") in str(one["title"])]
    }
    hit = {"session_id": "second", "title": "Trip to Oslo", "snippet": "fjord", "timestamp": 3.0}
    server.answers["session.search"] = lambda _: {"query": "", "results": [hit]}
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, SessionPicker))
        await until(pilot, lambda: "To Rome." in shown(app), "the preview")
        tree = app.screen.query_one(Tree)
        await until(pilot, lambda: len(tree.root.children) == 1, "the tree")
        assert [node.data for node in tree.root.children[0].children] == ["second"]
        await until(pilot, lambda: "Trip to Oslo" in shown(app), "the list")
        await pilot.press("down")
        await until(pilot, lambda: not tree.root.children, "one without a family")
        await pilot.press(*"Trip")
        options = app.screen.query_one(OptionList)
        await until(pilot, lambda: "fjord" in str(app.screen.query_one(".said", Static).render())
                    or options.option_count == 2, "hits")  # fmt: skip
        await until(
            pilot, lambda: [session["id"] for session in app.screen.sessions] == ["first", "second"]
        )
        await pilot.press("down", "enter")
        await until(pilot, lambda: server.asked("session.resume"))
        assert server.asked("session.resume")[0]["session_id"] == "second"
        await until(pilot, lambda: app.chat.key == "second")


async def test_a_preview_may_come_after_the_picker_was_closed(tmp_path: Path) -> None:
    """A store on a server may take its time."""
    server = StandIn()
    server.answers["session.list"] = lambda _: {"sessions": []}
    async with make_app(server, tmp_path).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, SessionPicker))
        picker = app.screen
        await until(pilot, lambda: "There are none yet." in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat and not picker.query(".said"))
        picker._show(Glimpse([], []), "too late")


async def test_a_member_of_the_family_is_chosen_in_the_tree(tmp_path: Path) -> None:
    a_family(tmp_path)
    row = {"started_at": 1.0, "last_active": 2.0, "source": "tui", "model": "m", "waiting": False}
    server = StandIn()
    server.answers["session.list"] = lambda _: {
        "sessions": [{**row, "id": "first", "title": "Trip", "preview": "", "message_count": 2}]
    }
    async with make_app(server, tmp_path).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, SessionPicker))
        tree = app.screen.query_one(Tree)
        await until(pilot, lambda: tree.root.children)
        await pilot.press("tab", "tab", "down", "down", "enter")
        await until(pilot, lambda: server.asked("session.resume"))
        assert server.asked("session.resume")[0]["session_id"] == "second"
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, SessionPicker))
        assert app.screen.query_one(Input).has_focus
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


@SIZES
async def test_stored_messages_and_resizing(tmp_path: Path, size: tuple[int, int]) -> None:
    call = {"id": "c", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
    server = StandIn()
    server.messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning": "Hm."},
        {"role": "tool", "content": "a.txt", "tool_call_id": "c"},
        {"role": "assistant", "content": "One file.", "timestamp": 4.0},
    ] * 30
    async with make_app(server, tmp_path).run_test(size=size) as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: "One file." in shown(app))
        drawn = len(app.chat.query(UserMessage))
        assert drawn < 30
        app.chat.transcript.scroll_home(animate=False)
        await until(pilot, lambda: "earlier blocks" in shown(app))
        await pilot.click("Earlier")
        await until(pilot, lambda: len(app.chat.query(UserMessage)) > drawn, "earlier ones")
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: app.size.width == 40 and "ready" in shown(app))
        assert app.chat.query(UserMessage)[0].text == "Look\n[image]"


async def test_what_a_tool_prints_is_only_shown(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        evil = "\x1b]0;owned\x07\x1b[2J[red]safe[/red]\x9b31m"
        server.emit("message.start", prompt=evil, prompt_id="p", timestamp=1.0)
        server.emit("message.delta", text=evil)
        server.emit("tool.start", tool_id="t", name="terminal", context=evil, args={"x": evil})
        server.emit("tool.progress", tool_id="t", text=evil)
        server.emit("status.update", kind="notice", text=evil)
        await until(pilot, lambda: app.chat.query(Notice))
        await until(pilot, lambda: shown(app).count("[red]safe[/red]") >= 4, "as plain text")
        assert "\x1b" not in shown(app) and "owned" not in shown(app) and "\x9b" not in shown(app)


async def test_progress_is_shown_in_the_status_line_and_nowhere_else(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test(size=(100, 30)) as pilot:
        app = await opened(pilot)
        server.emit("message.start", prompt="Hi", prompt_id="q", timestamp=3.0)
        server.emit("status.update", kind="notice", text="First use: fetching it (93 MB)")
        for percent in (5, 50, 95):
            server.emit("status.update", kind="progress", text=f"fetching {percent}% of 93 MB")
        await until(pilot, lambda: "fetching 95% of 93 MB" in shown(app), "progress")
        assert len(app.chat.query(Notice)) == 1
        server.emit("message.delta", text="Hello.")
        await until(pilot, lambda: "answering" in shown(app), "the answer")
        assert "93 MB" not in shown(app).splitlines()[-1]
