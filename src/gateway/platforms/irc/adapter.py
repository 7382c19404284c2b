"""IRC: one connection to one network, direct messages and channels.

Nothing is ever edited there, lines are short and may not come quickly: an answer is cut into lines
that are written at the server's pace, and of a long one the rest goes to a paste service.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import re
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

from hermes_base.certificates import certificates

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from .client import BrokenError, Client, IrcError, Server
from .formatting import lines_of, to_irc
from .inbound import Inbound
from .manifest import MANIFEST
from .pace import Pace
from .paste import PasteError, read, upload
from .people import People
from .protocol import Line, cut_line, fold, is_channel, is_target, room_for

log = logging.getLogger(__name__)

TLS_PORT, PLAIN_PORT = 6697, 6667
AWAY_SECONDS = 60.0
"""After which a text for somebody who is not there is tried again."""
BUSY_SECONDS = 30.0
NICK_SECONDS = 120.0
"""Between two attempts to have the wanted nickname back."""
MOST_WIDE = 400
"""Bytes of a line, however much room there is."""
_PASSING = frozenset({"263", "437", "439"})
_SECONDS = re.compile(r"(\d{1,4}) ?s")


class IrcAdapter(PlatformAdapter):
    """One nickname on one network."""

    platform = Platform.IRC
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        extra = config.extra
        self.require_mention = _is_true(extra.get("require_mention", True))
        self._channels = _names(extra.get("channels"))
        self._paste_url = str(extra.get("paste_url") or "")
        self._most_lines = max(1, int(extra.get("max_lines", 20)))
        if self._paste_url:
            self.capabilities = dataclasses.replace(MANIFEST.capabilities, media=True)
        self._pace = Pace(float(extra.get("line_interval", 2.0)), time.monotonic)
        self.people = People(by_account=_is_true(extra.get("require_account", True)))
        self.inbound = Inbound(self)
        self._client: Client | None = None
        self._sent = 0

    @property
    def account(self) -> str:
        """The nickname and the server."""
        return f"{self.config.extra.get('nick') or 'hermes'}@{self.config.extra.get('server')}"

    @property
    def client(self) -> Client:
        """The connection."""
        if self._client is None:
            raise BrokenError("IRC is not connected")
        return self._client

    # Connection

    async def connect(self) -> None:
        """Log in and enter the channels; raises ConnectionError if that cannot be done."""
        await self.disconnect()
        server = self._server()
        client = Client(server, self._pace, self.inbound.put)
        try:
            await client.open()
            for channel in self._channels:
                await client.join(channel)
        except IrcError:
            await client.close()
            raise
        except (OSError, TimeoutError) as error:
            await client.close()
            reason = error or type(error).__name__
            raise ConnectionError(f"{server.host} cannot be reached: {reason}") from error
        except BaseException:
            await client.close()
            raise
        self._client = client
        for channel in self._channels:
            if fold(channel.split()[0], client.mapping) not in client.channels:
                log.warning("The channel %s could not be entered", channel.split()[0])

    async def run(self) -> None:
        """Receive until cancelled; raises when the connection breaks."""
        client = self.client
        tasks = {
            asyncio.create_task(work)
            for work in (client.run(), self.inbound.run(), self._want_nick(client))
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def disconnect(self) -> None:
        """Leave."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _want_nick(self, client: Client) -> None:
        while True:
            await asyncio.sleep(NICK_SECONDS)
            with contextlib.suppress(BrokenError):
                client.ask_for_nick()

    def _server(self) -> Server:
        extra = self.config.extra
        address = str(extra.get("server") or "")
        nick = str(extra.get("nick") or "hermes")
        if not address:
            raise IrcError("Set platforms.irc.server (or IRC_SERVER) to the name of the server.")
        if not is_target(nick) or is_channel(nick):
            raise IrcError(f"{nick!r} is no nickname: change platforms.irc.nick (IRC_NICK).")
        bad = [each for each in self._channels if not is_channel(each)]
        if bad:
            raise IrcError(f"platforms.irc.channels: {bad[0]!r} is no channel; they begin with #.")
        tls = self._tls() if _is_true(extra.get("tls", True)) else None
        host, port = _split(address, TLS_PORT if tls else PLAIN_PORT)
        return Server(
            host, port, tls, nick,
            account=str(extra.get("account") or ""),
            password=str(extra.get("password") or ""),
            server_password=str(extra.get("server_password") or ""),
        )  # fmt: skip

    def _tls(self) -> ssl.SSLContext:
        file = self.config.extra.get("ca_file")
        if not file:
            return certificates()
        try:
            return ssl.create_default_context(cafile=str(Path(str(file)).expanduser()))
        except (OSError, ssl.SSLError) as error:
            raise IrcError(f"platforms.irc.ca_file cannot be used: {error}") from error

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
        """Write a text, line by line; returns when the server has dealt with all of it."""
        try:
            client = self.client
            target = await self._target(client, chat_id)
            lines = await self._lines(client, target, text)
            refusals = await client.tell(target, lines)
        except BrokenError as error:
            raise SendError(f"IRC: {error}", unsure=error.unsure) from error
        except TimeoutError as error:
            raise SendError("IRC: the server does not answer") from error
        if refusals:
            raise _refusal(refusals[0])
        self._sent += 1
        return f"{client.nick}:{self._sent}"

    async def _target(self, client: Client, chat_id: str) -> str:
        """Where to write: a channel, or the nickname that a person has just now."""
        if is_channel(chat_id):
            if not is_target(chat_id):
                raise SendError(f"{chat_id!r} is no channel", permanent=True)
            return chat_id
        nick = self.people.nick_of(chat_id)
        if not is_target(nick):
            raise SendError(f"{nick!r} is no nickname", permanent=True)
        if not self.people.fits(chat_id, await client.whois(nick), client.mapping):
            raise SendError(f"{chat_id} is not there", retry_after=AWAY_SECONDS)
        return nick

    async def _lines(self, client: Client, target: str, text: str) -> list[str]:
        """A text as lines; of one with too many the beginning, and where the rest is."""
        room = max(20, min(MOST_WIDE, room_for(client.nick, target)))
        lines = [piece for line in lines_of(text) for piece in cut_line(line, room)]
        if len(lines) <= self._most_lines:
            return lines
        kept = lines[: self._most_lines - 1]
        rest = f"{len(lines) - len(kept)} more lines"
        if not self._paste_url:
            return [*kept, f"… {rest}, which are too many for IRC: ask for a part of them"]
        whole = "\n".join(lines_of(text)).encode("utf-8", "replace")
        try:
            address = await upload(self._paste_url, "answer.txt", whole)
        except PasteError as error:
            log.warning("A long answer was cut: %s", error)
            return [*kept, f"… {rest}; {error}"]
        return [*kept, f"… {rest}: {address}"]

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Put a file on the paste service, and write its address; without one, its name."""
        file = Path(path)
        try:
            if not self._paste_url:
                raise PasteError("IRC takes no files: platforms.irc.paste_url is not set")
            address = await upload(self._paste_url, file.name, await asyncio.to_thread(read, file))
        except PasteError as error:
            address = f"not sent: {error}"
        text = "\n".join(filter(None, (caption, to_irc(f"`{file.name}`") + f" ({address})")))
        return await self.send(chat_id, text)


def _refusal(line: Line) -> SendError:
    why = f"IRC: {line.param(-1)} ({line.command})"
    if line.command == "401" and not is_channel(
        line.param(1)
    ):  # they have left between the question and the text
        return SendError(why, retry_after=AWAY_SECONDS)
    if line.command in _PASSING:
        wished = _SECONDS.search(line.param(-1))
        return SendError(why, retry_after=float(wished[1]) if wished else BUSY_SECONDS)
    return SendError(why, permanent=True)


def _split(address: str, port: int) -> tuple[str, int]:
    host, colon, number = address.rpartition(":")
    if colon and number.isdecimal() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(number)
    return address.strip("[]"), port


def _names(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    return tuple(str(name).strip() for name in given) if isinstance(given, list | tuple) else ()


def _is_true(value: object) -> bool:
    return str(value).strip().lower() not in ("false", "no", "off", "0", "none", "")
