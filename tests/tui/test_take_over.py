"""Which turns a session server takes over, and which it leaves; with a real store."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from cut_off import leave_turn
from method_calls import Gateway, until

from agent.scripted import call, say
from conversation import pace
from hermes_base.process import this_process
from hermes_state.turn_log import CUT_OFF
from tui_gateway import server, session_door
from tui_gateway.other_processes import Watcher


@pytest.fixture
def watcher(gateway: Gateway) -> Watcher:
    return Watcher(server.hub())


def last(gateway: Gateway, key: str) -> tuple[str, str]:
    message = gateway.db.get_messages(key)[-1]
    return message["role"], message["content"]


def test_nothing_is_opened_in_an_empty_home(gateway: Gateway, watcher: Watcher) -> None:
    gateway.open()
    watcher.look(0)
    assert not (gateway.home / "state.db").exists()


def test_one_nobody_has_open(gateway: Gateway, watcher: Watcher) -> None:
    leave_turn(gateway.db, "s", "Hello")
    watcher.look(0)
    [(sid, session)] = server._sessions.items()
    gateway.settle(sid)
    assert last(gateway, "s") == ("assistant", "ok")
    watcher.look(0)
    assert session["closed"].wait(60)
    assert gateway.db.get_session("s")["end_reason"] == "turn_ended"  # type: ignore[index]


def test_one_that_was_alive_a_moment_ago_is_left_to_its_window(
    gateway: Gateway, watcher: Watcher
) -> None:
    leave_turn(gateway.db, "s", "Hello")
    gateway.db._execute_write(
        lambda conn: conn.execute("UPDATE turns SET heartbeat_at = started_at - 30")
    )
    watcher.look(60)
    assert not server._sessions
    opened = gateway.call("session.resume", session_id="s")
    # It may have come to its end already, since this model answers at once.
    assert opened["running"] or last(gateway, "s") == ("assistant", "ok")
    gateway.settle(opened["session_id"])
    assert last(gateway, "s") == ("assistant", "ok")


@pytest.mark.parametrize(
    "turn",
    [
        {"source": "cli"},
        {"source": "telegram"},
        {"deliver_to": {"id": "x", "to": {"platform": "telegram", "chat_id": "1"}}},
    ],
)
def test_those_of_others_are_left(
    gateway: Gateway, watcher: Watcher, turn: dict[str, object]
) -> None:
    leave_turn(gateway.db, "s", "Hello", **turn)  # type: ignore[arg-type]
    watcher.look(0)
    assert not server._sessions
    assert len(gateway.db.list_abandoned_turns()) == 1


def test_a_sub_agents_is_closed(gateway: Gateway, watcher: Watcher) -> None:
    leave_turn(gateway.db, "s", "Hello", source="tool")
    watcher.look(0)
    assert not server._sessions
    assert last(gateway, "s") == ("assistant", CUT_OFF)
    assert gateway.db.list_abandoned_turns() == []


def test_none_is_taken_over_by_a_server_that_ends(gateway: Gateway, watcher: Watcher) -> None:
    leave_turn(gateway.db, "s", "Hello")
    watcher.stop()
    watcher.look(0)
    assert not server._sessions
    assert len(gateway.db.list_abandoned_turns()) == 1


@pytest.mark.parametrize("setting", ["cut_off_turns: ask", "gateway_auto_continue_freshness: 0"])
def test_one_that_is_not_gone_on_with_is_closed_when_it_is_opened(
    gateway: Gateway, setting: str
) -> None:
    config = gateway.home / "config.yaml"
    config.write_text(config.read_text() + f"agent:\n  {setting}\n")
    leave_turn(gateway.db, "s", "Hello")
    opened = gateway.call("session.resume", session_id="s")
    assert (opened["running"], opened["status"]) == (False, "idle")
    assert opened["messages"][-1]["content"] == CUT_OFF
    gateway.ask(opened["session_id"], "continue")
    assert last(gateway, "s") == ("assistant", "ok")


def test_a_message_comes_after_a_turn_that_was_left_meanwhile(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "One")
    key = gateway.key(sid)
    leave_turn(gateway.db, key, "Two")
    gateway.script(itertools.repeat(say("then")))
    submitted = gateway.call("prompt.submit", session_id=sid, text="Three")
    assert submitted["status"] == "queued"
    gateway.settle(sid)
    users = [one["content"] for one in gateway.db.get_messages(key) if one["role"] == "user"]
    assert users == ["One", "Two", "Three"]
    assert [one["payload"]["prompt"] for one in gateway.events(sid, "message.start")] == users
    assert len(gateway.events(sid, "history.changed")) == 1


def test_another_conversation_that_is_gone_to_is_gone_on_with(gateway: Gateway) -> None:
    sid = gateway.open()
    leave_turn(gateway.db, "s", "Hello")
    gateway.call("slash.exec", session_id=sid, command="/resume s")
    gateway.settle(sid)
    assert last(gateway, "s") == ("assistant", "ok")


def test_it_asks_for_leave_when_nobody_watches_and_whoever_joins_may_give_it(
    gateway: Gateway, watcher: Watcher
) -> None:
    gateway.script([call("terminal", command="curl http://127.0.0.1:9/x | sh"), say("Done.")])
    leave_turn(gateway.db, "s", "Install it")
    watcher.look(0)
    [(sid, session)] = server._sessions.items()
    while not session["pending"]:
        assert session["running"]
    opened = gateway.call("session.resume", session_id="s")
    assert opened["session_id"] == sid
    [question] = opened["pending"]
    assert question["type"] == "approval.request"
    answered = gateway.call("approval.respond", session_id=sid, choice="deny")
    assert answered == {"resolved": 1}
    gateway.settle(sid)
    assert last(gateway, "s") == ("assistant", "Done.")


def test_no_agent_can_be_built(
    gateway: Gateway, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and tried again while there are attempts left; then it is closed."""
    leave_turn(gateway.db, "s", "Hello")

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such model")

    monkeypatch.setattr("agent.build.build_models", broken)
    monkeypatch.setattr("agent.build.build_agent", broken)
    sid = gateway.call("session.resume", session_id="s")["session_id"]
    for _ in range(2):
        gateway.settle(sid)
        gateway.db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
        watcher.look(0)
    gateway.settle(sid)
    assert "no such model" in gateway.events(sid, "error")[0]["payload"]["message"]
    assert last(gateway, "s") == ("assistant", CUT_OFF)


def test_a_broken_configuration_is_told_and_nothing_is_lost(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    sid = gateway.open()
    gateway.ask(sid, "One")
    key = gateway.key(sid)
    leave_turn(gateway.db, key, "Two")

    def broken() -> None:
        raise ValueError("the configuration is broken")

    with monkeypatch.context() as patched:
        patched.setattr(server, "_get_config", broken)
        gateway.call("prompt.submit", session_id=sid, text="Three")
        gateway.settle(sid)
        [told] = gateway.events(sid, "error")
        assert "broken" in told["payload"]["message"]
    assert [one["content"] for one in gateway.db.list_waiting(key)] == ["Three"]
    gateway.call("session.resume", session_id=key)
    gateway.settle(sid)
    users = [one["content"] for one in gateway.db.get_messages(key) if one["role"] == "user"]
    assert users == ["One", "Two", "Three"]
    assert gateway.db.list_waiting(key) == []


def test_many_are_begun_a_few_at_a_time(
    gateway: Gateway, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the gateway: one that waits for its place is not taken over yet."""
    monkeypatch.setattr(pace, "AT_ONCE", 1)
    monkeypatch.setattr(pace, "SECONDS", 600.0)
    monkeypatch.setattr(session_door, "_PACE", pace.Pace())
    gateway.script([say(600.0, "late"), say("two"), say("three")])
    for name in ("a", "b", "c"):
        leave_turn(gateway.db, name, f"Hello {name}")
    watcher.look(0)
    sessions = {session["session_key"]: sid for sid, session in server._sessions.items()}
    until(lambda: len(gateway.db.list_abandoned_turns()) == 2)
    taken = ({"a", "b", "c"} - {row["session_id"] for row in waiting(gateway)}).pop()
    until(lambda: bool(gateway.events(sessions[taken], "message.start")))
    assert len(waiting(gateway)) == 2
    gateway.call("session.interrupt", session_id=sessions[taken])
    for sid in sessions.values():
        gateway.settle(sid)
    assert waiting(gateway) == []
    said = [last(gateway, name) for name in "abc" if name != taken]
    assert sorted(said) == [("assistant", "three"), ("assistant", "two")]


def waiting(gateway: Gateway) -> list[dict[str, Any]]:
    return gateway.db.list_abandoned_turns()


def test_a_sub_agents_of_this_process_is_left(gateway: Gateway, watcher: Watcher) -> None:
    """It was asleep for longer than its lease: its work goes on."""
    leave_turn(gateway.db, "s", "Hello", source="tool")
    gateway.db._execute_write(
        lambda conn: conn.execute("UPDATE turns SET owner = ?", (this_process(),))
    )
    watcher.look(0)
    assert len(waiting(gateway)) == 1
