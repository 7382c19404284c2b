"""WhatsApp by Meta's Cloud API: Meta posts what is written, and is asked to send.

A request is answered when every message in it is stored; until then, and for days, Meta posts it
again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermes_state import StoreError
from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, SendError
from ..http_adapter import HttpAdapter
from .formatting import shown_length
from .manifest import MANIFEST, PORT, VERSION
from .messages import Incoming, MalformedMessageError, digits, read_posted

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from .api import Api
    from .sending import Sender

log = logging.getLogger(__name__)

PATH = "/whatsapp"
MAX_BODY = 4 * 1024 * 1024
BODY_SECONDS = 30.0
_SECRETS = {
    "token": "WHATSAPP_CLOUD_ACCESS_TOKEN", "app_secret": "WHATSAPP_CLOUD_APP_SECRET",
    "verify_token": "WHATSAPP_CLOUD_VERIFY_TOKEN",
    "phone_number_id": "WHATSAPP_CLOUD_PHONE_NUMBER_ID",
}  # fmt: skip


class WhatsAppError(Exception):
    """The number cannot be used; the message says what to change."""


class WhatsAppAdapter(HttpAdapter):
    """One number of a business account."""

    platform = Platform.WHATSAPP_CLOUD
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        extra = config.extra
        self.number = str(extra.get("phone_number_id") or "")
        self.template = (
            str(extra.get("template") or ""),
            str(extra.get("template_language") or "en"),
        )
        self._read_receipts = _is_true(extra.get("read_receipts", True))
        self._api: Api | None = None
        self._sender: Sender | None = None
        self._order: dict[str, asyncio.Task[None]] = {}
        """The last message of each chat that is being stored: the next one waits for it."""
        self._taking: dict[str, asyncio.Task[None]] = {}
        """Messages that are being stored, by their ids: meanwhile Meta may post them again."""

    @property
    def account(self) -> str:
        """The id of the number."""
        return self.number

    @property
    def api(self) -> Api:
        """The client of the Graph API."""
        if self._api is None:
            raise SendError("WhatsApp is not connected")
        return self._api

    @property
    def sender(self) -> Sender:
        """Sends."""
        if self._sender is None:
            from .sending import Sender

            self._sender = Sender(self, float(self.config.extra.get("status_seconds", 5)))
        return self._sender

    # Connection

    async def connect(self) -> None:
        """Listen, and see whether the token is good; raises WhatsAppError with what to change."""
        extra = {"token": self.config.token, **self.config.extra}
        missing = [name for key, name in _SECRETS.items() if not extra.get(key)]
        if missing:
            raise WhatsAppError(f"WhatsApp is not set up whole: set {', '.join(missing)}")
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route

            from ..http_server import HttpServer
            from .api import Api
            from .errors import FAILURES, TOKEN, WRONG_TOKEN, ApiError
        except ModuleNotFoundError as error:
            raise WhatsAppError(
                f"WhatsApp needs Starlette and uvicorn. Run: {install_hint('api')}"
            ) from error
        await self.disconnect()
        self._api = api = Api(
            str(extra.get("base_url") or "https://graph.facebook.com"),
            str(extra.get("api_version") or VERSION), self.number, self.config.token,
        )  # fmt: skip
        try:
            known = await api.describe()
        except FAILURES as error:
            await self.disconnect()
            if isinstance(error, ApiError) and error.code in TOKEN:
                raise WhatsAppError(WRONG_TOKEN) from error
            if isinstance(error, ApiError) and error.code is not None:
                raise WhatsAppError(
                    f"Meta does not know the number ({error}): check"
                    " WHATSAPP_CLOUD_PHONE_NUMBER_ID, and whether the token may use it"
                ) from error
            reason = type(error).__name__
            raise ConnectionError(f"WhatsApp cannot be reached: {reason}") from error
        routes = [
            Route(PATH, self._verify, methods=["GET"]),
            Route(PATH, self._posted, methods=["POST"]),
        ]
        server = HttpServer(
            Starlette(routes=routes), self.address, int(extra.get("port", PORT)),
            what="WhatsApp's webhook", advice="Set platforms.whatsapp_cloud.port or host.",
        )  # fmt: skip
        try:
            await server.start()
        except OSError:
            await self.disconnect()
            raise
        self._server = server
        number = known.get("display_phone_number")
        log.info("%s: Meta is to post to http://%s:%d%s", number, self.address, server.port, PATH)

    async def disconnect(self) -> None:
        """End the connections; requests that are being answered get a moment."""
        await super().disconnect()
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    # In

    async def _verify(self, request: Request) -> Response:
        """Meta asks, once, whether the address is ours."""
        given = request.query_params
        wanted = str(self.config.extra.get("verify_token") or "")
        is_ours = hmac.compare_digest(_bytes(given.get("hub.verify_token", "")), _bytes(wanted))
        if given.get("hub.mode") != "subscribe" or not is_ours:
            log.warning("A request to verify WhatsApp's webhook had another verify token")
            return _answer(403, "another verify token")
        return _answer(200, given.get("hub.challenge", "")[:200])

    async def _posted(self, request: Request) -> Response:
        from ..http_server import trust

        body = await self._body(request)
        if body is None:
            return _answer(413, "too large, or too slow")
        if not self._is_signed(request.headers.get("x-hub-signature-256", ""), body):
            log.warning("A request to WhatsApp's webhook was not signed with the app secret")
            return _answer(401, "not signed with the app secret")
        trust(request.scope)
        try:
            posted = read_posted(json.loads(body), self.number, self._listed())
        except (MalformedMessageError, ValueError, RecursionError) as error:
            # Posting it again would change nothing.
            log.warning("What Meta posted cannot be read: %s", error)
            return _answer(200, "not read")
        for status in posted.statuses:
            if self.sender.statuses.tell(status):
                self.host.spawn(self.sender.take_back(status))
        try:
            await asyncio.gather(*(self._take_once(one) for one in posted.messages))
        except (StoreError, OSError) as error:
            log.warning("A message could not be stored; Meta will post it again: %s", error)
            return _answer(503, "not stored; post it again")
        return _answer(200, "taken")

    def _is_signed(self, given: str, body: bytes) -> bool:
        """Whether a request is Meta's: its bytes as they came, under the app's secret."""
        secret = _bytes(str(self.config.extra.get("app_secret") or ""))
        made = f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"
        return bool(secret) and hmac.compare_digest(_bytes(given), made.encode())

    async def _body(self, request: Request) -> bytes | None:
        from starlette.requests import ClientDisconnect

        chunks, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > MAX_BODY:
                        return None
                    chunks.append(chunk)
        except (TimeoutError, ClientDisconnect):
            return None
        return b"".join(chunks)

    def _listed(self) -> dict[str, str]:
        """The names under which numbers are in the lists, by their digits."""
        return {digits(name): name for name in (*self.config.allowed_users, *self.config.admins)}

    async def _take_once(self, incoming: Incoming) -> None:
        name = str(incoming.event.message_id)
        chat_id, taking = incoming.event.source.chat_id, self._taking.get(name)
        if taking is None:
            work = self._take_after(self._order.get(chat_id), incoming)
            taking = self._taking[name] = self._order[chat_id] = asyncio.ensure_future(work)
            taking.add_done_callback(partial(self._taken, name, chat_id))
        # Meta may hang up; what was begun is finished all the same.
        await asyncio.shield(taking)

    def _taken(self, name: str, chat_id: str, taken: asyncio.Task[None]) -> None:
        del self._taking[name]
        if self._order.get(chat_id) is taken:
            del self._order[chat_id]

    async def _take_after(self, before: asyncio.Task[None] | None, incoming: Incoming) -> None:
        """One message of a chat after the other, in the order in which they came."""
        if before is not None:
            await asyncio.wait([before])
        await self._take(incoming)

    async def _take(self, incoming: Incoming) -> None:
        from .media import fetch_all

        event, host = incoming.event, self.host
        if incoming.reaction:
            answer = self.sender.asked.answer_of(str(event.reply_to), incoming.reaction)
            if answer is None:
                return
            event.text = event.button = answer
        else:
            self.sender.note_message(event.source.chat_id, str(event.message_id))
        released = await host.release(event.source)
        if incoming.is_template_button and released:
            return  # it was pressed to have what was held
        may_talk = await host.is_allowed(event.source)
        if incoming.attachments and may_talk:
            with host.expecting(event.source):
                await fetch_all(self, incoming)
                await self.on_message(event)
        else:
            if incoming.attachments and not event.text:
                event.text = f"[{incoming.attachments[0].name}]"
            await self.on_message(event)
        if may_talk and self._read_receipts and not incoming.reaction:
            host.spawn(self.sender.tell_read(str(event.message_id)))

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
        """Show a text to somebody; returns WhatsApp's id for it. Raises SendError."""
        return await self.sender.send(chat_id, text, reply_to, buttons, key)

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made, for 25 seconds."""
        await self.sender.typing(chat_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        await self.sender.react(chat_id, message_id, emoji)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a file."""
        return await self.sender.send_media(chat_id, path, caption)

    def measure(self, markdown: str, /) -> int:
        """How long a text is once it is formatted."""
        return shown_length(markdown)


def _answer(code: int, text: str) -> Response:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(text, code, {"Connection": "close"} if code == 413 else None)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _is_true(value: object) -> bool:
    return str(value).strip().lower() not in ("false", "no", "off", "0", "none", "")
