"""One connection to the server that keeps the mail: read-only unless it is told otherwise.

Of the server's answers only those are asked for whose texts come by their length: the library
counts brackets in what comes in quotes, and strangers choose what is in a subject.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import aioimaplib  # type: ignore[import-untyped]
from aioimaplib.aioimaplib import (  # type: ignore[import-untyped]
    SELECTED,
    Command,
    IMAP4ClientProtocol,
    quoted,
)

from .settings import MailError, Server

log = logging.getLogger(__name__)
# It tells what mails say: not even where everything is logged.
logging.getLogger("aioimaplib").setLevel(logging.WARNING)

REPLY_SECONDS = 60.0
READ_SECONDS = 900.0
CONNECT_SECONDS = 20.0
GOODBYE_SECONDS = 2.0
_FAILURES = (aioimaplib.AioImapException, OSError, TimeoutError, ssl.SSLError, ValueError)
_UID = re.compile(rb"\d+ FETCH \(.*?\bUID (\d+)")
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")
_DAY = re.compile(rb'INTERNALDATE "([ \d]\d-[A-Za-z]{3}-\d{4}) ')
_COUNT = re.compile(rb"\d+ (EXISTS|RECENT)", re.IGNORECASE)
_FOLDER = re.compile(r'\(([^()]*)\) (?:NIL|"[^"]*"|\S+) (.+)')


class BrokenError(ConnectionError):
    """The connection broke, or the server fell silent."""


class RefusedError(Exception):
    """The server does not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What a server says of a folder that is opened."""

    validity: int
    next_uid: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The head of a mail, and how large it is."""

    uid: int
    size: int
    day: str
    head: bytes


class _Protocol(IMAP4ClientProtocol):
    """The library's, which also tells of new mail whenever the server does, and of its end."""

    def __init__(self, loop: Any, news: asyncio.Event, lost: asyncio.Event) -> None:
        super().__init__(loop, lambda error: lost.set())
        self._news = news

    def _untagged_response(self, line: bytes) -> Any:
        if _COUNT.fullmatch(line.removeprefix(b"* ")):
            self._news.set()
        return super()._untagged_response(line)


class _Client(aioimaplib.IMAP4):
    def __init__(self, server: Server, news: asyncio.Event, lost: asyncio.Event) -> None:
        self._events = news, lost
        context = server.tls if server.from_the_start else None
        super().__init__(server.host, server.port, timeout=REPLY_SECONDS, ssl_context=context)

    def create_client(
        self, host: str, port: int, loop: Any, conn_lost_cb: Any = None, ssl_context: Any = None
    ) -> None:
        running = asyncio.get_running_loop()
        self.protocol = _Protocol(running, *self._events)
        self._client_task = running.create_task(
            running.create_connection(lambda: self.protocol, host, port, ssl=ssl_context)
        )


class Mailbox:
    """A connection; made once, and not again when it is broken."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._news, self._lost = asyncio.Event(), asyncio.Event()
        self._client: _Client | None = None
        self._is_done = False
        """Whether the end of the last IDLE was asked for."""

    @property
    def client(self) -> _Client:
        """The library's client."""
        if self._client is None:
            raise BrokenError("the mailbox is not connected")
        return self._client

    async def open(self) -> None:
        """Connect and log in; MailError where that is refused, BrokenError where nobody is."""
        server = self._server
        self._client = client = _Client(server, self._news, self._lost)
        try:
            await self._until_lost(self._greeted(client), CONNECT_SECONDS)
            if server.tls is not None and not server.from_the_start:
                await self._until_lost(self._start_tls(client, server.tls), CONNECT_SECONDS)
            # Quoted here: the library does so with passwords only.
            done = await self._until_lost(client.login(quoted(server.user), server.password))
        except BaseException:
            await self.close()
            raise
        if done.result != "OK":
            await self.close()
            why = _words(done.lines)
            if "[UNAVAILABLE]" in why.upper():
                raise BrokenError(why)
            raise MailError(
                f"{server.host} does not accept the login of {server.user} (EMAIL_PASSWORD): {why}"
            )
        await self._until_lost(client.protocol.capability())

    async def _greeted(self, client: _Client) -> None:
        await client._client_task  # refused connections and certificates are raised here
        await client.protocol.wait("AUTH|NONAUTH")

    async def _start_tls(self, client: _Client, context: ssl.SSLContext) -> None:
        protocol, loop = client.protocol, asyncio.get_running_loop()
        if "STARTTLS" not in protocol.capabilities:
            raise MailError(f"{self._server.host} has no STARTTLS; use port 993, or tls: false.")
        done = await protocol.execute(Command("STARTTLS", protocol.new_tag(), loop=loop))
        if done.result != "OK" or protocol.incomplete_line:
            # What comes before the encryption may be anybody's.
            raise BrokenError("STARTTLS failed")
        protocol.transport = await loop.start_tls(
            protocol.transport, protocol, context, server_hostname=self._server.host
        )
        await protocol.capability()

    async def close(self) -> None:
        """Say goodbye, and end."""
        client, self._client = self._client, None
        if client is None:
            return
        if not self._lost.is_set() and client.get_state() in ("AUTH", "SELECTED"):
            with contextlib.suppress(*_FAILURES):
                if client.has_pending_idle() and not self._is_done:
                    client.idle_done()
                await asyncio.wait_for(client.logout(), GOODBYE_SECONDS)
        client._client_task.cancel()
        with contextlib.suppress(*_FAILURES, asyncio.CancelledError):
            await client._client_task
        if client.protocol.transport is not None:
            client.protocol.transport.close()
        for task in (*client.tasks, *client.protocol.tasks):
            task.cancel()

    def has(self, capability: str) -> bool:
        """Whether the server can do something."""
        return self.client.has_capability(capability)

    async def select(self, folder: str, *, is_changed: bool = False) -> Folder:
        """Open a folder; `is_changed` to mark its mails."""
        if is_changed:
            done = await self._ask(self.client.select(quoted(folder)))
        else:
            done = await self._ask(self.client.examine(quoted(folder)))
            self.client.protocol.state = SELECTED  # which the library does after SELECT alone
        said = _words(done.lines)
        validity = re.search(r"\[UIDVALIDITY (\d+)\]", said)
        following = re.search(r"\[UIDNEXT (\d+)\]", said)
        if validity is None:
            raise RefusedError(f"{folder} has no UIDVALIDITY")
        next_uid = int(following[1]) if following else 0
        if not next_uid:
            next_uid = max(await self.search("ALL"), default=0) + 1
        self._news.clear()
        return Folder(int(validity[1]), next_uid)

    async def search(self, *criteria: str) -> list[int]:
        """The UIDs of the mails of the open folder that fit, upwards."""
        self._news.clear()
        done = await self._ask(self.client.uid_search(*criteria, charset=None))
        # The last line is what the server says of the end of the search.
        found = [word for line in done.lines[:-1] for word in bytes(line).split()]
        return sorted({int(word) for word in found if word.isdigit()})

    async def search_after(self, uid: int) -> list[int]:
        """The UIDs of the mails that came after one."""
        # The last mail of the folder always fits "n:*".
        return [found for found in await self.search("UID", f"{uid + 1}:*") if found > uid]

    async def search_id(self, message_id: str) -> list[int]:
        """The UIDs of the mails with a Message-ID."""
        return await self.search("HEADER", "Message-ID", quoted(f"<{message_id}>"))

    async def heads(self, uids: Sequence[int], most_bytes: int) -> list[Summary]:
        """The heads of mails; of those that are gone, nothing."""
        what = f"(UID RFC822.SIZE INTERNALDATE BODY.PEEK[HEADER]<0.{most_bytes + 1}>)"
        done = await self._ask(self.client.uid("fetch", ",".join(map(str, uids)), what))
        summaries: dict[int, Summary] = {}
        for said, data in _fetched(done.lines):
            if (uid := _UID.match(said)) is None:
                continue  # somebody else has changed a mail
            size, day = _SIZE.search(said), _DAY.search(said)
            summaries[int(uid[1])] = Summary(
                int(uid[1]),
                int(size[1]) if size else 0,
                day[1].decode().strip() if day else "",
                data,
            )
        return [summaries[uid] for uid in uids if uid in summaries]

    async def read(self, uid: int, most_bytes: int) -> bytes | None:
        """A mail, up to a length; None if it is gone."""
        what = f"(UID BODY.PEEK[]<0.{most_bytes}>)"
        # The library waits no longer than a minute for each piece of it.
        done = await self._ask(self.client.uid("fetch", str(uid), what), READ_SECONDS)
        for said, data in _fetched(done.lines):
            found = _UID.match(said)
            if found is not None and int(found[1]) == uid:
                return data
        return None

    async def mark_read(self, uid: int) -> None:
        """Mark a mail as read."""
        await self._ask(self.client.uid("store", str(uid), "+FLAGS.SILENT", r"(\Seen)"))

    async def find_sent_folder(self) -> str:
        """The folder that the server says is that of sent mail; "Sent" if it does not say."""
        names: list[str] = []
        # Not all of them at once: there may be thousands.
        for pattern in ("%", "INBOX.%", "INBOX/%", "[Gmail]/%"):
            done = await self._ask(self.client.list('""', quoted(pattern)))
            for line in done.lines[:-1]:
                match = _FOLDER.fullmatch(bytes(line).decode("utf-8", "replace"))
                if match is None:
                    continue
                name = match[2].strip()
                if name.startswith('"'):
                    name = re.sub(r"\\(.)", r"\1", name[1:-1])
                if r"\sent" in match[1].lower():
                    return name
                names.append(name)
        known = ("Sent", "INBOX.Sent", "INBOX/Sent", "Sent Items", "Sent Messages")
        return next((name for name in known if name in names), "Sent")

    async def append(self, folder: str, mail: bytes) -> None:
        """Put a mail into a folder, as one that was read; the folder is made if it is missing."""
        name = quoted(folder)
        try:
            await self._ask(self.client.append(mail, name, r"(\Seen)"))
        except RefusedError as error:
            if "TRYCREATE" not in str(error).upper():
                raise
            await self._ask(self.client.create(name))
            await self._ask(self.client.append(mail, name, r"(\Seen)"))

    async def wait(self, seconds: float, *, idle: bool) -> None:
        """Wait until the server tells of new mail, or so long; without IDLE it is so long."""
        if self._news.is_set():
            return
        if not (idle and self.has("IDLE")):
            await self._until_lost(asyncio.sleep(seconds), None)
            await self._ask(self.client.noop())  # some look for new mail only then
            return
        self._is_done = False
        ended = await self._until_lost(self.client.idle_start(seconds + REPLY_SECONDS))
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._until_lost(self._news.wait(), None)
        finally:
            if not self._lost.is_set():
                self._is_done = True
                self.client.idle_done()
        await self._until_lost(ended)
        pushed = self.client.protocol.idle_queue
        while not pushed.empty():  # it was told of by `news`
            pushed.get_nowait()

    async def _ask(self, command: Coroutine[Any, Any, Any], seconds: float = REPLY_SECONDS) -> Any:
        done = await self._until_lost(command, seconds)
        if done.result != "OK":
            raise RefusedError(_words(done.lines))
        return done

    async def _until_lost(self, work: Any, seconds: float | None = REPLY_SECONDS) -> Any:
        """What the library answers; BrokenError as soon as the connection is lost, which the
        library itself waits out."""
        task = asyncio.ensure_future(work)
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({task, lost}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if lost.done():
                raise BrokenError("the server closed the connection")
            raise BrokenError("the server does not answer")
        except _FAILURES as error:
            if isinstance(error, BrokenError):
                raise
            raise BrokenError(str(error) or type(error).__name__) from error
        finally:
            lost.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            elif not task.cancelled():
                task.exception()


def _fetched(lines: Sequence[bytes | bytearray]) -> list[tuple[bytes, bytes]]:
    """What was said of each mail, and the text that came with it."""
    found: list[tuple[bytes, bytes]] = []
    for line in lines:
        if isinstance(line, bytearray):
            if found:
                found[-1] = found[-1][0], bytes(line)
        elif re.match(rb"\d+ FETCH \(", line):
            found.append((bytes(line), b""))
        elif found:  # what stands behind the text
            found[-1] = found[-1][0] + b" " + bytes(line), found[-1][1]
    return found


def _words(lines: Sequence[Any]) -> str:
    return " ".join(bytes(line).decode("utf-8", "replace") for line in lines)[-1000:]
