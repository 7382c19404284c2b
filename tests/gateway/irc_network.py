"""A real IRC server, people on it, and something between us and it that can refuse and repeat."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.irc.adapter import IrcAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from ..ports import free_port
from ..programs import find_program
from .adapter_conformance import Place, until
from .chats import CONFIG, Chats, echo
from .irc_services import LINK_PASSWORD

_CONFIG = """\
[Global]
Name = irc.test.local
Info = a server for tests
Listen = 127.0.0.1
Ports = {port}
MotdPhrase = hello
[Limits]
MaxNickLength = 30
MaxPenaltyTime = 0
MaxConnectionsIP = 0
PingTimeout = 600
PongTimeout = 60
[Options]
DNS = no
Ident = no
PAM = no
"""
_INSPIRCD = """\
<server name="irc.test.local" description="for tests" network="Test" id="1AA">
<admin name="Nobody" nick="nobody" email="nobody@localhost">
<bind address="127.0.0.1" port="{port}" type="clients">
<bind address="127.0.0.1" port="{tls_port}" type="clients" sslprofile="own">
<bind address="127.0.0.1" port="{link_port}" type="servers">
<module name="ssl_gnutls">
<sslprofile name="own" provider="gnutls" certfile="{folder}/cert.pem" keyfile="{folder}/key.pem">
<module name="cap"><module name="ircv3"><module name="ircv3_accounttag">
<module name="ircv3_servertime"><module name="ircv3_msgid"><module name="ircv3_ctctags">
<module name="services_account"><module name="sasl"><module name="spanningtree">
<link name="services.test.local" ipaddr="127.0.0.1" port="{link_port}" allowmask="127.0.0.1"
 recvpass="{password}" sendpass="{password}">
<uline server="services.test.local" silent="yes">
<sasl target="services.test.local" requiressl="no">
<connect allow="*" timeout="60" pingfreq="600" resolvehostnames="no" useident="no"
 localmax="1000" globalmax="1000" threshold="100000" fakelag="no" commandrate="1000000"
 hardsendq="4194304" softsendq="1048576" recvq="262144">
<options casemapping="ascii" fixedpart="" splitwhois="no">
<performance quietbursts="yes" clonesonconnect="no">
<files motd="{folder}/motd">
<class name="none"><type name="none" classes="none">
"""
_TLS = """\
[SSL]
CertFile = {folder}/cert.pem
KeyFile = {folder}/key.pem
Ports = {port}
"""


class IrcServer:
    """A server on the loopback."""

    port: int
    tls_port: int
    tilde = ""
    """What stands before the names of people whose machines vouch for nothing."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        self._command = command
        self.certificate = folder / "cert.pem"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        if os.geteuid() == 0:  # it becomes another user, who reads the certificate
            for path in (self._folder, *self._folder.iterdir()):
                path.chmod(0o755)
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, cwd=self._folder
            )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.01)
        raise RuntimeError((self._folder / "output").read_text())

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
            self._process = None


class Ngircd(IrcServer):
    """A small server, without accounts."""

    tilde = "~"

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        program = find_program("ngircd", "ngircd")
        super().__init__(folder, [program, "-n", "-f", str(folder / "ngircd.conf")])
        self.port, self.tls_port = free_port(), free_port()
        config = _CONFIG.format(port=self.port)
        if tls:
            make_certificate(folder)
            config += _TLS.format(folder=folder, port=self.tls_port)
        (folder / "ngircd.conf").write_text(config)


class Inspircd(IrcServer):
    """A larger one, with IRCv3, which takes accounts from a server of services."""

    def __init__(self, folder: Path) -> None:
        program = find_program("inspircd", "inspircd")
        config = folder / "inspircd.conf"
        command = [program, f"--config={config}", "--nofork", "--nopid"]
        super().__init__(folder, [*command, *(["--runasroot"] if os.geteuid() == 0 else [])])
        self.port, self.tls_port, self.link_port = free_port(), free_port(), free_port()
        make_certificate(folder)
        (folder / "motd").write_text("hello\n")
        config.write_text(
            _INSPIRCD.format(
                folder=folder,
                port=self.port,
                tls_port=self.tls_port,
                link_port=self.link_port,
                password=LINK_PASSWORD,
            )
        )


def make_certificate(folder: Path, *more: str) -> None:
    """A certificate of its own for localhost, and for more names."""
    names = ",".join(["DNS:localhost", "IP:127.0.0.1", *(f"DNS:{name}" for name in more)])
    subprocess.run(
        [find_program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", f"subjectAltName={names}",
         "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip


class Person:
    """Somebody on IRC with a client that reads when it is asked."""

    _tokens = itertools.count(1)

    def __init__(
        self,
        server: IrcServer,
        nick: str,
        *channels: str,
        real_name: str = "",
        login: tuple[str, str] | None = None,
    ) -> None:
        """`login` is an account of the network's services, and its password."""
        self.nick = nick
        self._tilde, port = server.tilde, server.port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._buffer = b""
        self.heard: list[tuple[str, str, str]] = []
        """Who wrote, whereto, and what."""
        self._present = False
        if login is not None:
            self.write("CAP REQ :sasl")
        self.write(f"NICK {nick}", f"USER {nick} 0 * :{real_name or nick}")
        if login is not None:
            self.write("AUTHENTICATE PLAIN")
            self.read_until("AUTHENTICATE ")
            said = "\0".join(("", *login))
            self.write(f"AUTHENTICATE {base64.b64encode(said.encode()).decode()}")
            self.read_until(" 903 ")
            self.write("CAP END")
        self.read_until(" 376 ")
        for channel in channels:
            self.write(f"JOIN {channel}")
        self.settle()

    @property
    def mask(self) -> str:
        """By what a server without accounts knows them."""
        return f"{self.nick}!{self._tilde}{self.nick}@127.0.0.1".lower()

    def write(self, *lines: str) -> None:
        self._socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def say(self, target: str, text: str) -> None:
        self.write(f"PRIVMSG {target} :{text}")

    def settle(self) -> None:
        """Read everything that the server has for us by now."""
        token = f"t{next(self._tokens)}"
        self.write(f"PING {token}")
        self.read_until(f"{token}\r\n")

    def read_until(self, mark: str) -> None:
        while True:
            while b"\r\n" in self._buffer:
                raw, self._buffer = self._buffer.split(b"\r\n", 1)
                line = raw.decode()
                if line.startswith("PING "):
                    self.write(f"PONG {line[5:]}")
                prefix, _, rest = line.partition(" ")
                if rest.startswith("303 "):
                    self._present = bool(rest.partition(" :")[2].strip())
                if rest.startswith(("PRIVMSG ", "NOTICE ")) and "!" in prefix:
                    target, _, text = rest.partition(" ")[2].partition(" :")
                    self.heard.append((prefix[1:].partition("!")[0], target, text))
                if mark in f"{line}\r\n":
                    return
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionError("the server has closed")
            self._buffer += data

    def sees(self, nick: str) -> bool:
        """Whether somebody is connected."""
        self.write(f"ISON {nick}")
        self.settle()
        return self._present

    def texts(self, by: str = "hermes", to: str | None = None) -> list[str]:
        """What somebody wrote to us, or into a channel."""
        self.settle()
        whereto = (to or self.nick).lower()
        return [text for who, target, text in self.heard
                if who == by and target.lower() == whereto]  # fmt: skip

    async def wait_for(
        self, fits: Callable[[list[str]], bool], by: str = "hermes", to: str | None = None
    ) -> list[str]:
        """Wait until what was written is as it should be."""
        async with asyncio.timeout(60):
            while not fits(texts := self.texts(by, to)):
                await asyncio.sleep(0.01)
        return texts

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the server may have closed it
            self.write("QUIT")
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked child may hold it too
        self._socket.close()


class Between:
    """Passes lines on between us and the server; refuses some of ours, and repeats some of its."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self.refusals: list[str] = []
        """What the next text of ours is answered with, instead of being passed on."""
        self.groups: list[tuple[str, int]] = []
        """To whom each text of ours went that was passed on, and how many lines it had."""
        self.to_us: list[bytes] = []
        self._lines = 0
        self._target = ""
        self._is_refused = False
        self._ids = itertools.count(1)
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.is_deaf = False
        """Whether nobody tells us that a text of ours was shown."""

    async def __aenter__(self) -> Between:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def come_back(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def go_away(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, out = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, out]
        try:
            await asyncio.gather(self._ours(reader, out, writer), self._back(theirs, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass  # one of the two was killed, or we are closing
        finally:
            writer.close()
            out.close()

    async def _ours(
        self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        while data := await reader.readline():
            if data.startswith(b"PRIVMSG "):
                if self.refusals and not self._is_refused:
                    self._is_refused = True
                    target = data.split(b" ")[1]
                    back.write(self.refusals[0].encode().replace(b"TARGET", target) + b"\r\n")
                if self._is_refused:
                    continue
                self._lines += 1
                self._target = data.split(b" ")[1].decode().lower()
            elif data.startswith(b"PING :hermes-"):
                if self.is_deaf and self._lines:
                    continue
                if self._is_refused:
                    self._is_refused = False
                    del self.refusals[0]
                elif self._lines:
                    self.groups.append((self._target, self._lines))
                self._lines = 0
            out.write(data)
        out.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.readline():
            if b" PRIVMSG " in data[:200]:
                if not data.startswith(b"@"):  # the server has ids of its own
                    data = b"@msgid=m%d " % next(self._ids) + data
                self.to_us.append(data)
            writer.write(data)
        writer.close()

    def repeat(self, number: int) -> None:
        """Give us a line again that we had."""
        self._writers[-2].write(self.to_us[number])


def _as_line(text: str) -> str:
    """A text as a client can send it: without what ends a line, and no longer than one."""
    return re.sub(r"[\r\n\0]+", " ", text).encode()[:400].decode(errors="ignore")


class IrcPlace(Place):
    """A direct chat on the server, and as many others as are wanted."""

    adapter: IrcAdapter
    keeps_for_later = False
    crowd = 30
    lacks: ClassVar = {
        "person_edits": "what was said stays",
        "person_sends": "there are no files",
        "we_are_removed": "nobody is thrown out of a direct chat",
        "chat_is_deleted": "an answer waits until its person is there again",
    }

    def __init__(self, between: Between, server: IrcServer) -> None:
        self._between, self._server = between, server
        self._ann = Person(server, "ann")
        self._others: dict[int, Person] = {}
        self.chat_id = self.user_id = self._ann.mask
        extra = settings(between.port, max_lines=100_000)
        self.adapter = IrcAdapter(PlatformConfig(enabled=True, extra=extra), _ignore)
        self._said = 0

    async def person_says(self, text: str) -> Any:
        self._ann.say("hermes", _as_line(text))
        self._ann.settle()
        self._said += 1
        return self._said

    async def delivered_again(self, said: Any) -> None:
        await until(lambda: len(self._between.to_us) >= said)
        self._between.repeat(said - 1)

    def acknowledged(self, said: Any) -> bool:
        return self.adapter.inbound.taken >= int(said)

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        return self._texts_of(self._ann)

    def _texts_of(self, person: Person) -> list[str]:
        person.settle()
        lines = iter([text for who, target, text in person.heard
                      if (who, target) == ("hermes", person.nick)])  # fmt: skip
        groups = [count for nick, count in self._between.groups if nick == person.nick.lower()]
        return ["\n".join(itertools.islice(lines, count)) for count in groups]

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        if permanent:
            self._between.refusals.append(":x 404 hermes TARGET :Cannot send to channel")
        else:
            wait = (
                f":x 439 hermes TARGET :Target change too fast. Please wait {retry_after} seconds"
            )
            self._between.refusals.append(wait)

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        if number not in self._others:
            real_name = _as_line(name)
            self._others[number] = Person(self._server, f"p{number}", real_name=real_name)
        self._others[number].say("hermes", text)
        return self._others[number].mask

    def texts_in(self, chat_id: str) -> list[str]:
        return self._texts_of(next(one for one in self._others.values() if one.mask == chat_id))

    async def go_away(self) -> None:
        await self._between.go_away()

    async def come_back(self) -> None:
        await self._between.come_back()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, IrcAdapter)
        self.adapter = adapter
        await until(lambda: self._ann.sees("hermes"))

    async def is_there(self, home: Path) -> None:
        await until(lambda: self._ann.sees("hermes"))

    async def is_deserted(self) -> None:
        await until(lambda: not self._ann.sees("hermes"))

    def close(self) -> None:
        for person in (self._ann, *self._others.values()):
            person.close()


def settings(port: int, **more: Any) -> dict[str, Any]:
    """The section of a platform on a server without TLS, services and pace."""
    return {
        "server": f"127.0.0.1:{port}", "tls": False, "nick": "hermes",
        "require_account": False, "line_interval": 0, **more,
    }  # fmt: skip


@asynccontextmanager
async def running(
    home: Path,
    port: int,
    allowed: Iterable[str] = (),
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    extra: dict[str, Any] | None = None,
    **more: Any,
) -> AsyncIterator[Chats]:
    """A gateway with one nickname, stopped at the end; again with the same home, a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    irc = PlatformConfig(
        enabled=True, allowed_users=tuple(allowed), extra=settings(port, **(extra or {}))
    )
    config = GatewayConfig(platforms={Platform.IRC: irc}, **{"drain_timeout": 5.0, **more})
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


async def _ignore(event: MessageEvent) -> None:
    """Takes everything."""
