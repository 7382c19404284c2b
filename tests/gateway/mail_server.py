"""A real IMAP server, and the post that brings mail to it and takes mail from us."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import itertools
import logging
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..ports import free_port
from ..programs import find_program
from .irc_network import make_certificate

PASSWORD = "a-secret-of-the-mailbox"
AUTHSERV = "mx.test.example"
PROVED = f"Authentication-Results: {AUTHSERV}; dkim=pass header.d=people.example\n"
"""What our server writes on top of a mail of somebody there."""
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
        self.most_bytes = 32 * 1024 * 1024
        """How large a mail it takes."""
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

        # It warns of what it does itself at each login.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: SMTP(
                self, hostname="mx.test.example", authenticator=log_in, tls_context=tls,
                auth_require_tls=tls is not None, require_starttls=tls is not None, loop=loop,
                data_size_limit=self.most_bytes,
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
        mail["Date"] = fields.pop("Date", "") or format_datetime(datetime.now(UTC))
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


class Wire:
    """Between us and a server: cut, and joined again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self.waiting: set[asyncio.StreamWriter] = set()
        """Connections on which somebody waits for new mail."""
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

        def watch(data: bytes) -> None:
            if data.endswith(b" IDLE\r\n"):
                self.waiting.add(writer)
            else:
                self.waiting.discard(writer)

        try:
            with contextlib.suppress(asyncio.CancelledError):  # the loop ends
                await asyncio.gather(_pass_on(reader, out, watch), _pass_on(theirs, writer))
        finally:
            self.waiting.discard(writer)


async def _pass_on(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    watch: Callable[[bytes], None] = lambda data: None,
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            watch(data)
            writer.write(data)
    watch(b"")
    writer.close()
