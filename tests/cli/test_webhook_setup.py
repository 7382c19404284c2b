"""`hermes gateway setup` for webhooks: what it writes works, and so does the request it shows."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pty
import select
import shutil
import stat
import sys
import time
from pathlib import Path

import pytest
import yaml

from agent.config import load_config
from agent.scripted import ScriptedModel, say
from gateway.config_load import load_gateway_config
from gateway.run import GatewayRunner
from hermes_cli.gateway_setup import set_up
from hermes_state import AsyncSessionDB, SessionDB

from ..ports import free_port

QUIET = "auxiliary: {title_generation: {enabled: false}}\nmemory: {review_every: 0}\n"


def answer(home: Path, *answers: str) -> tuple[int, str]:
    """Go through the questions; the exit code, and what was said."""
    said: list[str] = []
    given = iter(answers)
    code = set_up(home, lambda _: next(given), lambda _: "", said.append)
    return code, "\n".join(said)


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("openssl")), reason="curl and openssl are needed"
)
async def test_the_request_that_is_shown_is_answered(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "config.yaml"
    config.write_text(f"{QUIET}# mine\nplatforms:\n  webhook: {{port: {port}}}\n")
    code, said = answer(tmp_path, "4", "builds", "Say {hello}.", "")
    assert code == 0
    assert "# mine" in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert not (tmp_path / ".env").exists()
    script = said.split("gateway runs:\n")[1].split('"accepted"')[0]
    settings = load_config(tmp_path, {})
    db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
    runner = GatewayRunner(load_gateway_config(settings), settings, db, tmp_path)
    runner._model = ScriptedModel(itertools.repeat(say("world")))
    await runner.start()
    try:
        process = await asyncio.create_subprocess_exec(
            "bash", "-euc", script, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        told, _ = await process.communicate()
        assert json.loads(told)["status"] == "accepted"
        async with asyncio.timeout(60):
            while db._db.message_count() < 2:
                await asyncio.sleep(0.01)
        (session,) = db._db.list_sessions_rich(source="webhook")
        stored = [one["content"] for one in db._db.get_messages(session["id"])]
        assert stored == ["Say world.", "world"]
    finally:
        await runner.stop()
        await db.close()


def test_a_second_route_keeps_the_first(tmp_path: Path) -> None:
    assert answer(tmp_path, "4", "builds", "", "")[0] == 0
    first = yaml.safe_load((tmp_path / "config.yaml").read_text())["platforms"]["webhook"]
    assert answer(tmp_path, "4", "issues", "{issue.title}", "")[0] == 0
    both = yaml.safe_load((tmp_path / "config.yaml").read_text())["platforms"]["webhook"]
    assert both["routes"]["builds"] == first["routes"]["builds"]
    assert both["routes"]["issues"]["prompt"] == "{issue.title}"
    secrets = {route["secret"] for route in both["routes"].values()}
    assert len(secrets) == 2 and {len(secret) for secret in secrets} == {64}
    before = (tmp_path / "config.yaml").read_bytes()
    code, said = answer(tmp_path, "4", "builds", "", "")
    assert code == 1 and "already" in said
    assert (tmp_path / "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "chat", "told"),
    [
        ("no/slashes", "", "letters, digits"),
        ("", "", "letters, digits"),
        ("builds", "somewhere", "name a chat"),
        ("builds", "telegram:42", "telegram is not set up yet"),
    ],
)
def test_what_cannot_be_used_changes_nothing(
    tmp_path: Path, name: str, chat: str, told: str
) -> None:
    code, said = answer(tmp_path, "4", name, "", chat)
    assert code == 1
    assert told in said and "Nothing was changed" in said
    assert not (tmp_path / "config.yaml").exists()


def test_answers_go_to_a_chat_that_is_set_up(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"TELEGRAM_BOT_TOKEN=123456789:{'a' * 35}\n")
    code, said = answer(tmp_path, "4", "builds", "", "telegram:42")
    assert code == 0 and "comes to telegram:42" in said
    kept = yaml.safe_load((tmp_path / "config.yaml").read_text())["platforms"]["webhook"]
    assert kept["routes"]["builds"]["deliver"] == {"platform": "telegram", "chat_id": "42"}


def test_in_a_terminal(tmp_path: Path) -> None:
    pid, screen = pty.fork()
    if pid == 0:
        os.environ["HERMES_HOME"] = str(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "hermes_cli.main", "gateway", "setup"])
    shown = b""
    try:
        questions = [b"Number:", b"e.g. builds:", b"it calls for):", b"in the history):"]
        for question, reply in zip(questions, [b"4", b"alarms", b"", b""], strict=True):
            shown = _read_until(screen, shown, question)
            os.write(screen, reply + b"\n")
        shown = _read_until(screen, shown, b"hermes gateway start")
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(screen)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"/hooks/alarms" in shown
    assert "alarms" in (tmp_path / "config.yaml").read_text()


def _read_until(screen: int, shown: bytes, wanted: bytes) -> bytes:
    deadline = time.monotonic() + 30
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([screen], [], [], 0.2)[0]:
            shown += os.read(screen, 65536)
    return shown
