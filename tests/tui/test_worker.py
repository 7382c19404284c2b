"""What the conversations' one worker gives a live session: event hooks, a silence watch, and linked
chats that see what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from method_calls import Gateway, until

from agent.scripted import Call, calls, say


def add_hook(home: Path) -> Path:
    """An event hook; returns the file that it writes what it hears to."""
    told = home / "told"
    folder = home / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("name: watch\nevents: ['session:*', 'agent:*']\n")
    (folder / "handler.py").write_text(
        "import json, pathlib\n"
        "def handle(event, context):\n"
        f"    with pathlib.Path({str(told)!r}).open('a') as file:\n"
        "        file.write(json.dumps({'event': event, **context}) + '\\n')\n"
    )
    return told


def heard(told: Path) -> list[dict[str, Any]]:
    lines = told.read_text().splitlines() if told.exists() else []
    return [json.loads(line) for line in lines]


def test_event_hooks_hear_of_a_sessions_turns(gateway: Gateway) -> None:
    told = add_hook(gateway.home)
    gateway.script([calls([Call("todo", {"todos": []})]), say("Done."), say("Again.")])
    sid = gateway.open()
    gateway.ask(sid, "Do it")
    gateway.ask(sid, "More")
    until(lambda: len(heard(told)) == 6)
    assert [one["event"] for one in heard(told) if one["event"] != "agent:step"] == [
        "session:start", "agent:start", "agent:end", "agent:start", "agent:end",
    ]  # fmt: skip
    assert all(one["platform"] == "tui" for one in heard(told))
    ends = [one for one in heard(told) if one["event"] == "agent:end"]
    assert [(one["message"], one["response"]) for one in ends] == [
        ("Do it", "Done."), ("More", "Again."),
    ]  # fmt: skip


def test_event_hooks_hear_of_a_compression_between_turns(gateway: Gateway) -> None:
    told = add_hook(gateway.home)
    sid = gateway.open()
    for _ in range(6):
        gateway.ask(sid, "granite and slate " * 100)
    before = gateway.key(sid)
    gateway.call("session.compress", session_id=sid)
    assert gateway.key(sid) != before, "it was compressed"
    until(lambda: any(one["event"] == "session:compress" for one in heard(told)))
    found = [one for one in heard(told) if one["event"] == "session:compress"]
    assert [(one["old_session_id"], one["session_id"]) for one in found] == [
        (before, gateway.key(sid))
    ]


def test_linked_chats_are_shown_what_is_said(gateway: Gateway) -> None:
    gateway.script([say("Hello."), say("Again.")])
    sid = gateway.open()
    gateway.ask(sid, "Hi")
    origin = {"platform": "local", "chat_id": "7", "user_id": "u"}
    for name, linked in (("linked", True), ("bound", False)):
        entry = {"session_id": gateway.key(sid), "linked": linked, "origin": origin}
        gateway.db.create_bindings({name: entry})
    gateway.ask(sid, "More")
    owed = gateway.db.list_deliveries()
    assert [(row["session_key"], row["chat_id"], row["content"]) for row in owed] == [
        ("linked", "7", "💬 At the computer: More"),
        ("linked", "7", "🤖 Again."),
    ]


def test_a_silent_turn_is_told_and_stopped(gateway: Gateway) -> None:
    config = gateway.home / "config.yaml"
    limits = "agent: {gateway_timeout_warning: 0.05, gateway_timeout: 0.3}\n"
    config.write_text(config.read_text() + limits)
    gateway.script([say("half", 600.0, "whole"), say("And on.")])
    sid = gateway.open()
    gateway.ask(sid, "slow")
    notices = [
        one["payload"]["text"]
        for one in gateway.events(sid, "status.update")
        if one["payload"]["kind"] == "notice"
    ]
    assert "waiting for the model" in notices[0] and "/stop" in notices[0]
    assert "I stopped" in notices[1]
    (end,) = gateway.events(sid, "message.complete")
    assert end["payload"]["status"] == "interrupted"
    gateway.ask(sid, "go on")
    assert gateway.events(sid, "message.complete")[-1]["payload"]["text"] == "And on."
