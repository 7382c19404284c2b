"""One connection to an IRC server: logged in, kept alive, written to at its pace.

IRC acknowledges nothing. But a server deals with the lines of a connection in order, so a PING
behind a text is answered after that was shown, or refused: `tell` returns when it is.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..last_look import LOST, is_lost
from .pace import Pace
from .protocol import Line, fold, parse_line

log = logging.getLogger(__name__)

REGISTER_SECONDS = 40.0
REPLY_SECONDS = 60.0
QUIET_SECONDS = 120.0
"""After which the server is asked whether it is there."""
LONGEST_READ = 16 * 1024
MOST_NICKS = 10
_CAPABILITIES = frozenset({"account-tag", "message-tags", "server-time", "sasl"})
_REFUSALS = frozenset(
    {"263", "401", "403", "404", "405", "407", "411", "412", "415", "417", "437", "439", "442",
     "471", "473", "474", "475", "477", "486", "489", "531", "716"}
)  # fmt: skip


class IrcError(ConnectionError):
    """The server cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect, and as whom."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    nick: str
    account: str = ""
    password: str = field(default="", repr=False)
    server_password: str = field(default="", repr=False)


@dataclass(slots=True)
class Whois:
    """What a server says of a nickname."""

    mask: str = ""
    """nick!user@host; empty if nobody has that name."""
    account: str = ""


class BrokenError(ConnectionError):
    """The connection broke; `unsure` is whether something may have been shown."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class Client:
    """A connection; made once, and not again when it is broken."""

    def __init__(
        self, server: Server, pace: Pace, on_message: Callable[[Line], Awaitable[None]]
    ) -> None:
        self._server = server
        self._pace = pace
        self._on_message = on_message
        self.nick = server.nick
        self.mapping = "rfc1459"
        self.capabilities: frozenset[str] = frozenset()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs: dict[str, asyncio.Future[None]] = {}
        self._refused: dict[str, list[list[Line]]] = {}
        """For each target that is written to: where its refusals are noted."""
        self._whois: dict[str, Whois] = {}
        self._offered: list[str] = []
        self._tried = 0
        self.channels: set[str] = set()
        """Where we are, folded."""
        self.broken_by = ""

    async def open(self) -> None:
        """Connect and log in; raises IrcError where that is refused, OSError where nobody is."""
        server = self._server
        reader, self._writer = await asyncio.open_connection(
            server.host, server.port, ssl=server.tls, limit=LONGEST_READ
        )
        self._reading = asyncio.create_task(self._read(reader))
        self._reading.add_done_callback(self._ended)
        if server.server_password:
            self._write(f"PASS {server.server_password}")
        self._write("CAP LS 302")
        self._write(f"NICK {self.nick}")
        self._write(f"USER {fold(server.nick)[:9] or 'hermes'} 0 * :Hermes")
        async with asyncio.timeout(REGISTER_SECONDS):
            await asyncio.shield(self._registered)

    async def run(self) -> None:
        """Read until the connection breaks: raises BrokenError."""
        assert self._reading is not None
        await asyncio.wait([self._reading])
        raise BrokenError(self.broken_by or "the connection was closed")

    async def close(self) -> None:
        """Say goodbye, and end."""
        writer, self._writer = self._writer, None
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.write(b"QUIT :Goodbye\r\n")
                writer.close()

    # Out

    async def tell(self, target: str, lines: Sequence[str], command: str = "PRIVMSG") -> list[Line]:
        """Write lines to a nickname or channel; returns what the server refused of it.

        Raises BrokenError if the connection breaks before the server has dealt with all.
        """
        written = False
        with self._noting(target) as refusals:
            for line in lines:
                await self._pace.wait()
                if is_lost():
                    raise BrokenError(LOST, unsure=written)
                if refusals:
                    break
                try:
                    self._write(f"{command} {target} :{line}")
                except BrokenError as error:
                    error.unsure = written
                    raise
                written = True
            try:
                await self.settle()
            except TimeoutError as error:
                raise BrokenError("the server does not answer", unsure=True) from error
            except BrokenError as error:
                error.unsure = True
                raise
        return refusals

    async def settle(self) -> None:
        """Wait until the server has dealt with everything that was written."""
        token = f"hermes-{secrets.token_hex(6)}"
        pong = self._pongs[token] = asyncio.get_running_loop().create_future()
        try:
            self._write(f"PING :{token}")
            async with asyncio.timeout(REPLY_SECONDS):
                await pong
        finally:
            del self._pongs[token]

    async def whois(self, nick: str) -> Whois:
        """Who has a nickname now; this does not wait behind long answers."""
        self._pace.note_urgent()
        key = fold(nick, self.mapping)
        known = self._whois[key] = Whois()
        self._write(f"WHOIS {nick}")
        await self.settle()
        return known

    async def join(self, channel: str) -> None:
        """Enter a channel; "#name key" for one with a key."""
        self._write(f"JOIN {channel}")
        await self.settle()

    def ask_for_nick(self) -> None:
        """Try to have the wanted nickname, if another had it."""
        if fold(self.nick, self.mapping) != fold(self._server.nick, self.mapping):
            self._write(f"NICK {self._server.nick}")

    def _write(self, line: str) -> None:
        if self._writer is None or self._writer.is_closing() or self.broken_by:
            raise BrokenError(self.broken_by or "IRC is not connected")
        clean = line.replace("\r", " ").replace("\n", " ").replace("\x00", "")
        self._writer.write(clean.encode("utf-8", "replace") + b"\r\n")

    @contextlib.contextmanager
    def _noting(self, target: str) -> Iterator[list[Line]]:
        key = fold(target, self.mapping)
        refusals: list[Line] = []
        self._refused.setdefault(key, []).append(refusals)
        try:
            yield refusals
        finally:
            # By identity: two that were refused nothing are equal.
            left = [noted for noted in self._refused[key] if noted is not refusals]
            if left:
                self._refused[key] = left
            else:
                del self._refused[key]

    # In

    async def _read(self, reader: asyncio.StreamReader) -> None:
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    data = await reader.readuntil(b"\n")
            except TimeoutError:
                if is_asked:
                    raise BrokenError("the server has fallen silent") from None
                is_asked = True
                self._write("PING :there")
                continue
            except asyncio.IncompleteReadError:
                raise BrokenError("the server closed the connection") from None
            except asyncio.LimitOverrunError as error:
                await reader.readexactly(error.consumed)  # longer than any line may be
                continue
            is_asked = False
            line = parse_line(data)
            if line is not None:
                await self._take(line)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):
            log.error("Reading from IRC failed", exc_info=error)
        self.broken_by = self.broken_by or str(error or "the connection was closed")
        broken = error if isinstance(error, IrcError) else BrokenError(self.broken_by)
        for waiting in (self._registered, *self._pongs.values()):
            if not waiting.done():
                waiting.set_exception(broken)
                waiting.exception()  # it may be that nobody waits for it any more

    async def _take(self, line: Line) -> None:
        command = line.command
        if command == "PING":
            self._write(f"PONG :{line.param(-1)}")
        elif command == "PONG":
            pong = self._pongs.get(line.param(-1))
            if pong is not None and not pong.done():
                pong.set_result(None)
        elif command in ("PRIVMSG", "NOTICE"):
            await self._on_message(line)
        elif command in ("JOIN", "PART", "KICK", "NICK"):
            self._note_place(line)
        elif command == "ERROR":
            self.broken_by = line.param(-1)
            if "flood" in self.broken_by.lower():
                self._pace.slow_down()
            raise BrokenError(self.broken_by)
        elif command == "005":
            for token in line.params[1:-1]:
                if token.startswith("CASEMAPPING="):
                    self.mapping = "ascii" if token.endswith("=ascii") else "rfc1459"
        elif command in ("311", "330", "307"):
            self._note_whois(line)
        elif not self._registered.done():
            self._register(line)
        if command == "263" and line.param(1).upper() in ("PRIVMSG", "NOTICE"):
            for noted in self._refused.values():  # it does not say to whom
                for refusals in noted:
                    refusals.append(line)
        elif command in _REFUSALS:
            for refusals in self._refused.get(fold(line.param(1), self.mapping), ()):
                refusals.append(line)

    def _note_place(self, line: Line) -> None:
        is_kick = line.command == "KICK"
        whom = line.param(1) if is_kick else line.nick
        if fold(whom, self.mapping) != fold(self.nick, self.mapping):
            return
        if line.command == "NICK":
            self.nick = line.param(0)
        elif line.command == "JOIN":
            self.channels.add(fold(line.param(0), self.mapping))
        else:
            self.channels.discard(fold(line.param(0), self.mapping))
            log.warning("Out of %s: %s", line.param(0), line.param(-1))

    def _note_whois(self, line: Line) -> None:
        known = self._whois.get(fold(line.param(1), self.mapping))
        if known is None:
            return
        if line.command == "311":
            known.mask = f"{line.param(1)}!{line.param(2)}@{line.param(3)}"
        elif line.command == "330":
            known.account = line.param(2)
        else:  # it is registered, and whoever has it has shown that it is theirs
            known.account = known.account or line.param(1)

    # Logging in

    def _register(self, line: Line) -> None:
        command = line.command
        if command == "CAP":
            self._negotiate(line)
        elif command == "AUTHENTICATE":
            account = self._server.account or self._server.nick
            plain = f"{account}\0{account}\0{self._server.password}".encode()
            encoded = base64.b64encode(plain).decode()
            for begin in range(0, len(encoded) + 1, 400):  # a whole last piece is ended by +
                self._write(f"AUTHENTICATE {encoded[begin : begin + 400] or '+'}")
        elif command == "903":
            self._write("CAP END")
        elif command in ("902", "904", "905", "906", "908"):
            raise IrcError(f"The account was not accepted (IRC_PASSWORD): {line.param(-1)}")
        elif command in ("433", "436", "437"):
            self._tried += 1
            if self._tried > MOST_NICKS:
                raise IrcError("No nickname like the wanted one is free")
            wanted = self._server.nick
            self.nick = (
                f"{wanted}_" if self._tried == 1 else f"{wanted[:6]}{secrets.randbelow(900) + 100}"
            )
            self._write(f"NICK {self.nick}")
        elif command == "432":
            raise IrcError(f"The server does not take the nickname {self.nick} (IRC_NICK)")
        elif command in ("464", "465"):
            raise IrcError(f"The server refuses us: {line.param(-1)}")
        elif command == "001":
            self.nick = line.param(0) or self.nick  # it may have been cut
            if self._server.password and "sasl" not in self.capabilities:
                raise IrcError(
                    "The server has no SASL, so the account cannot be used: leave the password out,"
                    " or set server_password if it is the server's."
                )
        elif command in ("376", "422"):
            self._registered.set_result(None)

    def _negotiate(self, line: Line) -> None:
        kind = line.param(1).upper()
        if kind == "LS":
            self._offered += line.param(-1).split()
            if line.param(2) == "*" and len(line.params) > 3:
                return  # there is more to come
            offered = {name.partition("=")[0] for name in self._offered}
            wanted = offered & _CAPABILITIES
            if not self._server.password:
                wanted -= {"sasl"}
            if wanted:
                self._write(f"CAP REQ :{' '.join(sorted(wanted))}")
            else:
                self._write("CAP END")
        elif kind == "ACK":
            self.capabilities |= {name.lstrip("-~=") for name in line.param(-1).split()}
            if "sasl" in self.capabilities:
                self._write("AUTHENTICATE PLAIN")
            else:
                self._write("CAP END")
        elif kind == "NAK":
            self._write("CAP END")
