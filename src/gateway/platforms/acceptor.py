"""Listening for connections: a bounded number of strangers, and no end when descriptors run out.

asyncio's own servers accept as many connections as come, and try thousands of times in a row when
there are no descriptors left. Here strangers are few (`agent.descriptors`), a failed accept is
tried again after a moment, and connections that are being served notice nothing of either.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable

from agent import descriptors
from agent.descriptors import RETRY_SECONDS, Strangers

log = logging.getLogger(__name__)

BACKLOG = 2048
MOST_STRANGERS = 256
STRANGER_SECONDS = 10.0
"""How long a stranger may take to send the head of a request."""
_REMIND_SECONDS = 60.0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises OSError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on: 40 ms per answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


class Acceptor:
    """Accepts connections on a listening socket until it is stopped.

    A protocol counts itself among `strangers` when it is connected, and leaves them when its client
    has authenticated or is gone.
    """

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self.strangers = Strangers(MOST_STRANGERS, grace=descriptors.GRACE_SECONDS)
        # Few at a time: who is accepted is read from before so many have come that it is dropped.
        self._batch = max(1, self.strangers.most // 4)
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._reported = -_REMIND_SECONDS
        self._loop.add_reader(listener, self._accept)

    def stop(self) -> None:
        """Accept nobody more; connections that were accepted go on."""
        if self._listener.fileno() == -1:
            return
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(self._batch):
            if not self.strangers.make_room():
                self._wait()
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError as error:  # it was gone before it was here
            log.debug("A connection ended at once: %s", error)
            connection.close()

    def _pause(self, error: OSError) -> None:
        self.strangers.drop()
        if time.monotonic() - self._reported >= _REMIND_SECONDS:
            self._reported = time.monotonic()
            log.warning(
                "A connection could not be accepted: %s. If this goes on, raise the limit of open"
                " files (ulimit -n).",
                error.strerror,
            )
        self._wait()

    def _wait(self) -> None:
        """Accept nobody for a moment: until then somebody has authenticated or was dropped."""
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)
