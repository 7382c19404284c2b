"""Handlers of a home's events run on their own, and only where code of others is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from conversation.event_hooks import EventHooks
from hermes_base import session_context


@pytest.fixture
def hooks(tmp_path: Path) -> EventHooks:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "HOOK.yaml").write_text("name: one\nevents: ['agent:end']\n")
    (folder / "handler.py").write_text(
        "import threading\n"
        "from hermes_base.session_context import get_session_env\n"
        "def handle(event, context):\n"
        "    return threading.current_thread().daemon, get_session_env('HERMES_SESSION_ID')\n"
    )
    return EventHooks(tmp_path)


async def test_a_handler_runs_on_a_daemon_thread_in_the_session_of_its_turn(
    hooks: EventHooks,
) -> None:
    # One that never returns does not keep `hermes chat -q` from ending.
    with session_context.session_vars(session_id="s1"):
        assert await hooks.emit("agent:end", {}) == [(True, "s1")]


async def test_safe_mode_leaves_handlers_out(
    hooks: EventHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    assert hooks.loaded_hooks == [] and await hooks.emit("agent:end", {}) == []
