"""Slack: events, buttons and commands in by socket mode; its Web API out, by slack_sdk."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes_base.certificates import certificates
from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from .formatting import shown_length
from .manifest import MANIFEST
from .place import Places

if TYPE_CHECKING:
    from slack_sdk.socket_mode.aiohttp import SocketModeClient
    from slack_sdk.web.async_client import AsyncWebClient

    from .messages import Listening
    from .reader import Reader
    from .sending import Sender

log = logging.getLogger(__name__)

API = "https://slack.com/api/"
REQUEST_SECONDS = 30
NAME_SECONDS = 1.0
"""How long the name of somebody may take: meanwhile Slack waits."""
PING_SECONDS = 5.0
AWAY_SECONDS = 90.0
"""For how long the library may try to come back by itself; then everything is made anew."""
LOOK_SECONDS = 1.0
MOST_NAMES = 1000
_FALSE = ("false", "no", "off", "0")


class SlackError(Exception):
    """The app cannot be used; the message says what to change."""


class SlackAdapter(PlatformAdapter):
    """An app in one workspace. Of its section are read: app_token, require_mention,
    free_response_channels and base_url."""

    platform = Platform.SLACK
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self.base_url = f"{str(config.extra.get('base_url') or API).rstrip('/')}/"
        self.me = ""
        self.team = ""
        self._app_token = str(config.extra.get("app_token") or "")
        self._client: AsyncWebClient | None = None
        self._socket: SocketModeClient | None = None
        self._http: Any = None
        self._parts: tuple[Reader, Sender] | None = None
        self._connected_at = -math.inf
        """When the socket was last seen to be open, since the adapter was connected."""
        self._names: OrderedDict[str, str | None] = OrderedDict()

    @property
    def account(self) -> str:
        """Which app it is, without its token."""
        return hashlib.sha256(self.config.token.encode()).hexdigest()[:12]

    @property
    def client(self) -> AsyncWebClient:
        """The client of the Web API."""
        if self._client is None:
            raise SendError("Slack is not connected")
        return self._client

    @property
    def places(self) -> Places:
        """Where reading goes on after a restart."""
        return Places(self.host.home, self.host.shelf)

    @property
    def reader(self) -> Reader:
        """Hands in what comes."""
        return self._made()[0]

    @property
    def sender(self) -> Sender:
        """Sends."""
        return self._made()[1]

    def _made(self) -> tuple[Reader, Sender]:
        if self._parts is None:
            from .reader import Reader
            from .sending import Sender

            self._parts = Reader(self), Sender(self)
        return self._parts

    @property
    def listening(self) -> Listening:
        """What of the channels' messages is for us."""
        from .messages import Listening

        extra = self.config.extra
        free = extra.get("free_response_channels") or ()
        listed = free.split(",") if isinstance(free, str) else free
        return Listening(
            self.me,
            self.team,
            str(extra.get("require_mention", True)).lower() not in _FALSE,
            frozenset(str(name).strip() for name in listed),
        )

    # Connection

    async def connect(self) -> None:
        """Find out who we are, and where the connection is made; raises SlackError if the app
        cannot be used."""
        if not self.config.token or not self._app_token:
            raise SlackError(
                "Slack needs two tokens: set SLACK_BOT_TOKEN (xoxb-…) and SLACK_APP_TOKEN (xapp-…)"
            )
        try:
            import aiohttp
            from slack_sdk.socket_mode.aiohttp import SocketModeClient
            from slack_sdk.web.async_client import AsyncWebClient
        except ImportError as error:
            raise SlackError(f"Slack needs slack-sdk. Run: {install_hint('slack')}") from error

        await self.disconnect()
        trust = certificates()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )
        # Nothing is tried again in there: the delivery does that, and looks before.
        self._client = client = AsyncWebClient(
            token=self.config.token, base_url=self.base_url, timeout=REQUEST_SECONDS, ssl=trust,
            session=self._http, retry_handlers=[],
        )  # fmt: skip
        try:
            await self._introduce(client)
            self._socket = socket = SocketModeClient(
                self._app_token, web_client=client, ping_interval=PING_SECONDS
            )
            socket.message_listeners.append(self._said)
            socket.socket_mode_request_listeners.append(self._requested)
            socket.wss_uri = await self._open(client)
        except BaseException:
            await self.disconnect()
            raise
        self.sender.begin()

    async def _introduce(self, client: AsyncWebClient) -> None:
        who = await self._ask(client.auth_test(), "SLACK_BOT_TOKEN")
        self.me, self.team = str(who["user_id"]), str(who["team_id"])

    async def _open(self, client: AsyncWebClient) -> str:
        opened = client.apps_connections_open(app_token=self._app_token)
        return str((await self._ask(opened, "SLACK_APP_TOKEN"))["url"])

    async def _ask(self, request: Any, variable: str) -> Any:
        from .errors import FAILURES, TOKENS, code_of

        try:
            return await request
        except FAILURES as error:
            code = code_of(error)
            if code in TOKENS:
                raise SlackError(f"Slack rejects the token ({code}): check {variable}") from error
            if code == "missing_scope":
                raise SlackError(f"{variable} has not the scopes of the app's manifest") from error
            raise ConnectionError(f"Slack cannot be reached: {code or error}") from error

    async def run(self) -> None:
        """Receive until cancelled; raises when the connection is to be made anew."""
        socket, reader = self._socket, self.reader
        if socket is None:
            raise ConnectionError("Slack is not connected")
        account = f"{self.team}:{self.me}"
        reader.go_on_from(await asyncio.to_thread(self.places.read, account))
        await reader.save()  # what comes from now on is for us, whatever happens
        tasks = [
            asyncio.ensure_future(self._watch(socket)),
            asyncio.ensure_future(reader.keep_place()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await reader.stop()
            await reader.save()

    async def _watch(self, socket: SocketModeClient) -> None:
        """End the waiting when the library does not come back."""
        away_since, self._connected_at = _now(), -math.inf
        connecting = asyncio.ensure_future(socket.connect())
        try:
            while _now() - away_since < AWAY_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                if await socket.is_connected():
                    away_since = self._connected_at = _now()
        finally:
            connecting.cancel()
        raise ConnectionError("Slack's socket is silent")

    async def disconnect(self) -> None:
        """Stop receiving, and free connections."""
        if self._parts is not None:
            await self._parts[0].stop()
        socket, self._socket = self._socket, None
        http, self._http, self._client = self._http, None, None
        if socket is not None:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                await socket.close()
        if http is not None:
            await http.close()

    # What Slack says; the library calls these in the order in which things came

    async def _said(self, _: Any, message: dict[str, Any], raw: str | None) -> None:
        if message.get("type") == "hello":
            self.reader.begin_session(_now() - self._connected_at)

    async def _requested(self, socket: Any, request: Any) -> None:
        async def acknowledge() -> None:
            try:
                await socket.send_socket_mode_response({"envelope_id": request.envelope_id})
            except (OSError, RuntimeError, AttributeError) as error:
                log.info("An envelope will come again: %s", error)

        self.reader.put(str(request.type), request.payload, acknowledge)

    async def name_of(self, user_id: str) -> str | None:
        """What somebody is called; None if Slack does not say so soon."""
        if user_id in self._names:
            return self._names[user_id]
        from .errors import FAILURES
        from .messages import clean

        try:
            async with asyncio.timeout(NAME_SECONDS):
                user = (await self.client.users_info(user=user_id))["user"]
            profile = user.get("profile") or {}
            name = profile.get("display_name") or user.get("real_name") or user.get("name")
            self._names[user_id] = clean(str(name or ""))[:128] or None
        except (*FAILURES, SendError, KeyError, TypeError) as error:
            log.info("The name of %s is not known: %s", user_id, error)
            return None
        while len(self._names) > MOST_NAMES:
            self._names.popitem(last=False)
        return self._names[user_id]

    # Messages out

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
        """Show a text in a channel, a thread of it or a direct chat. Raises SendError."""
        return await self.sender.send(chat_id, text, thread_id, buttons, key)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self.sender.edit(chat_id, message_id, text)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        await self.sender.react(chat_id, message_id, emoji)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a file."""
        return await self.sender.send_media(chat_id, path, caption, thread_id)

    def measure(self, markdown: str, /) -> int:
        """How long a text is once it is formatted."""
        return shown_length(markdown)


def _now() -> float:
    return asyncio.get_running_loop().time()
