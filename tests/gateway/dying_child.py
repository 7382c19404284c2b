"""A gateway in a process of its own, that stops at a point to be killed there.

`dying_child.py HOME [POINT,POINT…]`: what its chats show is appended to HOME/shown, what its tools
do to HOME/effects. It takes messages as lines of JSON, and says where it is in the same way. At a
POINT it goes no further, but takes messages on: "model:N" when the model is asked for the Nth time,
"tool:NAME" before and "tool-done:NAME" after a tool's effect, "owed" when an answer is stored and
not sent, "taken" when a turn was taken over and nothing more, "telling" before and "told" after a
notice is shown.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import agent.build
import hermes_state.turns
from agent.config import load_config
from agent.heartbeat import heart
from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, Step, calls, say
from gateway import recovery
from gateway.abandoned_in_chats import AbandonedTurns
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.delivery import Delivery
from gateway.platforms.local.adapter import LocalAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry

HOME = Path(sys.argv[1])
POINT = sys.argv[2] if len(sys.argv) > 2 else ""
STEPS = ((("leave_mark", "a"), ("echo", "x")), (("leave_mark", "b"),))
"""What the model asks for in a message that begins with "work", before it answers."""


def tell(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


def append(name: str, line: str) -> None:
    with (HOME / name).open("a") as file:
        file.write(line + "\n")


def reached(point: str) -> bool:
    if point not in POINT.split(","):
        return False
    tell(at=point)
    return True


async def pass_by(point: str) -> None:
    if reached(point):
        await asyncio.Event().wait()


def tools() -> Registry:
    def run(name: str, mark: str) -> str:
        if reached(f"tool:{mark}"):
            threading.Event().wait()
        append("effects" if name == "leave_mark" else "reads", mark)
        if reached(f"tool-done:{mark}"):
            threading.Event().wait()
        return f"{name} {mark}"

    def leave_mark(context: ToolContext, mark: str) -> str:
        return run("leave_mark", mark)

    def echo(context: ToolContext, mark: str) -> str:
        return run("echo", mark)

    return Registry(
        [
            tool(toolset="test", effect="effectful")(leave_mark),
            tool(toolset="test", effect="none")(echo),
        ]
    )


COUNT = itertools.count(1)


def step(request: ModelRequest) -> Step:
    """What comes next follows from the messages, whoever has asked before."""
    messages = request.messages
    place = max(n for n, one in enumerate(messages) if one["role"] == "user")
    asked = str(messages[place]["content"])
    done = sum(one["role"] == "assistant" for one in messages[place:])
    gate = f"model:{next(COUNT)}"
    if asked.startswith("work") and done < len(STEPS):
        wanted = calls(Call(name, {"mark": mark}) for name, mark in STEPS[done])
        return Step((lambda: pass_by(gate), *wanted.moves))
    return say(lambda: pass_by(gate), f"re: {asked}")


class Written(LocalAdapter):
    """Chats whose messages outlive the process."""

    async def send(self, chat_id: str, text: str, **more: Any) -> str | None:
        """Show a text."""
        is_notice = text.startswith("⚠️")
        if is_notice:
            await pass_by("telling")
        append("shown", json.dumps([os.getpid(), chat_id, text]))
        if is_notice:
            await pass_by("told")
        return await super().send(chat_id, text, **more)


async def main() -> None:
    """Serve until killed."""
    recovery.LOOK_SECONDS = 0.2
    lease = float(os.environ.get("HERMES_TEST_LEASE", "20"))
    hermes_state.turns.LEASE_SECONDS, heart._seconds = lease, lease / 4
    agent.build.usable_tools = lambda *_: tools()
    deliver, tell_unknown = Delivery._deliver, AbandonedTurns.tell_unknown

    async def watched_deliver(self: Delivery, row: dict[str, Any]) -> bool:
        if row["content"].startswith("re: "):
            await pass_by("owed")
        return await deliver(self, row)

    async def watched_tell(self: AbandonedTurns, inbound: Any) -> None:
        await pass_by("taken")
        await tell_unknown(self, inbound)

    Delivery._deliver = watched_deliver  # type: ignore[method-assign]
    AbandonedTurns.tell_unknown = watched_tell  # type: ignore[method-assign]
    # Of its own: the test's gateway has its chats too.
    own = {"account": str(os.getpid())}
    platforms = {Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True, extra=own)}
    config = GatewayConfig(
        platforms=platforms, busy_input_mode=os.environ.get("HERMES_TEST_BUSY", "interrupt")
    )
    db = AsyncSessionDB(SessionDB(HOME / "state.db"))
    runner = GatewayRunner(config, load_config(HOME, {}), db, HOME)
    runner._model = ScriptedModel(itertools.repeat(step), record=False)
    await runner.start()
    adapter = runner.adapters[Platform.LOCAL]
    assert isinstance(adapter, LocalAdapter)
    tell(at="start")
    while line := await asyncio.to_thread(sys.stdin.readline):
        await adapter.receive(**json.loads(line))
        tell(at="accepted")


if __name__ == "__main__":
    import gateway.platforms.local.adapter

    gateway.platforms.local.adapter.LocalAdapter = Written  # type: ignore[misc]
    asyncio.run(main())
