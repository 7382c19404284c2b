"""What the terminal interface shows of turns that another process left, runs or has taken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
sys.path.insert(0, str(Path(__file__).parent))

from tui_stand_in import StandIn, make_app

from conversation.abandoned import GOING_ON, TAKEN_AWAY
from hermes_cli.tui.answer import Answer
from hermes_cli.tui.app import Opening
from hermes_cli.tui.blocks import Notice, UserMessage
from hermes_cli.tui.tool_card import ToolCard

from .test_tui_screens import opened, until

ASKED = {"role": "user", "content": "Do it", "timestamp": 1.0}
CALL = {"id": "t", "function": {"name": "terminal", "arguments": '{"command": "make"}'}}


def inflight(said: str) -> dict[str, Any]:
    """The turn that is being gone on with."""
    return {
        "running": True,
        "status": "running",
        "inflight": {
            "user": "Do it", "timestamp": 1.0, "assistant": said, "streaming": True,
            "recovered": True,
        },
    }  # fmt: skip


async def test_a_turn_that_is_gone_on_with(tmp_path: Path) -> None:
    server = StandIn()
    server.messages = [
        ASKED,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t", "content": "[outcome unknown]", "outcome": "unknown"},
    ]
    server.answers["session.resume"] = lambda _: {**server.opened(), **inflight("Once")}
    async with make_app(server, tmp_path, Opening(resume="stored-1")).run_test() as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: app.chat.query(Answer), "the answer so far")
        assert [one.text for one in app.chat.query(Notice)] == [GOING_ON]
        assert [one.state for one in app.chat.query(ToolCard)] == ["unknown"]
        assert [one.text for one in app.chat.query(UserMessage)] == ["Do it"]
        server.emit("message.delta", text=" more.")
        server.emit("message.complete", text="Once more.", status="complete", usage={})
        await until(pilot, lambda: not app.chat.turn.is_running, "the end")
        assert [one.text for one in app.chat.query(Answer)] == ["Once more."]


async def test_what_happens_before_the_conversation_is_drawn_is_not_missed(tmp_path: Path) -> None:
    """Events that came between the answer to session.resume and the first drawing."""
    server = StandIn()
    server.messages = [ASKED]

    def resume(_: dict[str, Any]) -> dict[str, Any]:
        told = {**server.opened(), **inflight("")}
        server.messages = [ASKED, {"role": "assistant", "content": "Done.", "timestamp": 2.0}]
        return told

    def configuration(params: dict[str, Any]) -> dict[str, Any]:  # asked for before it is drawn
        server.emit("message.delta", text="Done.")
        server.emit("message.complete", text="Done.", status="complete", usage={}, timestamp=2.0)
        return {"key": params["key"], "value": False}

    server.answers |= {"session.resume": resume, "config.get": configuration}
    async with make_app(server, tmp_path, Opening(resume="stored-1")).run_test() as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: app.chat.query(Answer), "the answer")
        await until(pilot, lambda: not app.chat.turn.is_running, "the end")
        assert [one.text for one in app.chat.query(Answer)] == ["Done."]


async def test_an_answer_of_another_process_is_shown_when_it_is_there(tmp_path: Path) -> None:
    server = StandIn()
    server.messages = [ASKED]
    elsewhere = {"status": "elsewhere", "asked_elsewhere": ["Waits for an answer in tui: Which?"]}
    server.answers["session.resume"] = lambda _: {**server.opened(), **elsewhere}
    async with make_app(server, tmp_path, Opening(resume="stored-1")).run_test() as pilot:
        app = await opened(pilot)
        await until(pilot, lambda: len(app.chat.query(Notice)) > 1, "the notices")
        told = [notice.text for notice in app.chat.query(Notice)]
        assert told == ["Another process is answering here.", *elsewhere["asked_elsewhere"]]
        server.messages = [ASKED, {"role": "assistant", "content": "Done.", "timestamp": 2.0}]
        server.emit("history.changed")
        await until(pilot, lambda: app.chat.query(Answer), "the answer")
        assert not app.chat.query(Notice)


async def test_a_turn_that_was_taken_away(tmp_path: Path) -> None:
    """What was streamed is drawn once, though the conversation is drawn anew in between."""
    server = StandIn()
    server.messages = [ASKED]
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        server.answers["session.activate"] = lambda _: {**server.opened(), **inflight("Once")}
        server.emit("history.changed")
        server.emit("message.start", prompt="Do it", prompt_id="", timestamp=1.0)
        server.emit("message.delta", text="Once")
        await until(pilot, lambda: app.chat.query(Answer), "the answer so far")
        server.emit("message.delta", text=" more")
        await until(pilot, lambda: app.chat.query_one(Answer).text == "Once more", "the rest")
        assert [one.text for one in app.chat.query(UserMessage)] == ["Do it"]
        server.emit("message.complete", text="", status="interrupted", usage={}, warning=TAKEN_AWAY)
        await until(pilot, lambda: TAKEN_AWAY in [one.text for one in app.chat.query(Notice)])
        await until(pilot, lambda: not app.chat.turn.is_running, "the end")
        assert [one.text for one in app.chat.query(Answer)] == ["Once more"]
