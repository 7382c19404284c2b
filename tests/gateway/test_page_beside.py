"""The web page beside a gateway: begun again when it dies, and gone when the gateway is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_base.process import is_gone
from tests.ports import free_port

pytest.importorskip("uvicorn")

SECONDS = 60.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.02)


class Served:
    """What `web.json` of a home says."""

    def __init__(self, home: Path) -> None:
        self._file = home / "web.json"

    def read(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._file.read_text()))
        except (OSError, ValueError):
            return {}

    async def next(self, before: str = "") -> str:
        """The process that serves it, once it is another than that."""
        await until(lambda: self.read().get("process", before) != before)
        return self.read()["process"]

    def answers(self) -> bool:
        with urllib.request.urlopen(self.read()["url"], timeout=SECONDS) as answer:
            return b"<title>Hermes</title>" in answer.read()


async def test_it_is_there_as_long_as_the_gateway(tmp_path: Path) -> None:
    web = {"enabled": True, "port": free_port()}
    model = {"default": "m", "provider": "custom", "base_url": "http://127.0.0.1:1", "api_key": "k"}
    (tmp_path / "config.yaml").write_text(json.dumps({"platforms": {"web": web}, "model": model}))
    served = Served(tmp_path)
    command = (sys.executable, "-m", "hermes_cli.main", "gateway", "run")
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    gateway = await asyncio.create_subprocess_exec(*command, env=environ)
    try:
        first = await served.next()
        assert await asyncio.to_thread(served.answers)
        os.kill(int(first.split("|")[3]), signal.SIGKILL)
        second = await served.next(first)
        assert await asyncio.to_thread(served.answers)
        gateway.kill()
        await gateway.wait()
        await until(lambda: is_gone(second))
        gateway = await asyncio.create_subprocess_exec(*command, env=environ)
        third = await served.next(second)
        gateway.send_signal(signal.SIGTERM)
        assert await gateway.wait() == 0
        assert is_gone(third)
    finally:
        if gateway.returncode is None:
            gateway.kill()
