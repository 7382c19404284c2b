"""Signed webhooks in: other programs ask the agent something, each delivery once.

`POST /hooks/<name>` with a valid signature becomes a conversation of its own. Its answer stays in
the history, or goes to a chat of another platform. It is answered 202 when it is stored. Nobody is
there to approve, so tools that would have to ask are denied.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes_base.redaction import register_secret
from hermes_state import StoreError
from tools.base import NobodyToAsk
from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ...session import SessionSource
from ..base import AdapterHost, Button, MessageEvent, OnMessage, SendError
from ..http_adapter import HttpAdapter
from .manifest import MANIFEST, PORT
from .routes import Route, RouteError, read_routes, render
from .signing import SignatureError, delivery_id

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024
BODY_SECONDS = 30.0


class WebhookAdapter(HttpAdapter):
    """Takes webhooks in, and hands their answers on."""

    platform = Platform.WEBHOOK
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self._routes: dict[str, Route] = {}
        self._max_body = MAX_BODY

    async def connect(self) -> None:
        """Listen; raises RouteError if the configuration cannot be used."""
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route as Path

            from ..http_server import HttpServer
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"Webhooks need Starlette and uvicorn. Run: {install_hint('api')}"
            ) from error
        self._configure()
        app = Starlette(
            routes=[
                Path("/health", self._health, methods=["GET"]),
                Path("/hooks/{name}", self._hook, methods=["POST"]),
            ]
        )
        port = self._number("port", PORT)
        server = HttpServer(app, self.address, port)
        try:
            await server.start()
        except OSError as error:
            raise OSError(
                f"Webhooks cannot be taken on {self.address}:{port}: {error.__cause__ or error}."
                " Set platforms.webhook.port or host."
            ) from error
        self._server = server
        log.info("Webhooks are taken on http://%s:%d/hooks/", self.address, server.port)

    def _configure(self) -> None:
        self._routes = read_routes(self.config.extra.get("routes"))
        self._max_body = self._number("max_body_bytes", MAX_BODY)
        for route in self._routes.values():
            register_secret(route.secret)
            target = route.deliver
            if target is not None and not self.host.serves(target.platform):
                raise RouteError(
                    f"platforms.webhook.routes.{route.name} delivers to {target.platform.value},"
                    f" which is not enabled. Enable platforms.{target.platform.value}."
                )

    def _number(self, name: str, default: int) -> int:
        value = self.config.extra.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not str(value).isdigit():
            raise RouteError(f"platforms.webhook.{name}: {value!r} is not a number.")
        return int(value)

    def asker(self, session_key: str, source: SessionSource) -> NobodyToAsk:
        """Whom tools ask: nobody."""
        return NobodyToAsk()

    # In

    async def _health(self, request: Request) -> Response:
        return _answer(200, status="ok")

    async def _hook(self, request: Request) -> Response:
        from ..http_server import trust

        route = self._routes.get(request.path_params["name"])
        if route is None:
            return _answer(404, error="There is no such hook.")
        body = await self._body(request)
        if body is None:
            return _answer(
                413, error=f"The body is larger than {self._max_body} bytes, or too slow."
            )
        try:
            delivery = delivery_id(request.headers, body, route.secret)
        except SignatureError as error:
            log.warning("A webhook for %s was refused: %s", route.name, error)
            return _answer(401, error=str(error))
        trust(request.scope)
        event = request.headers.get("x-github-event", "")
        if route.events and event not in route.events:
            return _answer(202, status="ignored", delivery=delivery)
        source = SessionSource(
            self.platform,
            route.name,
            chat_name=route.name,
            user_id=route.name,
            user_name=f"webhook {route.name}",
            thread_id=delivery,
            role_authorized=True,  # by its signature
        )
        try:
            await self.on_message(MessageEvent(render(route, body, event), source, delivery))
        except StoreError as error:
            log.exception("A webhook for %s could not be stored", route.name)
            return _answer(503, error=f"It could not be stored; send it again. ({error})")
        return _answer(202, status="accepted", delivery=delivery)

    async def _body(self, request: Request) -> bytes | None:
        """The body; None if it is too large or does not come."""
        from starlette.requests import ClientDisconnect

        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > self._max_body:
                        return None
                    chunks.append(chunk)
        except (TimeoutError, ClientDisconnect):
            return None
        return b"".join(chunks)

    # Out

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
        """Enqueue an answer for the chat that its route names, if it names one."""
        route = self._routes.get(chat_id)
        if route is None:
            raise SendError(f"There is no webhook {chat_id} any more.", permanent=True)
        if route.deliver is None:
            return None
        # Under one name: what is handed on again is delivered once.
        delivery = f"webhook:{key or os.urandom(8).hex()}"
        await self.host.deliver(route.deliver, text, delivery)
        return delivery


def _answer(code: int, **facts: Any) -> Response:
    from starlette.responses import Response

    headers = {"Connection": "close"} if code == 413 else None
    return Response(json.dumps(facts), code, headers, media_type="application/json")
