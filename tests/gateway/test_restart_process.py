"""A gateway in a process of its own, restarted from a chat in the middle of an answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("telegram")

from gateway.restart import ASKED, BACK, GO_ON, RESTARTING
from gateway.status import read_runtime_status, running_pid

from .bot_api import TOKEN, BotApi
from .chats import CONFIG
from .loopback import LoopbackServer, Request, Response


class Provider(LoopbackServer):
    """A model whose first answer never comes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    async def answer(self, request: Request) -> Response | None:
        """Hang once, then answer."""
        messages = json.loads(request.body)["messages"]
        self.asked.append([str(one["content"]) for one in messages if one["role"] == "user"])
        if len(self.asked) == 1:
            await asyncio.Event().wait()
        choice = {"index": 0, "delta": {"content": "the rest"}, "finish_reason": "stop"}
        chunk = json.dumps({"id": "1", "object": "chat.completion.chunk", "choices": [choice]})
        return Response(200, f"data: {chunk}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")


async def test_a_restart_from_a_chat(tmp_path: Path) -> None:
    async with BotApi() as api, Provider() as provider:
        (tmp_path / "config.yaml").write_text(
            CONFIG
            + f"model: {{default: m, provider: custom, api_key: k, base_url: '{provider.url}'}}\n"
            + f"platforms: {{telegram: {{token: '{TOKEN}', base_url: '{api.url}',"
            + " allowed_users: ['42', '43'], admins: ['42']}}\n"
            + "gateway: {drain_timeout: 0.2}\n"
        )
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_cli.main", "gateway", "run",
            env={**os.environ, "HERMES_HOME": str(tmp_path)},
        )  # fmt: skip
        try:
            await api.say("a long work", chat_id=43, user_id=43)
            await api.until(lambda: len(provider.asked) == 1, 60)
            started = read_runtime_status(tmp_path).get("started_at", 0.0)
            await api.say("/restart", chat_id=42, user_id=42)
            await api.until(lambda: BACK in api.texts(42) and "the rest" in api.texts(43), 60)
            assert api.texts(42) == [ASKED, BACK]
            assert api.texts(43) == [RESTARTING, "the rest"]
            assert provider.asked[1] == ["a long work", GO_ON]
            assert running_pid(tmp_path) == child.pid
            assert read_runtime_status(tmp_path)["started_at"] > started
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == 0
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert (tmp_path / ".clean_shutdown").exists()
    assert "executes itself again" in (tmp_path / "logs" / "gateway.log").read_text()
