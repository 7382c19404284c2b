"""A gateway in a process of its own, to be killed: `platform_child.py HOME PLATFORM SECTION`.

SECTION is the platform's section as JSON. Its pauses are a hundred times shorter.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
from importlib.util import find_spec
from pathlib import Path

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, say
from gateway import delivery, supervision
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms import lanes
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB


def slow_echo(request: ModelRequest) -> Step:
    """Answers with the question, after a moment."""
    asked = [one["content"] for one in request.messages if one["role"] == "user"][-1]
    return say("re: ", 0.05, str(asked))


async def main(home: Path, name: str, section: str) -> None:
    """Serve until killed."""
    place = f"gateway.platforms.{name}.reader"
    readers = [importlib.import_module(place)] if find_spec(place) else []
    for module in (delivery, supervision, lanes, *readers):
        module.FIRST_PAUSE, module.LONGEST_PAUSE = 0.01, 0.05
    given = json.loads(section)
    platform = PlatformConfig(
        enabled=True, token=given.pop("token", ""), allow_all=True, extra=given
    )
    config = GatewayConfig(
        platforms={Platform(name): platform},
        max_concurrent_sessions=3,
        busy_input_mode="queue",
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    runner._model = ScriptedModel(itertools.repeat(slow_echo))
    await runner.start()
    await runner.stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
