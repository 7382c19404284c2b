"""A gateway in a process of its own, to be killed: `telegram_child.py HOME BOT_API_URL TOKEN`."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, say
from gateway import delivery, supervision
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.telegram import polling as telegram_polling
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB


def slow_echo(request: ModelRequest) -> Step:
    """Answers with the question, after a moment."""
    asked = [one["content"] for one in request.messages if one["role"] == "user"][-1]
    if "HERMES_TEST_HOLD" in os.environ:
        return say(f"This is the beginning of the answer to {asked}", asyncio.Event())
    return say("re: ", 0.05, str(asked))


async def main(home: Path, url: str, token: str) -> None:
    """Serve until killed."""
    for module in (delivery, supervision, telegram_polling):
        module.FIRST_PAUSE, module.LONGEST_PAUSE = 0.01, 0.05
    platform = PlatformConfig(enabled=True, token=token, allow_all=True, extra={"base_url": url})
    streaming = {"enabled": "HERMES_TEST_STREAMING" in os.environ, "edit_interval": 0.01}
    config = GatewayConfig(
        platforms={Platform.TELEGRAM: platform}, max_concurrent_sessions=3, streaming=streaming
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    runner._model = ScriptedModel(itertools.repeat(slow_echo))
    await runner.start()
    await runner.stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
