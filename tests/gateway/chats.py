"""A gateway in memory: a real store, a scripted model, and chats that tests write into."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, say
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.local.adapter import LocalAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

CONFIG = """\
auxiliary: {title_generation: {enabled: false}}
memory: {review_every: 0}
"""


def asked(request: ModelRequest) -> str:
    """The last thing a person said in a request."""
    found = [one["content"] for one in request.messages if one["role"] == "user"]
    return str(found[-1])


def echo(request: ModelRequest) -> Step:
    """Answers with the question."""
    return say(f"re: {asked(request)}")


class Chats:
    """A running gateway and its chats."""

    def __init__(self, runner: GatewayRunner, model: ScriptedModel) -> None:
        self.runner = runner
        self.model = model

    @property
    def db(self) -> SessionDB:
        """The store."""
        return self.runner._session_db._db  # type: ignore[no-any-return]

    @property
    def local(self) -> LocalAdapter:
        """The platform in memory."""
        adapter = self.runner.adapters[Platform.LOCAL]
        assert isinstance(adapter, LocalAdapter)
        return adapter

    def key(self, chat_id: str = "1") -> str:
        """The key of a direct chat."""
        return f"agent:main:local:dm:{chat_id}"

    def session_id(self, chat_id: str = "1") -> str:
        """The session a direct chat is in."""
        found = self.runner.session_store.peek_session_id(self.key(chat_id))
        assert found is not None
        return found

    async def say(self, text: str, *, chat_id: str = "1", **more: Any) -> None:
        """Write into a chat."""
        await self.local.receive(text, chat_id=chat_id, **more)

    async def ask(self, text: str, *, chat_id: str = "1", **more: Any) -> str:
        """Write into a chat and wait for the next message in it."""
        before = len(self.local.texts(chat_id))
        await self.say(text, chat_id=chat_id, **more)
        return (await self.local.wait_for(before + 1, chat_id))[before]


@asynccontextmanager
async def gateway(
    home: Path,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    context_length: int = 128_000,
    yaml: str = "",
    allow_all: bool = True,
    account: str = "",
    store: Path | None = None,
    others: Mapping[Platform, PlatformConfig] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart.

    One of several at once needs an `account` of its own: of one, one gateway has the chats. `store`
    is that of another home: several machines over one server. `others` are further platforms.
    """
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG + yaml)
    config = GatewayConfig(
        platforms={
            Platform.LOCAL: PlatformConfig(
                enabled=True, allow_all=allow_all, extra={"account": account}
            ),
            **(others or {}),
        },
        **{"drain_timeout": 5.0, **settings},
    )
    db = AsyncSessionDB(SessionDB((store or home) / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(
        steps if steps is not None else itertools.repeat(echo), context_length=context_length
    )
    runner._model = model
    await runner.start()
    try:
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()
