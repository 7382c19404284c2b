"""A gateway that is reached only through the scripted WhatsApp, and the place for its adapter."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent
from gateway.platforms.host import StandaloneHost
from gateway.platforms.whatsapp_cloud.adapter import PATH, WhatsAppAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from ..ports import free_port
from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .whatsapp_api import ANN, NUMBER, SECRET, TOKEN, VERIFY, Fault, WhatsAppApi


def section(api: WhatsAppApi, **more: Any) -> dict[str, Any]:
    """The adapter's section, as it points to the scripted API."""
    if not api.webhook:
        api.webhook = f"http://127.0.0.1:{free_port()}{PATH}"
    port = int(api.webhook.rpartition(":")[2].partition("/")[0])
    return {
        "phone_number_id": NUMBER, "app_secret": SECRET, "verify_token": VERIFY, "port": port,
        "base_url": api.url, "status_seconds": 2, **more,
    }  # fmt: skip


@asynccontextmanager
async def whatsapp_gateway(
    home: Path,
    api: WhatsAppApi,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    allowed_users: tuple[str, ...] = (),
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(
        enabled=True, token=TOKEN, allow_all=allow_all, allowed_users=allowed_users,
        extra=section(api, **(extra or {})),
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.WHATSAPP_CLOUD: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await api.until(lambda: api.connected == 1)
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class WhatsAppPlace(Place):
    """The scripted WhatsApp."""

    adapter: WhatsAppAdapter
    chat_id = user_id = ANN
    lacks: ClassVar = {"person_edits": "The Cloud API does not tell of changed messages."}

    def __init__(self, api: WhatsAppApi, home: Path) -> None:
        self.api = api
        config = PlatformConfig(enabled=True, token=TOKEN, allow_all=True, extra=section(api))
        self.adapter = WhatsAppAdapter(config, StandaloneHost(config, ignore, home))
        api.written_at[ANN] = 9e15  # whatever is sent in these checks is an answer

    async def person_says(self, text: str) -> Any:
        return await self._posted(self.api.message("text", text={"body": text}))

    async def _posted(self, message: dict[str, Any]) -> Any:
        """Post a message; the next one comes after it has been begun."""
        taken, take = asyncio.Event(), self.adapter.on_message

        async def watched(event: MessageEvent) -> None:
            taken.set()
            await take(event)

        self.adapter.on_message = watched
        task = await self.api.tell(message)
        self.api.written_at[ANN] = 9e15
        taking = asyncio.ensure_future(taken.wait())
        await asyncio.wait([task, taking], return_when=asyncio.FIRST_COMPLETED)
        taking.cancel()
        self.adapter.on_message = take
        return task, message

    async def person_leaves(self, text: str, number: int = 0) -> str:
        if number:
            return await self.another_says(number, text)
        # Whoever takes it may be killed before it answers.
        await self.api.tell(self.api.message("text", text={"body": text}))
        self.api.written_at[ANN] = 9e15
        return self.chat_id

    async def person_sends(self, name: str, data: bytes) -> None:
        await self.api.send_file("document", data, "text/plain", filename=name)

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        user = f"1650556{number:04}"
        message = self.api.message("text", user=user, text={"body": text})
        await self.api.tell(message, name=name)
        return user

    def texts_in(self, chat_id: str) -> list[str]:
        return self.api.texts(chat_id)

    async def chat_is_deleted(self) -> None:
        self.api.gone.add(self.chat_id)

    async def we_are_removed(self) -> None:
        self.api.gone.add(self.chat_id)  # blocked; Meta gives no other reason

    async def go_away(self) -> None:
        await self.api.go_away()

    async def come_back(self) -> None:
        await self.api.open()

    async def is_there(self, home: Path) -> None:
        await self.api.until(lambda: self.api.connected == 1)

    async def delivered_again(self, said: Any) -> None:
        await self._posted(said[1])

    def acknowledged(self, said: Any) -> bool:
        return bool(said[0].done())

    async def person_presses(self, label: str) -> None:
        await self.api.choose(self.api.sent[-1], label)

    def texts(self) -> list[str]:
        return self.api.texts()

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        self.api.faults.append(Fault("131026" if permanent else "131056"))
