"""A gateway in a process of its own that stops at a point, to be killed there.

`child.py HOME PLATFORM SECTION POINT:MARK`: SECTION is the platform's section as JSON; of the
messages it stops with the one that contains MARK. It says where it is in lines of JSON. The points
are "came" (the adapter has a message), "stored" (before the platform hears that), "model" (it is
asked), "owed" (the answer is stored), "sending" and "sent" (right before and after it is shown).
Pauses between attempts are a hundred times shorter.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.model import ModelRequest
from agent.plugin_loading import load_plugins
from agent.scripted import ScriptedModel, Step, say
from gateway import delivery, supervision
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.conformance.serving import ECHO, last_question
from gateway.delivery import Delivery
from gateway.pipeline import Pipeline
from gateway.platforms.base import MessageEvent
from gateway.platforms.manifest import resolve
from gateway.platforms.registry import find_manifest
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

QUICK = 0.05


class Points:
    """Where it stops, and with which message."""

    def __init__(self, wanted: str) -> None:
        self._point, _, self._mark = wanted.partition(":")

    async def pass_by(self, point: str, text: str) -> None:
        """Go no further if this is the point."""
        if point == self._point and self._mark in text:
            tell(point)
            await asyncio.Event().wait()

    def watch(self) -> None:
        """Have the way of every message lead past here."""
        accept, deliver, send = Pipeline.accept, Delivery._deliver, Delivery._send

        async def watched_accept(pipeline: Pipeline, event: MessageEvent) -> None:
            await self.pass_by("came", event.text)
            await accept(pipeline, event)
            await self.pass_by("stored", event.text)

        async def watched_deliver(sender: Delivery, row: dict[str, Any]) -> bool:
            await self.pass_by("owed", row["content"])
            return await deliver(sender, row)

        async def watched_send(sender: Delivery, adapter: Any, row: dict[str, Any]) -> None:
            await self.pass_by("sending", row["content"])
            await send(sender, adapter, row)
            await self.pass_by("sent", row["content"])

        Pipeline.accept = watched_accept  # type: ignore[method-assign, assignment]
        Delivery._deliver = watched_deliver  # type: ignore[method-assign, assignment]
        Delivery._send = watched_send  # type: ignore[method-assign, assignment]

    def step(self, request: ModelRequest) -> Step:
        """Answer with the question."""
        asked = last_question(request)
        return say(lambda: self.pass_by("model", asked), f"{ECHO}{asked}")


def tell(point: str) -> None:
    """Say where it is."""
    print(json.dumps({"at": point}), flush=True)


def shorten_pauses(platform: str) -> None:
    """In the gateway, and in our adapters."""
    manifest = find_manifest(platform)
    resolve(manifest.adapter if manifest else None)  # so that its modules are loaded
    names = (delivery.__name__, supervision.__name__)
    for name, module in list(sys.modules.items()):
        if name in names or name.startswith("gateway.platforms."):
            for pause in ("FIRST_PAUSE", "LONGEST_PAUSE"):
                if isinstance(getattr(module, pause, None), float):
                    setattr(module, pause, QUICK / 5 if pause == "FIRST_PAUSE" else QUICK)


async def main(home: Path, name: str, section: str, wanted: str) -> None:
    """Serve until killed."""
    settings = load_config(home, {})
    load_plugins(settings.raw, home, {})
    given = json.loads(section)
    known = {key: given.pop(key, "") for key in ("enabled", "token", "allowed_users", "allow_all")}
    platform = PlatformConfig(
        enabled=True, token=known["token"], allowed_users=tuple(known["allowed_users"]),
        allow_all=True, extra=given,
    )  # fmt: skip
    points = Points(wanted)
    points.watch()
    config = GatewayConfig(platforms={Platform.of(name): platform}, busy_input_mode="queue")
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, settings, db, home)
    runner._model = ScriptedModel(itertools.repeat(points.step), record=False)
    shorten_pauses(name)
    await runner.start()
    tell("start")
    await runner.stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
