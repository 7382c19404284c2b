"""The API server on a real port: a real store, a scripted model, real clients."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.api.adapter import ApiServerAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .chats import CONFIG, echo

KEY = "key-of-alice-0123456789"
OTHER_KEY = "key-of-bob-01234567890"


class Served:
    """A running API server and clients for it."""

    def __init__(self, runner: GatewayRunner, model: ScriptedModel) -> None:
        self.runner = runner
        self.model = model
        self.adapter = runner.adapters[Platform.API_SERVER]
        assert isinstance(self.adapter, ApiServerAdapter)
        self.url = f"http://127.0.0.1:{self.adapter.port}"
        self.http = self.client(KEY)
        self.other = self.client(OTHER_KEY)

    def client(self, key: str) -> httpx.AsyncClient:
        """A plain client with a key; it reads no certificates, which takes long."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=False,
            limits=httpx.Limits(max_connections=None),
        )  # fmt: skip

    @property
    def openai(self) -> openai.AsyncOpenAI:
        """OpenAI's own client."""
        plain = openai.DefaultAsyncHttpxClient(verify=False)
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=KEY, http_client=plain)

    @property
    def db(self) -> SessionDB:
        """The store."""
        return self.runner._session_db._db  # type: ignore[no-any-return]

    def told(self, session_id: str) -> list[tuple[str, Any]]:
        """A session's messages in short."""
        return [(one["role"], one["content"]) for one in self.db.get_messages(session_id)]

    async def chat(
        self, text: str, session_id: str | None = None, **headers: str
    ) -> httpx.Response:
        """One turn over chat completions."""
        if session_id is not None:
            headers["X-Hermes-Session-Id"] = session_id
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)


@asynccontextmanager
async def serving(
    home: Path,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    context_length: int = 128_000,
    yaml: str = "",
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    """An API server that is stopped at the end; called again with the same home, a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG + yaml)
    told = {"port": 0, "keys": {"alice": KEY, "bob": OTHER_KEY}, **(extra or {})}
    config = GatewayConfig(
        platforms={Platform.API_SERVER: PlatformConfig(enabled=True, extra=told)},
        **{"drain_timeout": 5.0, **settings},
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(
        steps if steps is not None else itertools.repeat(echo), context_length=context_length
    )
    runner._model = model
    await runner.start()
    assert Platform.API_SERVER in runner.adapters, runner.supervisor.states
    served = Served(runner, model)
    try:
        yield served
    finally:
        await served.http.aclose()
        await served.other.aclose()
        await runner.stop()
        await db.close()
