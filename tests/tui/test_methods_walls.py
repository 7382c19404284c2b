"""The mode and the folders of a live session: kept with it, told to every client."""

from __future__ import annotations

import pytest
from method_calls import Gateway

from agent.scripted import Call, Step, say


def told(gateway: Gateway, sid: str) -> list[tuple[str, bool, list[str]]]:
    """What the clients were told of a session's wall, event by event."""
    payloads = [one["payload"] for one in gateway.events(sid, "session.info")]
    return [(one["mode"], one["yolo"], one["folders"]) for one in payloads]


def test_a_mode_is_set_kept_and_told(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.call("session.mode", session_id=sid)["mode"] == "guarded"
    done = gateway.call("session.mode.set", session_id=sid, mode="plan")
    assert done["mode"] == "plan"
    assert "nothing can be written" in done["meaning"]
    assert told(gateway, sid)[-1] == ("plan", False, [])
    assert gateway.db.get_wall_settings(gateway.key(sid))["mode"] == "plan"
    gateway.ask(sid, "hello")
    assert gateway.live(sid)["agent"].workspace.mode == "plan"
    gateway.call("session.mode.set", session_id=sid, mode="full")
    assert gateway.live(sid)["agent"].workspace.mode == "full"
    assert told(gateway, sid)[-1] == ("full", True, [])
    assert gateway.refused("session.mode.set", session_id=sid, mode="free").code == -32602


def test_commands_and_methods_are_one(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.call("slash.exec", session_id=sid, command="/mode plan")
    assert gateway.call("session.mode", session_id=sid)["mode"] == "plan"
    gateway.call("config.set", key="yolo", value=True, session_id=sid)
    assert gateway.call("session.mode", session_id=sid)["mode"] == "full"
    assert gateway.call("config.get", key="yolo", session_id=sid)["value"] is True
    gateway.call("config.set", key="yolo", value=False, session_id=sid)
    assert [mode for mode, _, _ in told(gateway, sid)[-3:]] == ["plan", "full", "guarded"]


def test_a_new_session_begins_in_the_mode_it_was_asked_for_and_is_found_in_it(
    gateway: Gateway,
) -> None:
    opened = gateway.call("session.create", cwd=str(gateway.home.parent), mode="plan")
    sid, key = opened["session_id"], opened["stored_session_id"]
    assert opened["info"]["mode"] == "plan"
    gateway.ask(sid, "hello")
    assert "Plan mode" in str(gateway.model.requests[-1].messages)
    gateway.call("session.close", session_id=sid)
    again = gateway.call("session.resume", session_id=key)
    assert again["info"]["mode"] == "plan"


def test_what_another_process_chose_is_told_when_a_turn_begins(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "hello")
    gateway.db.set_wall_mode(gateway.key(sid), "plan")
    gateway.ask(sid, "again")
    assert told(gateway, sid)[-1][0] == "plan"


def test_a_running_turn_is_reached(gateway: Gateway) -> None:
    sid = gateway.open()

    def plan() -> None:
        gateway.call("session.mode.set", session_id=sid, mode="plan")

    wanted = Call("write_file", {"path": "made.txt", "content": "x"})
    gateway.script([Step((plan, wanted)), say("done")])
    gateway.ask(sid, "Write it")
    assert not (gateway.home.parent / "made.txt").exists()


@pytest.mark.parametrize("by", ["method", "command"])
def test_folders_are_added_and_removed(gateway: Gateway, by: str) -> None:
    sid = gateway.open()
    more = gateway.home.parent / "more"
    more.mkdir()
    if by == "method":
        gateway.call("session.folders.add", session_id=sid, path="more")
    else:
        gateway.call("slash.exec", session_id=sid, command="/folder add more")
    found = gateway.call("session.folders", session_id=sid)
    assert found == {"root": str(gateway.home.parent), "configured": [], "added": [str(more)]}
    assert told(gateway, sid)[-1][2] == [str(more)]
    gateway.ask(sid, "hello")
    assert gateway.live(sid)["agent"].workspace.folders == [more]
    if by == "method":
        gateway.call("session.folders.remove", session_id=sid, path=str(more))
    else:
        gateway.call("slash.exec", session_id=sid, command=f"/folder remove {more}")
    assert gateway.live(sid)["agent"].workspace.folders == []
    assert told(gateway, sid)[-1][2] == []


def test_folders_that_cannot_be_had(gateway: Gateway) -> None:
    sid = gateway.open()
    for path in ("/", "none", str(gateway.home), str(gateway.home.parent)):
        refusal = gateway.refused("session.folders.add", session_id=sid, path=path)
        assert refusal.code == 4016, path
    assert gateway.refused("session.folders.remove", session_id=sid, path="none").code == 4016
