"""A real IMAP server, the post that brings mail to it, and people who write."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import grp
import itertools
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.host import StandaloneHost
from gateway.platforms.mail.adapter import MailAdapter
from gateway.platforms.mail.reader import Reader
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from ..ports import free_port
from ..programs import find_program
from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .irc_network import make_certificate

PASSWORD = "a-secret-of-the-mailbox"
AUTHSERV = "mx.test.example"
_CONFIG = """\
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
listen = 127.0.0.1
disable_plaintext_auth = no
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 1
auth_failure_delay = 0
mail_location = maildir:{folder}/mail/%u
mail_max_userip_connections = 1000
mailbox_idle_check_interval = 1 secs
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    special_use = \\Sent
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  service_count = 0
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
"""
_names = itertools.count(1)


class Dovecot:
    """The server, on the loopback, as an ordinary user; every user's password is the same."""

    def __init__(self) -> None:
        self._program = find_program("dovecot", "dovecot-imapd")
        # Not the folder of the tests: the user that it runs as could not come there.
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-dovecot-"))
        self.port, self.tls_port = free_port(), free_port()
        self._user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "nobody"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        make_certificate(self.folder)
        group = grp.getgrgid(pwd.getpwnam(self._user).pw_gid).gr_name
        config = _CONFIG.format(
            folder=self.folder, user=self._user, group=group, password=PASSWORD,
            port=self.port, tls_port=self.tls_port,
        )  # fmt: skip
        (self.folder / "dovecot.conf").write_text(config)
        for name in ("mail", "run"):
            (self.folder / name).mkdir()
        self.own(self.folder)
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            as_user = {"user": self._user, "group": group, "extra_groups": []}
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, "-F", "-c", str(self.folder / "dovecot.conf")],
                stdout=output, stderr=output, **as_user,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.01)
        raise RuntimeError((self.folder / "output").read_text())

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def own(self, folder: Path) -> None:
        """Give a folder to the user that the server runs as."""
        if os.geteuid() == 0:
            entry = pwd.getpwnam(self._user)
            for path in (folder, *folder.rglob("*")):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def new_mailbox(self) -> Maildir:
        """A mailbox that nobody has used."""
        return Maildir(self, f"hermes{next(_names)}@test.example")


class Maildir:
    """One user's mail, as files."""

    def __init__(self, server: Dovecot, address: str) -> None:
        self.server = server
        self.address = address
        self.folder = server.folder / "mail" / address
        self._count = itertools.count(1)
        for name in ("new", "cur", "tmp"):
            (self.folder / name).mkdir(parents=True, mode=0o700)
        server.own(self.folder)

    def deliver(self, mail: bytes, folder: str = "") -> None:
        """Put a mail there, as the post does."""
        place = self.folder / (f".{folder}" if folder else "")
        if not place.exists():
            for name in ("new", "cur", "tmp"):
                (place / name).mkdir(parents=True, mode=0o700)
            self.server.own(place)
        name = f"{time.time():.6f}.{os.getpid()}_{next(self._count):06}.test"
        partial = place / "tmp" / name
        partial.write_bytes(mail)
        partial.chmod(0o644)
        self.server.own(partial)
        partial.rename(place / "new" / name)

    def mails(self, folder: str = "") -> list[EmailMessage]:
        """What lies there, in the order in which it came."""
        return [_read(path.read_bytes()) for path in self._files(folder)]

    def flags(self) -> list[str]:
        """How each mail is marked; S is read."""
        return [path.name.partition(":2,")[2] for path in self._files("")]

    def _files(self, folder: str) -> list[Path]:
        place = self.folder / (f".{folder}" if folder else "")
        found = [path for name in ("new", "cur") for path in (place / name).glob("*")]
        return sorted(found, key=lambda path: path.name)

    def number_anew(self) -> None:
        """The folder has another UIDVALIDITY, and other numbers for its mails."""
        for path in self.folder.glob("dovecot*"):
            if path.name == "dovecot-uidlist":
                lines = path.read_text().split("\n")
                lines[0] = re.sub(r"V\d+", f"V{int(time.time()) + 1000 + next(_names)}", lines[0])
                path.write_text("\n".join([re.sub(r"N\d+", "N1", lines[0]), ""]))
            else:
                path.unlink()


class Post:
    """An SMTP server, as a handler of aiosmtpd: ours for Hermes, and theirs for people."""

    def __init__(self, mailbox: Maildir) -> None:
        self.mailbox = mailbox
        self.sent: list[tuple[str, EmailMessage]] = []
        """What went out: to whom, and what."""
        self.refusals: list[str] = []
        """What the next mails are answered with, instead of being taken."""
        self.keeps_sent = False
        """Whether it puts what it sends into the folder of sent mail."""
        self.hangs_up: list[bool] = []
        """For each next mail: whether it is sent all the same when the connection breaks."""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._context: ssl.SSLContext | None = None
        self.logins: list[str] = []
        self.gone: set[str] = set()
        """People who have no mailbox any more."""
        self.written: list[bytes] = []
        """What people wrote, as it arrived."""
        self._open: set[Any] = set()
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Post:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def come_back(self, tls: ssl.SSLContext | None = None) -> None:
        from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

        def log_in(server: Any, session: Any, envelope: Any, how: str, data: Any) -> AuthResult:
            assert isinstance(data, LoginPassword)
            self.logins.append(data.login.decode())
            return AuthResult(success=data.password == PASSWORD.encode())

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: SMTP(
                self, hostname="mx.test.example", authenticator=log_in, tls_context=tls,
                auth_require_tls=tls is not None, require_starttls=tls is not None, loop=loop,
            ),
            "127.0.0.1", self.port,
        )  # fmt: skip
        self.port = self._server.sockets[0].getsockname()[1]

    async def go_away(self) -> None:
        assert self._server is not None
        self._server.close()
        for server in self._open:
            if server.transport is not None:
                server.transport.abort()
        self._open.clear()

    async def handle_EHLO(
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        self._open.add(server)
        return responses

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.gone:
            return "550 5.1.1 No such person"
        if self.refusals and self.refusals[0].startswith("550"):
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refusals:
            return self.refusals.pop(0)
        is_lost = self.hangs_up.pop(0) if self.hangs_up else None
        if is_lost is not False:
            data = envelope.original_content or envelope.content
            for address in envelope.rcpt_tos:
                self.sent.append((address, _read(data)))
            if self.keeps_sent:
                self.mailbox.deliver(data, "Sent")
        if is_lost is not None:
            session.transport = None
            server.transport.abort()
        return "250 taken"

    # People

    def write(
        self,
        text: str,
        sender: str = "ann@people.example",
        *,
        subject: str = "",
        answers: EmailMessage | None = None,
        proved: bool = True,
        html: str | None = None,
        files: Iterable[tuple[str, bytes]] = (),
        **fields: str,
    ) -> EmailMessage:
        """Somebody writes to Hermes; `answers` is what they answer. Returns their mail."""
        mail = EmailMessage(policy=policy.SMTP)
        mail["To"] = self.mailbox.address
        mail["Date"] = format_datetime(datetime.now(UTC))
        mail["Message-ID"] = f"<{next(self._ids)}.{time.monotonic_ns()}@people.example>"
        if answers is not None:
            subject = subject or f"Re: {answers['Subject'] or ''}".strip()
            known = str(answers["References"] or "").split()
            mail["In-Reply-To"] = str(answers["Message-ID"])
            mail["References"] = " ".join([*known, str(answers["Message-ID"])])
        if subject:
            mail["Subject"] = subject
        for name, value in fields.items():
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        if html is not None:
            mail.add_alternative(html, subtype="html")
        for name, data in files:
            mail.add_attachment(data, "application", "octet-stream", filename=name)
        domain = sender.rpartition("@")[2].rstrip(">")
        head = f"Return-Path: <{sender.rpartition('<')[2].rstrip('>')}>\r\n"
        if proved:
            head += f"Authentication-Results: {AUTHSERV};\r\n dkim=pass header.d={domain}\r\n"
        # As it is given: names are encoded, and may say anything.
        self.written.append(f"{head}From: {sender}\r\n".encode() + mail.as_bytes())
        self.deliver(self.written[-1])
        return mail

    def deliver(self, mail: bytes) -> None:
        """A mail arrives as it is."""
        self.mailbox.deliver(mail)

    def to(self, person: str = "ann@people.example") -> list[EmailMessage]:
        """What somebody got of Hermes."""
        return [mail for address, mail in self.sent if address == person]

    def texts(self, person: str = "ann@people.example") -> list[str]:
        """What that says, as plain text."""
        return [plain(mail) for mail in self.to(person)]

    async def until(self, fits: Callable[[], Any], seconds: float = 60.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds):
            while not fits():
                await asyncio.sleep(0.005)


@lru_cache(maxsize=1000)
def plain(mail: EmailMessage) -> str:
    """The text of a mail, or the names of its files."""
    body = mail.get_body(("plain",))
    return str(body.get_content()).replace("\r\n", "\n").strip() if body is not None else ""


def _read(data: bytes) -> EmailMessage:
    return message_from_bytes(data, policy=policy.default)  # type: ignore[arg-type, return-value]


def section(post: Post, **more: Any) -> dict[str, Any]:
    """The section of the platform, as it points to the servers here."""
    return {
        "address": post.mailbox.address,
        "password": PASSWORD,
        "imap_host": f"127.0.0.1:{post.mailbox.server.port}",
        "smtp_host": f"127.0.0.1:{post.port}",
        "tls": False,
        "authserv_id": AUTHSERV,
        **more,
    }


@asynccontextmanager
async def mail_gateway(
    home: Path,
    post: Post,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allowed: Iterable[str] = ("ann@people.example",),
    allow_all: bool = False,
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(
        enabled=True, allow_all=allow_all, allowed_users=tuple(allowed),
        extra=section(post, **(extra or {})),
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.EMAIL: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await post.until(lambda: is_reading(runner))
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


def is_reading(runner: GatewayRunner) -> bool:
    """Whether the mailbox is connected, and read from a known place on."""
    adapter: Any = runner.adapters.get(Platform.EMAIL)
    return adapter is not None and bool(adapter.reader.place.validity)


def reader_of(chats: Chats) -> Reader:
    """What reads the mailbox."""
    adapter = chats.runner.adapters[Platform.EMAIL]
    assert isinstance(adapter, MailAdapter)
    return adapter.reader


def quote(mail: EmailMessage) -> str:
    """A mail as a program puts it below an answer."""
    lines = plain(mail).split("\n")
    return "\n".join(["On Monday, Hermes wrote:", "", *(f"> {line}" for line in lines)])


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


PROVED = f"Authentication-Results: {AUTHSERV}; dkim=pass header.d=people.example\n"
"""What our server writes on top of a mail of somebody there."""


class Wire:
    """Between us and a server: cut, and joined again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Wire:
        await self.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def join(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, out = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, out]
        await asyncio.gather(_pass_on(reader, out), _pass_on(theirs, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


class MailPlace(Place):
    """A thread between a person and us."""

    adapter: MailAdapter
    chat_id = user_id = "ann@people.example"
    lacks: ClassVar[Mapping[str, str]] = {
        "person_edits": "a mail that was sent stays as it is",
        "we_are_removed": "nobody is thrown out of a thread",
    }

    def __init__(self, post: Post, wire: Wire, home: Path) -> None:
        self.post = post
        self._wire = wire
        given = section(post, imap_host=f"127.0.0.1:{wire.port}")
        config = PlatformConfig(enabled=True, allow_all=True, extra=given)
        self.adapter = MailAdapter(config, StandaloneHost(config, ignore, home))
        self._said = 0
        self._is_there = False
        """Whether a gateway of another process reads."""

    async def person_says(self, text: str) -> Any:
        await self._write(text, self.chat_id)
        return self._said

    async def _write(self, text: str, sender: str, **more: Any) -> None:
        await self.post.until(lambda: self._is_there or self.adapter.reader.place.validity)
        thread = f"<thread.of.{sender.partition('<')[2] or sender}".rstrip(">") + ">"
        self.post.write(text, sender, In_Reply_To=thread, References=thread, **more)
        self._said += 1

    async def delivered_again(self, said: Any) -> None:
        mail = self.post.written[int(said) - 1]
        self.post.deliver(mail)
        self.post.written.append(mail)
        self._said += 1

    async def person_sends(self, name: str, data: bytes) -> None:
        await self._write("", self.chat_id, files=[(name, data)])

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        address = f"person{number}@people.example"
        shown = f"=?utf-8?b?{base64.b64encode(name.encode()).decode()}?="
        await self._write(text, f"{shown} <{address}>" if name else address)
        return address

    def texts_in(self, chat_id: str) -> list[str]:
        return self.post.texts(chat_id)

    async def chat_is_deleted(self) -> None:
        self.post.gone.add(self.chat_id)

    async def go_away(self) -> None:
        await self._wire.cut()
        await self.post.go_away()

    async def come_back(self) -> None:
        await self.post.come_back()
        await self._wire.join()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, MailAdapter)
        self.adapter = adapter
        await self.post.until(lambda: adapter.reader.place.validity)

    async def is_there(self, home: Path) -> None:
        await self.post.until((home / "gateway" / "email-place.json").exists)
        self._is_there = True

    def acknowledged(self, said: Any) -> bool:
        return self.adapter.reader.place.uid >= int(said)

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        return self.post.texts(self.chat_id)

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        busy = f"451 4.7.1 Greylisted, try again in {retry_after} seconds"
        self.post.refusals.append("550 5.1.1 No such person" if permanent else busy)
