"""Signal: one account, through signal-cli's daemon; two connections to it, in and out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter
from .client import (
    METHOD_NOT_FOUND,
    REPLY_SECONDS,
    BrokenError,
    Caller,
    Connection,
    RpcError,
    SignalError,
    is_local,
    own_socket,
)
from .formatting import shown_bytes
from .manifest import MANIFEST
from .messages import Listening
from .reader import Reader
from .sending import Sender

log = logging.getLogger(__name__)


class SignalAdapter(PlatformAdapter):
    """An account of signal-cli."""

    platform = Platform.SIGNAL
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        extra = config.extra
        self.address = str(extra.get("address") or own_socket())
        self.read_receipts = _is_true(extra.get("read_receipts", True))
        self.attachments = _attachments(extra.get("attachments"), self.address)
        self.sender = Sender(self)
        self._reader = Reader(self)
        self._incoming: Connection | None = None
        self._caller: Caller | None = None
        self._names = {self.account}
        self._is_multi = False
        """Whether the daemon has several accounts, and wants to be told which."""

    @property
    def account(self) -> str:
        """The number, or the id."""
        return str(self.config.extra.get("account") or "")

    @property
    def listening(self) -> Listening:
        """What of the messages is for us."""
        extra = self.config.extra
        return Listening(
            self.account,
            frozenset(self._names),
            _is_true(extra.get("require_mention", True)),
            _is_true(extra.get("note_to_self", False)),
            frozenset((*self.config.allowed_users, *self.config.admins)),
        )

    def is_self(self, chat_id: str) -> bool:
        """Whether a chat is the account's own notes."""
        return chat_id in self._names

    def is_ours(self, account: str) -> bool:
        """Whether the daemon speaks of our account, by whichever of its names."""
        if not self._is_multi:
            self._names.add(account)  # it has no other
        return account in self._names

    # Connection

    async def connect(self) -> None:
        """Reach the daemon; raises SignalError, with what to do."""
        if not self.account:
            raise SignalError("Set platforms.signal.account (or SIGNAL_ACCOUNT) to the number.")
        await self.disconnect()
        # The one that receives comes first: what the daemon says to it alone is not lost.
        self._incoming = await Connection.open(self.address)
        try:
            self._caller = Caller(await Connection.open(self.address))
            await self._introduce()
        except (TimeoutError, RpcError) as error:
            await self.disconnect()
            raise SignalError(f"signal-cli's daemon does not answer: {error}") from error
        except BaseException:
            await self.disconnect()
            raise

    async def _introduce(self) -> None:
        """Find out which account it is."""
        try:
            accounts = await self.call("listAccounts", {})
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            self._is_multi = False  # it was started for one account, and that is ours
            return
        known = [one for one in accounts or () if isinstance(one, dict)]
        ours = next(
            (one for one in known if self.account in (one.get("number"), one.get("aci"))), None
        )
        if ours is None:
            raise SignalError(
                f"signal-cli has no account {self.account}: link or register it (docs/signal.md)"
            )
        self._names |= {str(ours[name]) for name in ("number", "aci") if ours.get(name)}
        self._is_multi = True

    async def run(self) -> None:
        """Receive until cancelled; raises when a connection breaks."""
        incoming, caller = self._incoming, self._caller
        if incoming is None or caller is None:
            raise BrokenError("signal-cli's daemon is not connected")
        receiving = asyncio.ensure_future(self._reader.run(incoming, self._whose()))
        try:
            done, _ = await asyncio.wait(
                [receiving, caller.reading], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])

    async def disconnect(self) -> None:
        """Leave; the daemon keeps for us what comes, if it was started to."""
        caller, self._caller = self._caller, None
        incoming, self._incoming = self._incoming, None
        if caller is not None:
            await caller.close()
        if incoming is not None:
            await incoming.close()

    def _whose(self) -> dict[str, Any]:
        return {"account": self.account} if self._is_multi else {}

    async def call(
        self, method: str, params: Mapping[str, Any], seconds: float | None = None
    ) -> Any:
        """What the daemon answers; raises BrokenError or RpcError."""
        if self._caller is None:
            raise BrokenError("signal-cli's daemon is not connected")
        return await self._caller.call(
            method, {**self._whose(), **params}, seconds or REPLY_SECONDS
        )

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
        """Show a text to somebody or in a group; returns its time. Raises SendError."""
        return await self.sender.send(chat_id, text, reply_to, buttons)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self.sender.edit(chat_id, message_id, text)

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made, for about fifteen seconds."""
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
        """How many bytes of a message a text takes."""
        return shown_bytes(markdown)


def _attachments(given: object, address: str) -> Path | None:
    """Where the daemon keeps files, if that may be on this machine."""
    if given:
        return Path(str(given)).expanduser()
    if not is_local(address):
        return None
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "signal-cli" / "attachments"


def _is_true(value: object) -> bool:
    return str(value).strip().lower() not in ("false", "no", "off", "0", "none", "")
