"""Gateways over one PostgreSQL, as real processes on machines of their own, and who uses them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

from .. import postgres
from ..conformance.replicas.checker import _two_pollers
from ..conformance.replicas.fleet import Fleet, Replica
from ..conformance.replicas.history import History
from ..conformance.replicas.platform import Telegram
from ..conformance.replicas.world import EffectServer, ModelServer, read
from ..conformance.script import answer
from .loopback import Request, Response

SECONDS = 60.0


class SlowModel(ModelServer):
    """A model that may be made to think for ever."""

    def __init__(self, history: History, chance: random.Random, thinking: float) -> None:
        super().__init__(history, chance, thinking)
        self.held: set[str] = set()

    async def answer(self, request: Request) -> Response | None:
        """The next step, unless whoever asks is to wait."""
        if request.path.split("/")[1] in self.held and request.method == "POST":
            replica = request.path.split("/")[1]
            self._history.thoughts.append(read(replica, json.loads(request.body)["messages"]))
            await asyncio.Event().wait()
        return await super().answer(request)


class World:
    """Gateways, their platform, and everything that was seen of them."""

    def __init__(
        self, history: History, telegram: Telegram, model: SlowModel, fleet: Fleet, address: str
    ) -> None:
        self.history = history
        self.model = model
        self.telegram = telegram
        self.fleet = fleet
        self.address = address
        self.urls: dict[str, str] = {}

    async def start(
        self, name: str, environment: dict[str, str] | None = None, **settings: Any
    ) -> Replica:
        """A gateway with variables and settings of its own; returns when it is known to the
        others."""
        replica = await self.fleet.add(name, self.address, self.telegram.url, self.urls["model"])
        config = replica.home / "config.yaml"
        given = json.loads(config.read_text())
        given["platforms"] |= settings.pop("platforms", {})
        config.write_text(json.dumps({**given, **settings}))
        self.fleet.start(replica, self.urls["effects"], **(environment or {}))
        await self.until(lambda: len(self.replicas()) == len(self.fleet.replicas))
        return replica

    def hold_model(self, name: str) -> None:
        """Let the model never answer a gateway."""
        self.model.held.add(name)

    def replicas(self) -> list[dict[str, Any]]:
        """As `hermes gateway status` has them."""
        with SessionDB(server=self.address, connections=2) as db:
            return db.list_replicas()

    def holds(self, name: str) -> list[str]:
        """The platforms that a gateway holds."""
        return [
            lease
            for one in self.replicas()
            if one["owner"].startswith(f"machine-{name}|") and one["is_alive"]
            for lease in one["holds"]
            if lease != "upkeep"
        ]

    def shown(self, chat: str) -> list[tuple[str, str]]:
        """What a chat was shown, and by whom."""
        return [(one.replica, one.text) for one in self.history.shown if one.chat == chat]

    async def answered(self, chat: str, name: str) -> str:
        """Wait for the answer to a message; who has given it."""
        wanted = answer(name)
        await self.until(lambda: wanted in [text for _, text in self.shown(chat)])
        (replica,) = [by for by, text in self.shown(chat) if text == wanted]
        return replica

    async def polled_by(self, name: str) -> None:
        """Wait until a gateway asks the platform for messages."""
        await self.until(
            lambda: any(
                poll.replica == name and poll.ended == float("inf")
                for poll in self.history.polls[-1:]
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something."""
        async with asyncio.timeout(SECONDS):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def world(folder: Path, lease: float, thinking: float = 0.0) -> AsyncIterator[World]:
    history, chance = History(), random.Random(1)
    address = postgres.database_for(folder / "state.db")
    async with (
        Telegram(history) as telegram,
        SlowModel(history, chance, thinking) as model,
        EffectServer(history, chance, 0.0) as effects,
    ):
        fleet = Fleet(folder, chance, lease)
        found = World(history, telegram, model, fleet, address)
        found.urls = {"model": model.url, "effects": effects.url}
        try:
            yield found
            assert fleet.ended == []
            assert list(_two_pollers(history)) == []
        finally:
            fleet.close()
            postgres.forget_database(folder / "state.db")
