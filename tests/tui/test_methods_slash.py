"""Slash commands in a live session: carried out, completed, following the conversation."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from method_calls import Gateway

from agent.scripted import say
from hermes_base import plugins


def run(gateway: Gateway, sid: str, line: str) -> dict[str, object]:
    result: dict[str, object] = gateway.call("slash.exec", session_id=sid, command=line)
    return result


def test_results_of_every_kind(gateway: Gateway) -> None:
    skill = gateway.home / "skills" / "knit"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: knit\ndescription: How to knit.\n---\nTwo left.\n")
    sid = gateway.open()
    gateway.ask(sid, "one")
    assert run(gateway, sid, "/version")["type"] == "exec"
    assert run(gateway, sid, "/steer faster") == {"type": "send", "output": "", "message": "faster"}
    undone = run(gateway, sid, "/undo")
    assert (undone["type"], undone["message"]) == ("prefill", "one")
    assert gateway.live(sid)["history"] == []
    knit = run(gateway, sid, "/knit a scarf")
    assert knit["type"] == "skill" and "Two left." in str(knit["message"])
    assert run(gateway, sid, "/quit")["leave"] is True
    named = gateway.call("command.dispatch", session_id=sid, name="/title", arg="Wool")
    assert named["output"] == "Title: Wool"


def test_what_cannot_be_done_says_why(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.refused("slash.exec", session_id=sid, command=" / ").code == 4004
    refusal = gateway.refused("slash.exec", session_id=sid, command="/titel x")
    assert refusal.code == 4018 and "/title" in refusal.message
    assert gateway.refused("slash.exec", session_id=sid, command="/undo").code == 4018
    assert gateway.refused("command.resolve", name="nosuch").code == 4011
    assert gateway.call("command.resolve", name="/reset")["canonical"] == "/new"


def test_catalog_and_completion(gateway: Gateway) -> None:
    sid = gateway.open()
    catalog = gateway.call("commands.catalog")
    assert catalog["canon"]["/reset"] == "/new"
    assert catalog["sub"]["/busy"] == ["queue", "steer", "interrupt"]
    listed = [pair for one in catalog["categories"] for pair in one["pairs"]]
    assert listed == catalog["pairs"] and ["/new", "Begin a new conversation"] in listed
    found = gateway.call("complete.slash", text="/ti", session_id=sid)
    assert found["replace_from"] == 0 and [one["text"] for one in found["items"]] == ["/title"]
    found = gateway.call("complete.slash", text="/busy st")
    assert (found["replace_from"], found["items"][0]["text"]) == (6, "steer")
    assert gateway.call("complete.slash", text="no slash")["items"] == []


def test_new_goes_on_under_the_same_live_id(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[tuple[str, object]] = []
    for hook in ("on_session_finalize", "on_session_reset"):
        plugins.add_hook(hook, lambda session_id, hook=hook, **_: fired.append((hook, session_id)))
    try:
        sid = gateway.open()
        gateway.ask(sid, "one")
        old = gateway.key(sid)
        before = gateway.call("session.activate", session_id=sid)["latest_seq"]
        run(gateway, sid, "/new Second")
        new = gateway.key(sid)
        assert new != old and gateway.db.get_session(new) is None
        row = gateway.db.get_session(old)
        assert row is not None and row["end_reason"] == "new_session"
        switched = gateway.events(sid, "session.switched")
        assert switched[-1]["payload"]["stored_session_id"] == new
        assert switched[-1]["seq"] > before, "the numbers go on"
        gateway.ask(sid, "two")
        assert gateway.db.get_session_title(new) == "Second"
        assert fired == [
            ("on_session_reset", old), ("on_session_finalize", old), ("on_session_reset", new),
        ]  # fmt: skip
    finally:
        plugins.forget_plugins()


def test_new_during_a_turn_ends_it(gateway: Gateway) -> None:
    asked, go = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        go.wait(60)

    gateway.script([say("begun", wait, "end")] + [say("ok")] * 3)
    sid = gateway.open()
    gateway.call("prompt.submit", session_id=sid, text="one")
    assert asked.wait(60)
    old = gateway.key(sid)
    threading.Timer(0.1, go.set).start()
    run(gateway, sid, "/new")
    assert gateway.key(sid) != old
    gateway.ask(sid, "two")
    assert gateway.call("session.history", session_id=sid)["count"] == 2


def test_resume_and_branch_switch_in_place(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "about stones")
    gateway.call("session.title", session_id=sid, title="Stones")
    first = gateway.key(sid)
    run(gateway, sid, "/branch Pebbles")
    branch = gateway.key(sid)
    assert branch != first and gateway.db.get_session_title(branch) == "Pebbles"
    gateway.ask(sid, "smaller ones")
    run(gateway, sid, "/resume Stones")
    assert gateway.key(sid) == first
    assert gateway.call("session.history", session_id=sid)["count"] == 2
    # One that is open elsewhere is not opened twice.
    other = gateway.open()
    refusal = gateway.refused("slash.exec", session_id=other, command="/resume Stones")
    assert sid in refusal.message
    gateway.ask(sid, "and sand?")
    assert gateway.call("session.history", session_id=sid)["count"] == 4


def test_compress_moves_the_copies_along(gateway: Gateway) -> None:
    sid = gateway.open()
    for number in range(30):
        gateway.ask(sid, f"Stone number {number}: " + "granite and slate " * 60)
    before = gateway.key(sid)
    gateway.live(sid)["pending_title"] = "Never set"
    told = run(gateway, sid, "/compress slate")
    assert "→" in str(told["output"])
    assert gateway.live(sid)["session_key"] == gateway.key(sid) != before
    assert gateway.live(sid)["pending_title"] is None
    assert len(gateway.live(sid)["history"]) < 60
    assert gateway.events(sid, "session.info")[-1]["payload"]["stored_session_id"] != before


def test_a_slow_command_follows_the_conversation(gateway: Gateway) -> None:
    """A turn compresses while a slow command works: the command ends in the right session."""
    from agent.slash import table
    from agent.slash.surface import Surface

    sid = gateway.open()
    for number in range(30):
        gateway.ask(sid, f"Stone number {number}: " + "granite and slate " * 60)
    seen: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def handler(surface: Surface, args: str) -> str:
        seen.append(surface.session_id)
        begun.set()
        go.wait(60)
        seen.append(surface.session_id)
        surface.set_title("From a slow command")
        return "done"

    table.table()
    entry = table.Command("dawdle", (), "", "Slow", "both", handler, "Information", slow=True)
    table._registered["dawdle"] = entry
    try:
        worker = threading.Thread(target=lambda: run(gateway, sid, "/dawdle"))
        worker.start()
        assert begun.wait(60)
        gateway.call("session.compress", session_id=sid)
        go.set()
        worker.join(60)
    finally:
        del table._registered["dawdle"]
    assert seen[0] != seen[1] == gateway.key(sid)
    assert gateway.db.get_session_title(gateway.key(sid)) == "From a slow command"


def test_options_of_a_session(gateway: Gateway) -> None:
    sid = gateway.open()
    run(gateway, sid, "/yolo on")
    run(gateway, sid, "/reasoning high")
    run(gateway, sid, "/busy queue")
    gateway.ask(sid, "one")
    agent = gateway.live(sid)["agent"]
    assert agent.workspace.mode == "full"
    assert gateway.model.requests[-1].reasoning_effort == "high"
    assert gateway.live(sid)["busy_mode"] == "queue"
    info = gateway.call("session.activate", session_id=sid)["info"]
    assert (info["yolo"], info["reasoning_effort"]) == (True, "high")


def test_queue_stop_and_copy(gateway: Gateway) -> None:
    asked, go = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        go.wait(60)

    gateway.script([say("begun", wait, "end"), say("second")])
    sid = gateway.open()
    gateway.call("prompt.submit", session_id=sid, text="one")
    assert asked.wait(60)
    assert "1 waiting" in str(run(gateway, sid, "/queue two")["output"])
    assert gateway.refused("slash.exec", session_id=sid, command="/undo").code == 4018
    threading.Timer(0.1, go.set).start()
    assert "Stopped" in str(run(gateway, sid, "/stop")["output"])
    gateway.settle(sid)
    run(gateway, sid, "/copy")
    assert gateway.events(sid, "clipboard.copy")[-1]["payload"]["text"] == "second"


def test_image_command_attaches(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    run(gateway, sid, f"/image {picture}")
    assert gateway.live(sid)["attached_images"] == [str(picture)]
    picture.write_bytes(b"text")
    other = tmp_path / "b.png"
    other.write_bytes(b"text")
    assert gateway.refused("slash.exec", session_id=sid, command=f"/image {other}").code == 4018
