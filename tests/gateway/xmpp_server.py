"""A real XMPP server, people on it, and something between us and it that can break."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import socket
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from ..ports import free_port
from ..programs import find_program
from .irc_network import make_certificate
from .loopback import LoopbackServer, Request, Response

PASSWORD = "only on the loopback"
ROOMS, MASKS = "rooms.localhost", "masks.localhost"
"""Where rooms show addresses and keep what is said; where they do neither."""
_numbers = itertools.count(1)
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_CONFIG = """\
pidfile = "{folder}/pid"
run_as_root = true
data_path = "{folder}/data"
plugin_paths = {{ "{folder}/modules" }}
log = {{ {{ levels = {{ min = "info" }}; to = "file"; filename = "{folder}/log" }} }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {tls_port} }}
http_ports = {{}}
https_ports = {{ {https_port} }}
s2s_ports = {{}}
modules_disabled = {{ "s2s" }}
modules_enabled = {{ "roster"; "saslauth"; "tls"; "disco"; "ping"; "smacks"; "mam"; "carbons";
  "offline"; "pep"; "blocklist"; "hermes_faults" }}
authentication = "internal_plain"
storage = "internal"
c2s_require_encryption = true
ssl = {{ key = "{folder}/key.pem"; certificate = "{folder}/cert.pem" }}
https_ssl = {{ key = "{folder}/key.pem"; certificate = "{folder}/cert.pem" }}
faults = "{folder}/faults"
VirtualHost "localhost"
Component "{rooms}" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_default_public_jids = true
  muc_room_locking = false
  muc_log_expires_after = "never"
Component "{masks}" "muc"
  muc_room_locking = false
Component "files.localhost" "http_file_share"
  http_host = "localhost"
  http_external_url = "https://localhost:{https_port}/"
  http_file_share_size_limit = 100000
VirtualHost "quiet.localhost"
  modules_disabled = {{ "mam"; "smacks"; "s2s" }}
"""
_FAULTS = """\
-- Refuses what an account sends next, as a file of its name says: type, condition, text.
local st = require "util.stanza";
local folder = module:get_option_string("faults");
local function refuse(event)
  local stanza, origin = event.stanza, event.origin;
  if not origin.username or not stanza:get_child("body") then return; end
  local path = folder .. "/" .. origin.username;
  local file = io.open(path);
  if not file then return; end
  local kind, condition, text = file:read("*l", "*l", "*l");
  file:close();
  os.remove(path);
  origin.send(st.error_reply(stanza, kind, condition, text));
  return true;
end
module:hook("pre-message/bare", refuse, 1000);
module:hook("pre-message/full", refuse, 1000);
"""


class Prosody:
    """The server, on the loopback."""

    def __init__(self, folder: Path) -> None:
        self._program = find_program("prosody", "prosody")
        self._folder = folder
        self.port, self.tls_port, self.https_port = free_port(), free_port(), free_port()
        for name in ("data", "modules", "faults"):
            (folder / name).mkdir()
        make_certificate(folder, "quiet.localhost")
        self.certificate = folder / "cert.pem"
        (folder / "modules" / "mod_hermes_faults.lua").write_text(_FAULTS)
        config = _CONFIG.format(
            folder=folder, port=self.port, tls_port=self.tls_port, https_port=self.https_port,
            rooms=ROOMS, masks=MASKS,
        )  # fmt: skip
        (folder / "prosody.cfg.lua").write_text(config)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, "-F", "--config", str(self._folder / "prosody.cfg.lua")],
                stdout=output, stderr=output, cwd=self._folder,
                env={**os.environ, "LANG": "C.UTF-8"},
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.https_port)),
                socket.create_connection(("127.0.0.1", self.port)),
            ):
                return
            time.sleep(0.01)
        raise RuntimeError((self._folder / "output").read_text())

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
            self._process = None

    def add_account(self, name: str = "", host: str = "localhost") -> str:
        """A new account; returns its address."""
        jid = f"{name or 'person'}{next(_numbers)}-{os.getpid()}@{host}"
        self._account(jid).write_text(f'return {{ ["password"] = "{PASSWORD}"; }};\n')
        return jid

    def remove_account(self, jid: str) -> None:
        """An account is no more."""
        self._account(jid).unlink()

    def _account(self, jid: str) -> Path:
        name, _, host = jid.partition("@")
        folder = self._folder / "data" / host.replace(".", "%2e") / "accounts"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name.replace('-', '%2d')}.dat"

    def refuse_next(self, jid: str, kind: str, condition: str, text: str = "") -> None:
        """The next text of an account is answered with an error."""
        path = self._folder / "faults" / jid.partition("@")[0]
        path.write_text(f"{kind}\n{condition}\n{text}\n")

    def section(self, account: str, **more: Any) -> dict[str, Any]:
        """The adapter's section for an account."""
        section = {"jid": account, "password": PASSWORD, "server": f"127.0.0.1:{self.port}"}
        return {**section, "ca_file": str(self.certificate), **more}

    def room(self, name: str = "garden", host: str = ROOMS) -> str:
        """The address of a room that nobody was in yet."""
        return f"{name}{next(_numbers)}-{os.getpid()}@{host}"


class Files(LoopbackServer):
    """A place on the web: gives what was put there, by path."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, bytes] = {}

    async def answer(self, request: Request) -> Response:
        """A file."""
        data = self.kept.get(request.path)
        return Response(404 if data is None else 200, data or b"", "application/octet-stream")

    def put(self, name: str, data: bytes) -> str:
        """Keep a file; returns its address."""
        path = f"/{quote(name, safe='')}"
        self.kept[path] = data
        return f"{self.url}{path}"


class Person:
    """Somebody with slixmpp, who hears everything."""

    def __init__(self, server: Prosody, jid: str, port: int = 0) -> None:
        from slixmpp import ClientXMPP
        from slixmpp.xmlstream.handler import Callback
        from slixmpp.xmlstream.matcher import MatchXPath

        self.jid = jid
        self.nick = jid.partition("@")[0]
        trust = ssl.create_default_context(cafile=str(server.certificate))
        self._xmpp = xmpp = ClientXMPP(f"{jid}/phone", PASSWORD, ssl_context=trust)
        xmpp.enable_direct_tls = False
        xmpp.auto_authorize = xmpp.auto_subscribe = True
        xmpp.register_plugin("xep_0199")
        self._port = port or server.port
        self.messages: list[ET.Element] = []
        self.presences: list[ET.Element] = []
        for tag, found in (("message", self.messages), ("presence", self.presences)):
            xmpp.register_handler(
                Callback(
                    f"test {tag}", MatchXPath(f"{{jabber:client}}{tag}"),
                    lambda stanza, found=found: found.append(stanza.xml), instream=True,
                )
            )  # fmt: skip

    async def __aenter__(self) -> Person:
        started = asyncio.get_running_loop().create_future()
        self._xmpp.add_event_handler("session_start", started.set_result)
        self._xmpp.connect("127.0.0.1", self._port)
        async with asyncio.timeout(30):
            await started
        self._xmpp.send_presence()
        await self.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        leaving = self._xmpp.disconnect(wait=1.0)
        if leaving is not None:
            await leaving
        assert self._xmpp._run_out_filters is not None
        self._xmpp._run_out_filters.cancel()

    async def settle(self) -> None:
        """Until the server has dealt with all we have sent."""
        await self._xmpp.plugin["xep_0199"].send_ping("localhost", timeout=30)

    async def join(self, room: str, nick: str = "") -> None:
        """Enter a room."""
        nick = nick or self.nick
        self.post(
            f"<presence xmlns='jabber:client' to='{room}/{nick}'>"
            "<x xmlns='http://jabber.org/protocol/muc'/></presence>"
        )
        await self.until(
            lambda: any(
                one.get("from") == f"{room}/{nick}" and 'code="110"' in ET.tostring(one).decode()
                for one in self.presences
            )
        )

    def post(self, xml: str) -> None:
        """Send any stanza."""
        self._xmpp.send_raw(xml)

    async def say(
        self, to: str, text: str, *, name: str = "", kind: str = "chat", more: str = ""
    ) -> str:
        """Write to somebody, or into a room; returns the id of the message."""
        name = self.write(to, text, name=name, kind=kind, more=more)
        await self.settle()
        return name

    def write(
        self, to: str, text: str, *, name: str = "", kind: str = "chat", more: str = ""
    ) -> str:
        """The same, without waiting until the server has it."""
        name = name or str(uuid.uuid4())
        kind = "groupchat" if to.endswith((f"@{ROOMS}", f"@{MASKS}")) else kind
        body = f"<body>{escape(_NO_XML.sub('', text))}</body>" if text else ""
        self.post(
            f"<message xmlns='jabber:client' to='{to}' type='{kind}' id='{name}'>{body}{more}"
            "<request xmlns='urn:xmpp:receipts'/></message>"
        )
        return name

    async def sees(self, jid: str) -> bool:
        """Whether a client of somebody is connected."""
        from slixmpp.exceptions import IqError

        try:
            await self._xmpp.plugin["xep_0199"].send_ping(jid, timeout=30)
        except IqError:
            return False
        return True

    async def block(self, jid: str) -> None:
        """Have the server refuse what somebody writes to us (XEP-0191)."""
        iq = self._xmpp.make_iq_set(ito=self.jid)
        block = ET.Element("{urn:xmpp:blocking}block")
        ET.SubElement(block, "{urn:xmpp:blocking}item", jid=jid)
        iq.append(block)
        await iq.send()

    def texts(self, of: str) -> list[str]:
        """What somebody has written to us, or in a room somebody's room address, as it is shown:
        corrected."""
        shown: dict[str, str] = {}
        for xml in self.messages:
            body = xml.findtext("{jabber:client}body")
            sender = xml.get("from", "")
            if body is None or xml.get("type") == "error":
                continue
            if of not in (sender, sender.partition("/")[0]):
                continue
            replace = xml.find("{urn:xmpp:message-correct:0}replace")
            name = replace.get("id", "") if replace is not None else xml.get("id", "")
            shown[name] = body
        return list(shown.values())

    def receipts(self) -> set[str]:
        """Which of our messages somebody has."""
        tag = "{urn:xmpp:receipts}received"
        return {one.get("id", "") for xml in self.messages for one in xml.iterfind(tag)}

    async def until(self, fits: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds):
            while not fits():
                await asyncio.sleep(0.005)

    async def wait_for(self, count: int, of: str) -> list[str]:
        """Wait until somebody has written so many texts."""
        await self.until(lambda: len(self.texts(of)) >= count)
        return self.texts(of)


class Wire:
    """Passes bytes on between us and the server, until it is cut; or only those of ours."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.port = 0
        self.is_deaf = False
        """Whether nothing of the server's comes through."""
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.connections = 0

    async def __aenter__(self) -> Wire:
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def mend(self) -> None:
        """Let connections through."""
        self.is_deaf = False
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break every connection, and let none through."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        theirs, out = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(out)
        self.connections += 1

        async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65_536):
                    if not (self.is_deaf and to is writer):
                        to.write(data)
            except OSError:
                pass  # cut, or killed
            finally:
                to.close()

        await asyncio.gather(pass_on(reader, out), pass_on(theirs, writer))
