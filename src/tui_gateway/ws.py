"""The session server over WebSocket: the same frames, one per message, for clients on this machine.

It is closed by default: it listens on loopback only, wants a token that is in a private file, and
refuses pages of other origins, which a browser would let connect. Clients that have not shown the
token are few at any time and have a few seconds. A client that is lost or slow holds up nobody; its
sessions go on, and `reaper` ends those that were to end with it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hmac
import http
import logging
import secrets
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.descriptors import EXHAUSTED, RETRY_SECONDS, Strangers, raise_descriptor_limit
from agent.home import hermes_home
from hermes_base.files import write_private
from tools.extras import install_hint

from . import server
from .peers import Peer
from .reaper import Reaper
from .transport import MAX_LINE, Refused, parse

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import Server, ServerConnection

log = logging.getLogger(__name__)

PATH = "/api/ws"
HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
"""What a client may call this machine; any other name may be a page's trick with DNS."""
DRAIN_SECONDS = 2.0
MOST_STRANGERS = 64
"""Clients at once that have not shown the token; each has two threads."""
DESCRIPTORS_EACH = 4
"""What a connection takes: its socket, and what wakes up the thread that reads from it."""
STRANGER_SECONDS = 5.0
"""How long such a client may take."""
ROOM_SECONDS = 0.001
BACKLOG = 2048
_CLOSED = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})


class CannotServeError(Exception):
    """The server cannot listen; the message says why and what to do."""


def serve(port: int) -> Callable[[], None]:
    """Listen on loopback, and say where on standard error; returns what stops it.

    The token is in `tui_gateway.<port>.token` in the Hermes home, until it is stopped.
    """
    raise_descriptor_limit()
    token = secrets.token_urlsafe(32)
    listening = Listener(token, port)
    file = hermes_home() / f"tui_gateway.{listening.port}.token"
    write_private(file, token, durable=False)  # it is worth nothing after this process
    reaper = Reaper(server.hub())
    reaper.start()
    threading.Thread(target=listening.run, name="hermes-ws", daemon=True).start()
    print(f"Listening on {listening.url}; the token is in {file}", file=sys.stderr, flush=True)

    def stop() -> None:
        reaper.stop()
        deadline = time.monotonic() + DRAIN_SECONDS
        for peer in list(server._peers):
            peer.drain(max(0.0, deadline - time.monotonic()))
        listening.stop()
        file.unlink(missing_ok=True)

    return stop


class Listener:
    """Accepts clients that know the token."""

    def __init__(self, token: str, port: int = 0) -> None:
        """Bind to `port` (0: a free one); CannotServeError if that is not possible."""
        try:
            from websockets.sync.server import serve as listen
        except ImportError as error:
            raise CannotServeError(
                f"WebSockets need the package websockets. Run: {install_hint('ws')}"
            ) from error
        self._token = token.encode()
        self._strangers = Strangers(MOST_STRANGERS, DESCRIPTORS_EACH)
        try:
            self._server: Server = listen(
                self._serve_client,
                sock=_PatientSocket(port, self._strangers),
                open_timeout=STRANGER_SECONDS,
                process_request=self._refusal,
                max_size=MAX_LINE,
                compression=None,  # it costs more than it saves within one machine
            )
        except OSError as error:
            raise CannotServeError(
                f"Cannot listen on {HOST}:{port}: {error.strerror}. Choose another port."
            ) from error
        self.port = int(self._server.socket.getsockname()[1])
        self.url = f"ws://{HOST}:{self.port}{PATH}"

    def run(self) -> None:
        """Serve until `stop`."""
        self._server.serve_forever()

    def stop(self) -> None:
        """Accept nobody more."""
        self._server.shutdown()

    def _refusal(self, connection: ServerConnection, request: Request) -> Response | None:
        """Why a client may not come in; None if it may."""
        address = urllib.parse.urlsplit(request.path)
        if address.path != PATH:
            return connection.respond(http.HTTPStatus.NOT_FOUND, f"It is at {PATH}.\n")
        host = request.headers.get("Host", "")
        origin = request.headers.get("Origin")
        if host.rpartition(":")[0] not in NAMES or origin not in (None, f"http://{host}"):
            return connection.respond(http.HTTPStatus.FORBIDDEN, "Not from that origin.\n")
        if not self._knows_token(request.headers.get("Authorization", ""), address.query):
            return connection.respond(
                http.HTTPStatus.UNAUTHORIZED,
                "Send the token as 'Authorization: Bearer …' or as '?token=…'.\n",
            )
        self._strangers.discard(connection.socket)
        return None

    def _knows_token(self, authorization: str, query: str) -> bool:
        # Browsers cannot set a header on a WebSocket, so the address may carry it.
        kind, _, given = authorization.partition(" ")
        if kind.lower() != "bearer":
            given = urllib.parse.parse_qs(query).get("token", [""])[0]
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _serve_client(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        def write(line: bytes) -> None:
            try:
                connection.send(line[:-1].decode("ascii"))
            except ConnectionClosed as error:
                raise OSError("the client is gone") from error

        name = f"ws-{connection.id.hex[:8]}"
        peer = Peer(write, name, on_given_up=lambda: _cut(connection.socket))
        server.connect(peer)
        try:
            for message in connection:
                frame = parse(message)
                if isinstance(frame, Refused):
                    peer.send(frame.response)
                else:
                    server.dispatch(frame, peer)
        except ConnectionClosed:
            log.info("%s was lost", peer.name)
        finally:
            server.disconnect(peer)


class _PatientSocket(socket.socket):
    """A listening socket whose `accept` fails only when it is closed.

    The WebSocket server would stop for good at the first error. What is accepted is a stranger.
    """

    def __init__(self, port: int, strangers: Strangers) -> None:
        """Listen on loopback; raises OSError if the port cannot be had."""
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._strangers = strangers
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((HOST, port))
            self.listen(BACKLOG)
            self.setblocking(False)
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, as soon as there is room and a descriptor for it."""
        reported = False
        while True:
            self._wait_for_room()
            try:
                connection, address = super().accept()
            except OSError as error:
                if self.fileno() == -1 or error.errno in _CLOSED:
                    raise
                if error.errno in EXHAUSTED:
                    self._strangers.drop()
                    if not reported:
                        log.warning("A client could not be let in: %s", error.strerror)
                        reported = True
                time.sleep(RETRY_SECONDS)  # also if it went away again: there may be others
                continue
            connection.setblocking(True)
            self._strangers.add(connection, functools.partial(_cut, connection))
            return connection, address

    def _wait_for_room(self) -> None:
        """Wait until strangers that were dropped have ended, if there are too many."""
        while True:
            self._strangers.ended(_is_closed)
            if self._strangers.make_room():
                return
            time.sleep(ROOM_SECONDS)


def _is_closed(connection: socket.socket) -> bool:
    return connection.fileno() == -1


def _cut(connection: socket.socket) -> None:
    """End a connection; its blocked readers and writers return."""
    with contextlib.suppress(OSError):  # closed already
        connection.shutdown(socket.SHUT_RDWR)
