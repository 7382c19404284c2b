"""One connection to an XMPP server, through slixmpp: made once, and not again when it is broken.

A server deals with what a client sends in order. So a request behind a message is answered after
the message was passed on or refused: `tell` returns when it is. What comes in is handed to
`on_stanza` in the order in which it came, with its number in the stream: the server is told (by
stream management, XEP-0198) that a message has arrived only when `settle` says that it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree as ET

from tools.extras import install_hint

from . import stanzas
from .stanzas import CLIENT, STANZAS, element

if TYPE_CHECKING:
    from slixmpp import ClientXMPP

log = logging.getLogger(__name__)

CONNECT_SECONDS = 25.0
REPLY_SECONDS = 30.0
CLOSE_SECONDS = 2.0
RESOURCE = "hermes"
"""The same each time: a connection that is left over gives way to the new one."""
FEATURES = (stanzas.CORRECT, stanzas.RECEIPTS, stanzas.STATES, stanzas.CONFERENCE, stanzas.OOB)
DIRECT_TLS_PORT = 5223
_SECONDS = re.compile(r"(\d{1,4}) ?s")


class XmppError(ConnectionError):
    """The account cannot be used; the message says what to change."""


class BrokenError(ConnectionError):
    """The connection broke, or nobody answers; `unsure`: something may have been shown."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class RefusedError(Exception):
    """Somebody answers with an error (RFC 6120, 8.3)."""

    def __init__(self, kind: str, condition: str, text: str = "") -> None:
        super().__init__(f"{condition}{': ' if text else ''}{text}")
        self.kind = kind
        """auth, cancel, continue, modify or wait."""
        self.condition = condition
        wished = _SECONDS.search(text) if kind == "wait" else None
        self.retry_after = float(wished[1]) if wished else None


@dataclass(frozen=True, slots=True)
class Login:
    """Where to connect, and as whom."""

    jid: str
    password: str = field(repr=False)
    host: str = ""
    """Empty: what DNS says of the account's domain."""
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def domain(self) -> str:
        """The server of the account."""
        return self.jid.rpartition("@")[2]


@dataclass(slots=True)
class Arrival:
    """A message that has come in, until it is stored."""

    number: int
    """Its place in the stream."""
    is_settled: bool = False


class Client:
    """A connection."""

    def __init__(self, login: Login, on_stanza: Callable[[ET.Element, Arrival], None]) -> None:
        self._login = login
        self._on_stanza = on_stanza
        self._xmpp: ClientXMPP | None = None
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What broke the connection."""
        self._awaited: dict[str, asyncio.Future[ET.Element | None]] = {}
        """For each message whose fate is awaited: its error, or its echo from a room."""
        self._pages: dict[str, tuple[str, list[ET.Element]]] = {}
        """What archives have sent by now: for each query whose archive it is, and the messages."""
        self._arrivals: list[Arrival] = []
        self._is_asked_late = False
        """Whether the server was told of fewer messages than have come."""

    @property
    def is_connected(self) -> bool:
        """Whether it can be sent to."""
        return self._xmpp is not None and not self._gone.done()

    @property
    def is_managed(self) -> bool:
        """Whether the server counts what we have (XEP-0198)."""
        return self._xmpp is not None and "stream_management" in self._xmpp.features

    async def open(self) -> None:
        """Connect and log in; raises XmppError where that is refused, ConnectionError where nobody
        is."""
        self._xmpp = xmpp = self._new()
        login = self._login
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        problems: list[str] = []

        def fail(error: Exception) -> None:
            if not started.done():
                started.set_exception(error)

        def on_start(_: Any) -> None:
            if not started.done():
                started.set_result(None)

        def on_refusal(_: Any) -> None:
            reason = "the server does not accept the account's password"
            if login.tls is not None and not _is_encrypted(xmpp):
                reason = "the server offers no TLS"
            fail(XmppError(f"XMPP: {reason} ({login.jid})"))

        def on_nobody(_: Any) -> None:
            reason = problems[-1] if problems else "no answer"
            fail(ConnectionError(f"{login.host or login.domain} cannot be reached: {reason}"))

        def on_negotiated(_: Any) -> None:
            if not xmpp.authenticated:  # nothing that it offers is for us
                what = "no way to log in" if login.tls is not None else "no way but with TLS"
                fail(XmppError(f"XMPP: the server of {login.jid} offers {what}"))

        handlers = {
            "session_start": on_start,
            "stream_negotiated": on_negotiated,
            "failed_all_auth": on_refusal,
            "connection_failed": lambda error: problems.append(str(error) or type(error).__name__),
            "reconnect_delay": on_nobody,  # it has tried everything once
            "ssl_invalid_chain": lambda error: fail(
                ConnectionError(f"The certificate of {login.domain} is not trusted: {error}")
            ),
            "disconnected": self._on_disconnected,
        }
        for name, handler in handlers.items():
            xmpp.add_event_handler(name, handler)
        xmpp.connect(*((login.host, login.port) if login.host else ()))
        either: list[asyncio.Future[Any]] = [started, self._gone]
        await asyncio.wait(either, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            fail(ConnectionError(f"{login.domain}: {self.broken_by or 'no answer'}"))
        started.result()
        if login.tls is not None and not _is_encrypted(xmpp):
            raise XmppError(f"XMPP: the server of {login.jid} offers no TLS")

    def _new(self) -> ClientXMPP:
        try:
            from slixmpp import ClientXMPP
            from slixmpp.xmlstream.handler import Callback
            from slixmpp.xmlstream.matcher import MatchXPath
        except ImportError as error:
            raise XmppError(f"XMPP needs slixmpp. Run: {install_hint('xmpp')}") from error
        logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # what it tells, we tell
        login = self._login
        xmpp = ClientXMPP(
            f"{login.jid}/{RESOURCE}", login.password, ssl_context=login.tls or _no_tls()
        )
        xmpp.enable_direct_tls = login.tls is not None and login.port in (0, DIRECT_TLS_PORT)
        xmpp.enable_starttls = login.tls is not None
        xmpp.enable_plaintext = login.tls is None
        xmpp.max_redirects = 0  # it would be followed without a look at where it leads
        xmpp.auto_authorize = None
        xmpp.auto_subscribe = False
        xmpp.whitespace_keepalive = False
        for name in ("xep_0030", "xep_0198", "xep_0199"):
            xmpp.register_plugin(name)
        if login.tls is None:
            xmpp.plugin["feature_mechanisms"].unencrypted_scram = True
        sm = xmpp.plugin["xep_0198"]
        # What was missed is in the archive; a stream that is not resumed is not waited for.
        sm.allow_resume = False
        setattr(sm, "send_ack", self._acknowledge)  # noqa: B010 - a method of its class
        disco = xmpp.plugin["xep_0030"]
        disco.add_identity(category="client", itype="bot", name="Hermes")
        for feature in FEATURES:
            disco.add_feature(feature)
        for tag, take in (("message", self._on_message), ("presence", self._on_presence)):
            xmpp.register_handler(
                Callback(f"Hermes {tag}", MatchXPath(f"{{{CLIENT}}}{tag}"), take, instream=True)
            )
        return xmpp

    async def watch(self, every: float) -> None:
        """Ask every so often whether the server is there; raises BrokenError when it is not."""
        while True:
            await asyncio.wait([self._gone], timeout=every)
            if self._gone.done():
                raise BrokenError(self.broken_by)
            await self.settle_sent()

    @property
    def broken_by(self) -> str:
        """What broke the connection; empty while it holds."""
        return self._gone.result() if self._gone.done() else ""

    async def close(self) -> None:
        """Say goodbye, and end."""
        xmpp, self._xmpp = self._xmpp, None
        if xmpp is None:
            return
        was_open = not self._gone.done()
        self._on_disconnected("closed")
        xmpp.del_event_handler("disconnected", self._on_disconnected)
        with contextlib.suppress(OSError, RuntimeError):
            xmpp.cancel_connection_attempt()
            if was_open and xmpp.transport is not None:
                leaving = xmpp.disconnect(wait=CLOSE_SECONDS, ignore_send_queue=True)
                if leaving is not None:
                    await asyncio.wait([leaving], timeout=CLOSE_SECONDS + 1)
            xmpp.abort()
        if xmpp._run_out_filters is not None:
            xmpp._run_out_filters.cancel()

    def _on_disconnected(self, reason: Any) -> None:
        if not self._gone.done():
            self._gone.set_result(str(reason or "the connection was closed"))

    # In

    def _on_message(self, stanza: Any) -> None:
        xml: ET.Element = stanza.xml
        result = xml.find(f"{{{stanzas.MAM}}}result")
        if result is not None:
            archive, page = self._pages.get(result.get("queryid", ""), ("", []))
            if xml.get("from", self._login.jid).partition("/")[0] == archive:
                page.append(xml)
            return
        self._note_fate(xml)
        arrival = Arrival(self._handled)
        self._arrivals.append(arrival)
        try:
            self._on_stanza(xml, arrival)
        except Exception:
            # Whatever somebody wrote: it must not end the connection, nor be waited for for ever.
            log.exception("A message cannot be read")
            self.settle(arrival)

    def _on_presence(self, stanza: Any) -> None:
        try:
            self._on_stanza(stanza.xml, Arrival(0, is_settled=True))
        except Exception:
            log.exception("A presence cannot be read")  # as above

    def _note_fate(self, xml: ET.Element) -> None:
        name = xml.get("id", "")
        awaited = self._awaited.get(name)
        if awaited is None or awaited.done():
            if xml.get("type") == "error" and name:
                log.warning("%s refuses a message: %s", xml.get("from"), refusal_in(xml))
            return
        if xml.get("type") == "error":
            awaited.set_exception(refusal_in(xml))
        elif xml.get("type") == "groupchat":
            awaited.set_result(xml)

    def settle(self, arrival: Arrival) -> None:
        """A message is stored, or is nothing to us."""
        arrival.is_settled = True
        while self._arrivals and self._arrivals[0].is_settled:
            del self._arrivals[0]
        if self._is_asked_late:
            self._acknowledge()

    @property
    def _handled(self) -> int:
        return int(self._xmpp.plugin["xep_0198"].handled) if self._xmpp is not None else 0

    def _acknowledge(self) -> None:
        """Tell the server how much of what has come is stored."""
        xmpp = self._xmpp
        if xmpp is None or xmpp.transport is None:
            return
        stored = self._arrivals[0].number - 1 if self._arrivals else self._handled
        self._is_asked_late = bool(self._arrivals)
        xmpp.send_raw(f"<a xmlns='urn:xmpp:sm:3' h='{stored % 2**32}'/>")

    # Out

    def post(self, xml: ET.Element) -> None:
        """Send something whose fate nobody waits for."""
        from slixmpp.stanza import Message, Presence

        xmpp = self._connected()
        stanza = Message if xml.tag.endswith("message") else Presence
        xmpp.send(stanza(xmpp, xml=xml))

    async def tell(self, xml: ET.Element) -> ET.Element | None:
        """Send a message, and wait until it was passed on; to a room: until it is shown there, as
        which is returned. Raises RefusedError, BrokenError."""
        name = xml.get("id", "")
        is_room = xml.get("type") == "groupchat"
        fate: asyncio.Future[ET.Element | None] = asyncio.get_running_loop().create_future()
        self._awaited[name] = fate
        try:
            self.post(xml)
            if is_room:
                either: list[asyncio.Future[Any]] = [fate, self._gone]
                await asyncio.wait(
                    either, timeout=REPLY_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not fate.done():
                    reason = self.broken_by or "the room does not show the message"
                    raise BrokenError(reason, unsure=True)
            else:
                try:
                    await self.settle_sent()
                except BrokenError as error:
                    raise BrokenError(str(error), unsure=True) from error
            return fate.result() if fate.done() else None
        finally:
            self._awaited.pop(name, None)
            if fate.done() and not fate.cancelled():
                fate.exception()  # it is seen, also where the connection broke first

    async def settle_sent(self) -> None:
        """Return when the server has dealt with all that was sent; raises BrokenError."""
        with contextlib.suppress(RefusedError):  # an answer as good as any other
            await self.ask(self._login.domain, element("ping", stanzas.PING))

    async def ask(
        self, to: str, query: ET.Element, kind: Literal["get", "set"] = "get"
    ) -> ET.Element:
        """What somebody answers. Raises RefusedError, BrokenError."""
        from slixmpp.exceptions import IqError, IqTimeout

        xmpp = self._connected()
        iq = xmpp.make_iq(ito=to, itype=kind)
        iq.append(query)
        answer = asyncio.ensure_future(iq.send(timeout=REPLY_SECONDS))
        try:
            await asyncio.wait([answer, self._gone], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise BrokenError(self.broken_by)
            reply: ET.Element = answer.result().xml
            return reply
        except IqTimeout as error:
            raise BrokenError(f"{to} does not answer") from error
        except IqError as error:
            raise refusal_in(error.iq.xml) from error
        finally:
            answer.cancel()

    @contextlib.contextmanager
    def collecting(self, archive: str, query: str) -> Iterator[list[ET.Element]]:
        """What an archive sends for a query, until its end."""
        page: list[ET.Element] = []
        self._pages[query] = archive, page
        try:
            yield page
        finally:
            del self._pages[query]

    async def features(self, jid: str) -> frozenset[str]:
        """What somebody, a server or a room can do. Raises RefusedError, BrokenError."""
        info = await self.ask(jid, element("query", stanzas.DISCO_INFO))
        space = f"{{{stanzas.DISCO_INFO}}}"
        return frozenset(one.get("var", "") for one in info.iter(f"{space}feature"))

    async def services(self) -> Iterable[str]:
        """What belongs to our server: its rooms, its place for files. Raises as `ask`."""
        items = await self.ask(self._login.domain, element("query", stanzas.DISCO_ITEMS))
        space = f"{{{stanzas.DISCO_ITEMS}}}"
        found = [one.get("jid", "") for one in items.iter(f"{space}item")]
        return [self._login.domain, *(jid for jid in found if jid and "@" not in jid)]

    def _connected(self) -> ClientXMPP:
        if self._xmpp is None or self._gone.done():
            raise BrokenError(self.broken_by or "XMPP is not connected")
        return self._xmpp


def _is_encrypted(xmpp: ClientXMPP) -> bool:
    return isinstance(xmpp.socket, ssl.SSLSocket | ssl.SSLObject)


def _no_tls() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody, so it is never used


def refusal_in(xml: ET.Element) -> RefusedError:
    """The error that a stanza carries."""
    error = xml.find(f"{{{CLIENT}}}error")
    if error is None:
        return RefusedError("cancel", "undefined-condition")
    text = error.findtext(f"{{{STANZAS}}}text") or ""
    conditions = [
        child.tag.rpartition("}")[2]
        for child in error
        if child.tag.startswith(f"{{{STANZAS}}}") and not child.tag.endswith("}text")
    ]
    return RefusedError(
        error.get("type", "cancel"), (conditions or ["undefined-condition"])[0], text[:300]
    )
