"""A reminder as its user has it: asked for in words, seen in Telegram, answered, found again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("telegram")

from hermes_state import SessionDB

from .bot_api import TOKEN, BotApi
from .chats import CONFIG
from .loopback import LoopbackServer, Request, Response


class Provider(LoopbackServer):
    """A model that answers with the last thing that it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    async def answer(self, request: Request) -> Response | None:
        """Say what was said."""
        messages = json.loads(request.body)["messages"]
        self.asked.append([str(one["content"]) for one in messages if one["role"] != "system"])
        choice = {"index": 0, "delta": {"content": f"re: {self.asked[-1][-1]}"}}
        chunk = json.dumps(
            {"object": "chat.completion.chunk", "choices": [{**choice, "finish_reason": "stop"}]}
        )
        return Response(200, f"data: {chunk}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")


async def hermes(home: Path, *arguments: str) -> str:
    """What the program prints."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_cli.main", *arguments,
        env={**os.environ, "HERMES_HOME": str(home)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await child.communicate()
    return printed.decode()


@pytest.mark.long
async def test_a_reminder_comes_and_is_answered_in_its_chat(tmp_path: Path) -> None:
    async with BotApi() as api, Provider() as provider:
        (tmp_path / "config.yaml").write_text(
            CONFIG
            + f"model: {{default: m, provider: custom, api_key: k, base_url: '{provider.url}'}}\n"
            + f"platforms: {{telegram: {{token: '{TOKEN}', base_url: '{api.url}',"
            + " allowed_users: ['42'], admins: ['42'], owner: true}}\n"
        )
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_cli.main", "gateway", "run",
            env={**os.environ, "HERMES_HOME": str(tmp_path)},
        )  # fmt: skip
        try:
            await api.say("hello")
            await api.wait_for(1, seconds=60)
            await api.say("/remind me in 2 seconds to call Ada")
            kept = (await api.wait_for(2))[1]
            assert kept.startswith("⏰ call Ada") and "in 2 seconds" in kept
            assert (await api.wait_for(3))[2] == "⏰ call Ada"
            await api.say("done, she sends her love")
            assert (await api.wait_for(4))[3] == "re: done, she sends her love"
            assert provider.asked[-1][-2:] == ["⏰ call Ada", "done, she sends her love"]
            listed = await hermes(tmp_path, "sessions", "search", "love")
        finally:
            gateway.terminate()
            await gateway.wait()
    with SessionDB(tmp_path / "state.db") as db:
        [job] = db._execute_write(lambda conn: list(conn.execute("SELECT id FROM jobs")))
        [run] = db.list_job_runs(job[0])
        said = [row["content"] for row in db.get_messages(run["session_id"])]
    assert run["state"] == "delivered"
    assert said[-3:] == ["⏰ call Ada", "done, she sends her love", "re: done, she sends her love"]
    assert "love" in listed
