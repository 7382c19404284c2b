"""A gateway that is killed in the middle of a turn about a file: real processes with homes of their
own, over one PostgreSQL. Another goes on with the turn, and reads the file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.own_folders import OUTPUT_FOLDER

from .. import postgres
from ..conformance.replicas.history import History
from ..conformance.replicas.platform import Telegram
from ..conformance.replicas.world import _stream
from .bot_api import TOKEN
from .loopback import LoopbackServer, Request, Response

pytest.importorskip("telegram")
pytestmark = pytest.mark.long

SECONDS = 60.0
CHAT = 7


class TelegramWithFiles(Telegram):
    """A Telegram whose files can be fetched by every gateway."""

    async def answer(self, request: Request) -> Response | None:
        """Give a file, or do as ever."""
        if "/file/" in request.path:
            return Response(200, self.files[request.path.rpartition("/")[2]])
        return await super().answer(request)

    async def send_file(self, file_id: str, data: bytes) -> None:
        """A person sends a file."""
        self.files[file_id] = data
        document = {"file_id": file_id, "file_name": f"{file_id}.txt", "file_size": len(data)}
        update = self.message(chat_id=CHAT, user_id=CHAT, document=document, caption="read it")
        async with self._changed:
            self._waiting[update["update_id"]] = update
            self._changed.notify_all()


class Reader(LoopbackServer):
    """A model that reads the file it is sent, and says what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.silent: set[str] = set()
        """Gateways that get no answer."""
        self.asked: list[str] = []

    async def answer(self, request: Request) -> Response | None:
        """The next step of whoever asks."""
        gateway = request.path.split("/")[1]
        if request.method == "GET":
            return Response(200, b'{"object": "list", "data": []}')
        self.asked.append(gateway)
        if gateway in self.silent:
            await asyncio.Event().wait()
        messages = json.loads(request.body)["messages"]
        last = str(messages[-1]["content"])
        if messages[-1]["role"] == "tool":
            return self._said({"content": f"It says: {last[-200:]}"}, "stop")
        path = re.findall(r"\[Attached file: ([^]]+)\]", str(messages))[-1]
        function = {"name": "read_file", "arguments": json.dumps({"path": path})}
        call = {"index": 0, "id": "c", "type": "function", "function": function}
        return self._said({"content": None, "tool_calls": [call]}, "tool_calls")

    def _said(self, delta: dict[str, Any], finish: str) -> Response:
        return Response(200, _stream(delta, finish), "text/event-stream")


@contextlib.contextmanager
def gateway(
    home: Path, address: str, telegram: str, model: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`hermes gateway run` with a home of its own."""
    home.mkdir()
    config = {
        "model": {"default": "m", "provider": "custom", "api_key": "k", "context_length": 100_000,
                  "base_url": f"{model}/{home.name}/v1"},
        "platforms": {"telegram": {
            "token": TOKEN, "base_url": f"{telegram}/{home.name}", "allow_all": True}},
        "auxiliary": {"title_generation": {"enabled": False}},
        "memory": {"enabled": False},
        "terminal": {"mode": "full"},
    }  # fmt: skip
    (home / "config.yaml").write_text(json.dumps(config))
    environment = {**os.environ, "HERMES_HOME": str(home), "HERMES_STORE": address}
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_cli.main", "gateway", "run"],
            env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


async def until(holds: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


async def test_another_gateway_reads_the_file_of_one_that_was_killed(tmp_path: Path) -> None:
    address = postgres.database_for(tmp_path / "state.db")
    history = History()
    try:
        async with TelegramWithFiles(history) as telegram, Reader() as model:
            model.silent = {"one"}
            places = (address, telegram.url, model.url)
            with gateway(tmp_path / "one", *places) as first:
                await until(lambda: history.polls)
                await telegram.send_file("plan", b"dig under the oak\n")
                await until(lambda: "one" in model.asked)
                first.kill()
                first.wait()
                assert list((tmp_path / "one" / "media").rglob("*.txt")) != []
                shutil.rmtree(tmp_path / "one" / "media")
                with gateway(tmp_path / "two", *places):
                    await until(lambda: any("dig under" in shown.text for shown in history.shown))
                    (kept,) = (tmp_path / "two" / "media").rglob("*.txt")
                    assert kept.read_bytes() == b"dig under the oak\n"
                    assert not (tmp_path / "two" / OUTPUT_FOLDER).exists()
        assert [shown.replica for shown in history.shown if "dig" in shown.text] == ["two"]
    finally:
        postgres.forget_database(tmp_path / "state.db")
