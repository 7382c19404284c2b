"""The API server as a platform: OpenAI-compatible HTTP, on loopback unless told otherwise.

Its requests take the same turns as chats, but their answers go back the way they came: there is
nothing to send later, and nobody to send it to.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ...session import SessionSource
from ..base import AdapterHost, Button, OnMessage, SendError
from ..http_adapter import HttpAdapter
from .manifest import MANIFEST, PORT

if TYPE_CHECKING:
    from .asker import ApiAsker
    from .context import Api
    from .runs import Runs

log = logging.getLogger(__name__)


class ApiServerAdapter(HttpAdapter):
    """Serves the API."""

    platform = Platform.API_SERVER
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self._api: Api | None = None
        self._runs: Runs | None = None

    async def connect(self) -> None:
        """Listen."""
        try:
            from ..http_server import HttpServer
            from .app import build_app
            from .context import Api
            from .runs import Runs
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"The API server needs Starlette and uvicorn. Run: {install_hint('api')}"
            ) from error
        from .auth import load_keys
        from .reading import MAX_BODY

        if self._api is None:
            settings = self.config.extra
            keys = load_keys(settings, self.host.home, self.address)
            self._api = Api(self.host.requests, keys, _number(settings, "max_body_bytes", MAX_BODY))
            self._runs = Runs(self._api)
        assert self._runs is not None
        app = build_app(self._api, self._runs)
        server = HttpServer(app, self.address, _number(self.config.extra, "port", PORT))
        await server.start()
        self._server = server
        log.info("The API is served on http://%s:%d", self.address, server.port)

    async def run(self) -> None:
        """Process waiting messages, then serve until cancelled."""
        assert self._api is not None
        await self._api.requests.resume()
        watching = self.host.spawn(self._api.requests.watch())
        try:
            await super().run()
        finally:
            watching.cancel()

    def asker(self, session_key: str, source: SessionSource) -> ApiAsker:
        """Whom the tools of a conversation ask."""
        from .asker import ApiAsker

        assert self._runs is not None, "connect first"
        return ApiAsker(self.host.requests.questions, session_key, self._runs)

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Nothing can be sent to a client that does not ask."""
        raise SendError("An API client gets answers only to what it asks.", permanent=True)


def _number(settings: Any, name: str, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        log.warning("platforms.api_server.%s: %r is no number; it is %d", name, value, default)
        return default
