"""A gateway that is reached only through the scripted Bot API."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.telegram.adapter import TelegramAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .bot_api import TOKEN, BotApi
from .chats import CONFIG, Chats, echo


class TelegramChats(Chats):
    """A running gateway whose chats are Telegram's."""

    @property
    def adapter(self) -> TelegramAdapter:
        """The bot."""
        found = self.runner.adapters[Platform.TELEGRAM]
        assert isinstance(found, TelegramAdapter)
        return found


@asynccontextmanager
async def telegram_gateway(
    home: Path,
    api: BotApi,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allow_all: bool = True,
    extra: dict[str, Any] | None = None,
    yaml: str = "",
    **settings: Any,
) -> AsyncIterator[TelegramChats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG + yaml)
    platform = PlatformConfig(
        enabled=True, token=TOKEN, allow_all=allow_all, extra={"base_url": api.url, **(extra or {})}
    )
    config = GatewayConfig(
        platforms={Platform.TELEGRAM: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        yield TelegramChats(runner, model)
    finally:
        await runner.stop()
        await db.close()
