"""A gateway at a place: a real store, a model that answers with the question, its own adapter."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, say
from hermes_state import AsyncSessionDB, SessionDB

from ..config import GatewayConfig, Platform, PlatformConfig
from ..platforms.base import PlatformAdapter
from ..run import GatewayRunner
from .place import Place

ECHO = "re: "


def last_question(request: ModelRequest) -> str:
    """What a person said last."""
    said = [message["content"] for message in request.messages if message["role"] == "user"]
    content = said[-1]
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content)


def echo(request: ModelRequest) -> Step:
    """Answer with the question."""
    return say(f"{ECHO}{last_question(request)}")


class PlaceGateway(GatewayRunner):
    """A gateway with one platform, whose adapter is of the kind that a place has."""

    place: Place

    def _make_adapter(self, platform: Platform, config: PlatformConfig) -> PlatformAdapter:
        manifest = self.place.adapter.manifest
        if manifest is None:
            return super()._make_adapter(platform, config)
        adapter = manifest.make_adapter(config, self.host_for(platform))
        adapter.platform = platform
        return adapter


@asynccontextmanager
async def serving(
    place: Place,
    home: Path,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    allowed_users: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncIterator[GatewayRunner]:
    """A gateway that serves the place, stopped at the end; the same home again is a restart."""
    await place.prepare(home)
    section = replace(
        place.adapter.config, enabled=True, allow_all=allow_all, allowed_users=allowed_users
    )
    platform = place.adapter.platform
    wanted = {"drain_timeout": 5.0, "busy_input_mode": "queue", **settings}
    config = GatewayConfig(platforms={platform: section}, **wanted)
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = PlaceGateway(config, load_config(home, {}), db, home)
    runner.place = place
    runner._model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    await runner.start()
    try:
        await place.adopt(runner.adapters[platform])
        yield runner
    finally:
        await runner.stop()
        await db.close()
