"""The mode of a conversation on the command line and in the interface: chosen, shown, kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
sys.path.insert(0, str(Path(__file__).parent))

from textual.pilot import Pilot
from tui_stand_in import Refusal, StandIn, make_app

from hermes_cli.tui.app import HermesApp, Opening

from .conftest import Hermes, ModelServer
from .pty_screen import PtyProgram
from .test_tui_screens import opened, shown, until

SHIFT_TAB = "\x1b[Z"


def status(app: HermesApp) -> str:
    """The last line of the screen."""
    return shown(app).splitlines()[-1]


async def press_and_see(pilot: Pilot[Any], app: HermesApp, mode: str) -> None:
    await pilot.press("shift+tab")
    await until(pilot, lambda: app.chat.status.facts.mode == mode, mode)
    await pilot.pause()


async def test_shift_tab_goes_round_guarded_and_plan(tmp_path: Path) -> None:
    server = StandIn()
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        assert "guarded" not in status(app)
        await press_and_see(pilot, app, "plan")
        await until(pilot, lambda: " plan " in status(app), "plan")
        await press_and_see(pilot, app, "guarded")
        await until(pilot, lambda: " plan " not in status(app), "no word")
        server.emit("session.info", **{**server.opened()["info"], "mode": "full", "yolo": True})
        await until(pilot, lambda: " full " in status(app), "full")
        await press_and_see(pilot, app, "guarded")
    asked = [one["mode"] for one in server.asked("session.mode.set")]
    assert asked == ["plan", "guarded", "guarded"]


async def test_a_mode_that_could_not_be_set_is_not_shown(tmp_path: Path) -> None:
    server = StandIn()
    server.answers["session.mode.set"] = lambda _: Refusal(code=5000, message="the disk is full")
    async with make_app(server, tmp_path).run_test() as pilot:
        app = await opened(pilot)
        await pilot.press("shift+tab")
        await until(pilot, lambda: "the disk is full" in shown(app), "the reason")
        assert app.chat.status.facts.mode == "guarded"


async def test_help_names_the_key(tmp_path: Path) -> None:
    async with make_app(StandIn(), tmp_path).run_test(size=(100, 60)) as pilot:
        app = await opened(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: "Shift+Tab" in shown(app), "the key")
        assert "plan only, or guarded again" in shown(app)


async def test_the_interface_opens_as_it_was_asked_to(tmp_path: Path) -> None:
    server = StandIn()
    server.answers["session.folders.add"] = lambda _: {}
    opening = Opening(mode="plan", folders=("/srv", "/data"))
    async with make_app(server, tmp_path, opening).run_test() as pilot:
        await opened(pilot)
    assert server.asked("session.create")[0]["mode"] == "plan"
    assert [one["path"] for one in server.asked("session.folders.add")] == ["/srv", "/data"]


def test_the_real_interface_plans(hermes: Hermes, server: ModelServer) -> None:
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + "memory:\n  enabled: false\n")
    server.call("write_file", path="made.txt", content="x")
    server.say("First the cellar.")
    terminal = PtyProgram([*hermes.command], hermes.environment, hermes.home)
    try:
        terminal.wait_for("● ready")
        terminal.type(SHIFT_TAB)
        terminal.wait_for(" plan  ●")
        terminal.type("What is to do?\r")
        terminal.wait_for("First the cellar.")
        terminal.type("/mode\r")
        terminal.wait_for("Mode: plan.")
    finally:
        terminal.close()
    assert "Plan mode" in str(server.requests[0]["messages"])
    assert not (hermes.home / "made.txt").exists()
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        assert db.get_wall_settings(session["id"])["mode"] == "plan"


def test_options_of_the_plain_chat_are_kept(hermes: Hermes, server: ModelServer) -> None:
    (hermes.home / "more").mkdir()
    (hermes.home / "other").mkdir()
    server.say("A plan.")
    done = hermes.run(
        "chat", "-Q", "-q", "hello", "--mode", "plan", "--add-dir", "more", "--add-dir", "other"
    )
    assert (done.returncode, done.stdout) == (0, "A plan.\n")
    server.say("Again.")
    assert hermes.run("chat", "-Q", "--continue", "-q", "hello").returncode == 0
    assert ["Plan mode" in str(one["messages"]) for one in server.requests] == [True, True]
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        kept = db.get_wall_settings(session["id"])
    assert kept["mode"] == "plan"
    assert kept["folders"] == [str(hermes.home / name) for name in ("more", "other")]


def test_what_cannot_be_added_is_said_and_nothing_is_asked(
    hermes: Hermes, server: ModelServer
) -> None:
    for folder, reason in (("none", "not a folder"), (".hermes", "belongs to the agent")):
        done = hermes.run("chat", "-q", "hello", "--add-dir", folder)
        assert done.returncode == 2
        assert "--add-dir" in done.stderr and reason in done.stderr
    done = hermes.run("chat", "-q", "hello", "--mode", "free")
    assert done.returncode == 2 and "guarded" in done.stderr
    assert not server.requests
