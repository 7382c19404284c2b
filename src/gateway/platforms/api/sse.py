"""Server-sent events: a turn's output, sent as fast as the connection takes it.

A turn puts pieces in from any thread and never waits; the connection takes all there are at once.
Whether anybody still reads does not matter to the turn.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

KEEPALIVE_SECONDS = 15.0
MOST_PENDING = 4 * 1024 * 1024
"""Bytes that may wait for a slow reader before remarks are left out."""


class Outlet:
    """Pieces on their way out."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pieces: list[bytes] = []
        self._size = 0
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, piece: bytes, *, remark: bool = False) -> None:
        """Send a piece; a remark is left out when the reader is far behind."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(lambda: self.put(piece, remark=remark))
            return
        if self._closed or (remark and self._size > MOST_PENDING):
            return
        self._pieces.append(piece)
        self._size += len(piece)
        self._wake()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._wake()

    async def take(self) -> bytes:
        """All that waits, as one; empty at the end."""
        while not self._pieces and not self._closed:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(KEEPALIVE_SECONDS, self.put, b": keepalive\n\n")
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        taken, self._pieces, self._size = b"".join(self._pieces), [], 0
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SseResponse:
    """An answer that goes on until its outlet is closed."""

    def __init__(
        self,
        outlet: Outlet,
        headers: Mapping[str, str] | None = None,
        on_leave: Callable[[], object] | None = None,
    ) -> None:
        """`on_leave` is called when the client has gone, or has got everything."""
        self._outlet, self._on_leave = outlet, on_leave
        self._headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            *((name.lower().encode(), text.encode()) for name, text in (headers or {}).items()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if self._on_leave is None:
            await self._send(send)
            return
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_wait_gone(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._on_leave()
            for task in (sending, gone):
                task.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        while piece := await self._outlet.take():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def data(content: Any, *, event: str | None = None, id: int | None = None) -> bytes:
    """An event."""
    head = f"event: {event}\n" if event else ""
    if id is not None:
        head = f"id: {id}\n{head}"
    return f"{head}data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def comment(name: str, content: Any) -> bytes:
    """A remark that every client passes over, for those that look for it."""
    return f": {name} {json.dumps(content, separators=(',', ':'))}\n\n".encode()


DONE = b"data: [DONE]\n\n"
