"""Matrix, through matrix-nio: direct chats and rooms, threads, edits, files, encrypted or not.

Every text carries the transaction id that its delivery has, so a repeated request is shown once.
What goes into an encrypted room is encrypted, or not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from hermes_base.redaction import register_secret
from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ...session import SessionSource
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from ..last_look import LOST, is_lost
from ..lean_import import DATABASES, import_without
from . import media
from .events import edit_content, fitting, text_content
from .manifest import MANIFEST
from .state import Login, MatrixState, Place
from .sync import Reader

if TYPE_CHECKING:
    import nio  # type: ignore[import-untyped]

    from .encryption import Encryption

log = logging.getLogger(__name__)

FIRST_USE, VERIFIED = "first-use", "verified"
"""Whose devices are believed: all that their account lists, or only those that were verified."""
READY_SECONDS = 60.0
REQUEST_SECONDS = 30
TYPING_MS = 8_000
_PERMANENT = frozenset(
    {
        "M_FORBIDDEN", "M_NOT_FOUND", "M_TOO_LARGE", "M_BAD_JSON", "M_INVALID_PARAM",
        "M_UNRECOGNIZED", "M_GUEST_ACCESS_FORBIDDEN", "M_USER_DEACTIVATED",
    }
)  # fmt: skip


def _is_on(value: object) -> bool:
    return str(value).lower() not in ("false", "no", "off", "0")


class MatrixError(Exception):
    """The account cannot be used; the message says what to change."""


class MatrixAdapter(PlatformAdapter):
    """One account on one homeserver."""

    platform = Platform.MATRIX
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        extra = config.extra
        self.homeserver = str(extra.get("homeserver") or "").rstrip("/")
        self.require_mention = _is_on(extra.get("require_mention", True))
        self._encrypts = _is_on(extra.get("encryption", True))
        self._trust = str(extra.get("trust") or FIRST_USE)
        keys = extra.get("verified_keys") or ()
        self._verified_keys = [keys] if isinstance(keys, str) else [str(key) for key in keys]
        self.user_id = ""
        self.names: tuple[str, ...] = ()
        """What people call it in a room."""
        self._account = str(extra.get("user_id") or "")
        self._password = str(extra.get("password") or "")
        self._client: nio.AsyncClient | None = None
        self.encryption: Encryption | None = None
        """None if it is switched off: encrypted rooms can then be neither read nor written."""
        self.rooms_known = asyncio.Event()
        """Set once it is known which rooms there are, and which of them are encrypted."""
        self.plain_rooms: set[str] = set()
        """Rooms that are not encrypted, as far as the server says."""

    # Connection

    async def connect(self) -> None:
        """Log in; raises MatrixError if the account cannot be used."""
        if urlsplit(self.homeserver).scheme not in ("http", "https"):
            raise MatrixError(
                "Set platforms.matrix.homeserver (or MATRIX_HOMESERVER) to the address of your"
                " server, such as https://matrix.example.org."
            )
        if self._trust not in (FIRST_USE, VERIFIED):
            raise MatrixError(f"platforms.matrix.trust must be {FIRST_USE} or {VERIFIED}.")
        await self.disconnect()
        self._client = client = self._new_client()
        self.rooms_known.clear()
        self.plain_rooms.clear()
        try:
            await self._log_in(client)
            if self._encrypts:
                await self._start_encryption(client)
            shown = await self.ask(client.get_displayname(self.user_id))
        except BaseException:
            await self.disconnect()
            raise
        local = self.user_id.removeprefix("@").partition(":")[0]
        self.names = tuple(name for name in (getattr(shown, "displayname", None), local) if name)

    async def run(self) -> None:
        """Read the account's rooms until cancelled."""
        client = self.client
        place = await asyncio.to_thread(self.state.place, self.homeserver, self.user_id)
        await Reader(self, client, place).run()

    async def disconnect(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        self.encryption = None
        if client is not None:
            await client.close()

    @property
    def client(self) -> nio.AsyncClient:
        """The logged-in client."""
        if self._client is None:
            raise SendError("Matrix is not connected")
        return self._client

    @property
    def state(self) -> MatrixState:
        """What is kept for the next connection."""
        return MatrixState(self.host.home, self.host.shelf)

    @property
    def account(self) -> str:
        """The account, as the configuration names it."""
        known = self._account or hashlib.sha256(self.config.token.encode()).hexdigest()[:12]
        return f"{known}@{urlsplit(self.homeserver).netloc}"

    def expecting(self, source: SessionSource, has_file: bool) -> AbstractContextManager[None]:
        """While a file is fetched: the message it may belong to waits."""
        return self.host.expecting(source) if has_file else contextlib.nullcontext()

    async def may_talk(self, user_id: str) -> bool:
        """Whether somebody is on the list or has paired."""
        return await self.host.is_allowed(SessionSource(self.platform, user_id=user_id))

    def _new_client(self) -> nio.AsyncClient:
        try:
            nio = import_without("nio", DATABASES)
        except ImportError as error:
            raise MatrixError(
                f"Matrix needs a package that is not installed. Run: {install_hint('matrix')}"
            ) from error
        logging.getLogger("nio").setLevel(logging.WARNING)  # it tells of every event
        # Nothing is tried again in there: the delivery and the supervisor do that, and say so.
        settings = nio.AsyncClientConfig(
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=REQUEST_SECONDS,
            encryption_enabled=False,  # `Encryption` does it: its keys are kept in the store
        )
        return nio.AsyncClient(self.homeserver, self._account, config=settings)

    async def _start_encryption(self, client: nio.AsyncClient) -> None:
        try:
            import vodozemac  # noqa: F401
        except ImportError as error:
            raise MatrixError(
                "Matrix needs a package for encryption that is not installed. Run:"
                f" {install_hint('matrix')}. Or set platforms.matrix.encryption to false; encrypted"
                " rooms cannot be read then."
            ) from error
        from .encryption import Encryption, ForeignKeysError

        for is_new_device in (False, True):
            encryption = Encryption(
                self, client, self.host.records, self._trust == VERIFIED, self._verified_keys
            )
            try:
                await encryption.start(self._password)
            except ForeignKeysError as error:
                if is_new_device or self.config.token or not self._password:
                    raise MatrixError(
                        f"The access token of {self.user_id} belongs to the device"
                        f" {client.device_id}, whose keys are not here: another client made it, or"
                        " they were lost. Give user_id and password instead, or a token from a new"
                        " login; or set platforms.matrix.encryption to false."
                    ) from error
                log.warning("The keys of %s are not here; a new device is made", client.device_id)
                await self._log_in_anew(client, "")
            else:
                break
        self.encryption = encryption

    async def _log_in(self, client: nio.AsyncClient) -> None:
        import nio

        kept = await asyncio.to_thread(self.state.login, self.homeserver, self._account)
        token = self.config.token or (kept.access_token if kept else "")
        if token:
            client.access_token = token
            answer = await self.ask(client.whoami())
            if isinstance(answer, nio.WhoamiResponse):
                self.user_id = client.user_id = answer.user_id
                client.device_id = answer.device_id or ""
                return
            client.access_token = ""
            if answer.status_code != "M_UNKNOWN_TOKEN" or self.config.token:
                raise MatrixError(f"The Matrix access token was not accepted: {answer.message}")
        if not (self._account and self._password):
            raise MatrixError(
                "Set platforms.matrix.token (MATRIX_ACCESS_TOKEN), or user_id and password"
                " (MATRIX_USER_ID, MATRIX_PASSWORD)."
            )
        # The same device as before, so that its transaction ids and its keys still count.
        await self._log_in_anew(client, kept.device_id if kept else "")

    async def _log_in_anew(self, client: nio.AsyncClient, device_id: str) -> None:
        import nio

        client.device_id = device_id
        login = await self.ask(client.login(self._password, device_name="Hermes"))
        if not isinstance(login, nio.LoginResponse):
            raise MatrixError(f"Matrix did not log {self._account} in: {login.message}")
        self.user_id = client.user_id = login.user_id
        register_secret(login.access_token)
        await asyncio.to_thread(
            self.state.keep_login,
            Login(self.homeserver, login.user_id, login.device_id, login.access_token),
        )

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
        """Show a text in a room."""
        return await self._put(
            chat_id, text_content(text, thread_id=thread_id, reply_to=reply_to), key
        )

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self._put(chat_id, edit_content(message_id, text))

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made."""
        await self._send(self.client.room_typing(chat_id, True, TYPING_MS))

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction under a message."""
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        await self._put(chat_id, {"m.relates_to": relation}, kind="m.reaction")

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Upload a file and show it."""
        is_encrypted = await self._must_encrypt(chat_id)
        content = await media.upload(
            self.homeserver, self.client.access_token, Path(path).expanduser(), is_encrypted
        )
        if caption:
            content["body"] = caption
        if thread_id:
            content["m.relates_to"] = text_content("", thread_id=thread_id)["m.relates_to"]
        return await self._put(chat_id, fitting(content))

    async def _put(
        self,
        room_id: str,
        content: dict[str, Any],
        key: str | None = None,
        kind: str = "m.room.message",
    ) -> str | None:
        if await self._must_encrypt(room_id) and self.encryption is not None:
            try:
                kind, content = await self.encryption.seal(room_id, kind, content)
            except ConnectionError as error:
                raise SendError(str(error)) from error
        if is_lost():  # an upload may have taken long, and so may the keys
            raise SendError(LOST)
        from nio import Api, RoomSendResponse

        client = self.client
        transaction = hashlib.sha256((key or os.urandom(16).hex()).encode()).hexdigest()[:40]
        request = Api.room_send(client.access_token, room_id, kind, content, transaction)
        answer = await self._send(
            # Not `room_send`, which would encrypt by its own rules.
            client._send(RoomSendResponse, *request, (room_id,)),
            repeatable=key is not None,
        )
        return str(answer.event_id)

    async def _must_encrypt(self, room_id: str) -> bool:
        """Whether a room is encrypted. Raises SendError if it is and encryption is switched off."""
        client = self.client
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self.rooms_known.wait()
        except TimeoutError:
            raise SendError("The Matrix account has not been read yet") from None
        try:
            is_encrypted = await self._is_encrypted(client, room_id)
        except ConnectionError as error:
            raise SendError(str(error)) from error
        if is_encrypted and self.encryption is None:
            raise SendError(
                f"{room_id} is encrypted, and platforms.matrix.encryption is off", permanent=True
            )
        return is_encrypted

    async def _is_encrypted(self, client: nio.AsyncClient, room_id: str) -> bool:
        """Whether a room is encrypted. Raises SendError if that cannot be known.

        The server is asked once about a room that seems not to be: what it told may have come from
        a cache, and the room may have been changed a moment ago.
        """
        room = client.rooms.get(room_id)
        if room_id in client.encrypted_rooms or (room is not None and room.encrypted):
            return True
        if room_id in self.plain_rooms:
            return False
        status, answer = await self.request(
            "GET", f"rooms/{quote(room_id, safe='')}/state/m.room.encryption"
        )
        if status == 404:
            self.plain_rooms.add(room_id)
            return False
        if status != 200:
            refused = answer.get("errcode") == "M_FORBIDDEN"
            raise SendError(f"{room_id}: {answer.get('error') or status}", permanent=refused)
        if room is not None:
            room.encrypted = True
        if self.encryption is not None:
            self.encryption.note_encrypted(room_id)
        return True

    async def request(
        self, method: str, path: str, content: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """The status and the content of an answer; ConnectionError if there is none."""
        client = self.client

        async def ask() -> tuple[int, dict[str, Any]]:
            answer = await client.send(
                method,
                f"/_matrix/client/v3/{path}",
                None if content is None else json.dumps(content),
                {
                    "Authorization": f"Bearer {client.access_token}",
                    "Content-Type": "application/json",
                },
            )
            try:
                told = await answer.json(content_type=None)
            except ValueError:
                told = None  # a proxy's page
            return answer.status, told if isinstance(told, dict) else {}

        found: tuple[int, dict[str, Any]] = await self.ask(ask())
        return found

    async def _send(self, request: Awaitable[Any], *, repeatable: bool = True) -> Any:
        """The server's answer to a request; SendError if it did not do it."""
        import aiohttp
        from nio import ErrorResponse

        try:
            answer = await self.ask(request)
        except ConnectionError as error:
            never_sent = isinstance(error.__cause__, aiohttp.ClientConnectorError)
            raise SendError(str(error), unsure=not (repeatable or never_sent)) from error
        if isinstance(answer, ErrorResponse):
            wait = answer.retry_after_ms
            raise SendError(
                str(answer),
                retry_after=wait / 1000 if wait else None,
                permanent=answer.status_code in _PERMANENT,
            )
        return answer

    async def ask(self, request: Awaitable[Any]) -> Any:
        """The server's answer, good or bad; ConnectionError if there was none."""
        import aiohttp
        from nio import LocalProtocolError

        try:
            return await request
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionError(
                f"{self.homeserver} does not answer: {error or type(error).__name__}"
            ) from error
        except LocalProtocolError as error:
            raise ConnectionError(f"Matrix is not logged in: {error}") from error

    def keep(self, place: Place) -> None:
        """Everything before this place is stored."""
        self.state.keep_place(place)
