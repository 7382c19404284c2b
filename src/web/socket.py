"""One browser's socket: the frames of the session protocol, between uvicorn's loop and its threads.

The session server answers in threads. A socket has one that answers its requests in their order,
and its peer's, which hands frames to the loop and waits until they are written, so that a browser
that does not read fills its own queue and nobody else's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import threading
from typing import Any

from hermes_state import Device
from tui_gateway import server
from tui_gateway.peers import Peer
from tui_gateway.transport import MAX_LINE, Refused, parse

from .gate import PROTOCOL

log = logging.getLogger(__name__)

WRITE_SECONDS = 30.0
"""How long a browser may take to read one frame."""
REVOKED = 4401
"""The code that a socket is closed with when its device is let in no longer."""


async def serve_socket(device: Device, digest: str, receive: Any, send: Any) -> None:
    """Serve a browser that has shown its key, until it leaves or is let in no longer."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def write(line: bytes) -> None:
        frame = {"type": "websocket.send", "text": line[:-1].decode("ascii")}
        sent = asyncio.run_coroutine_threadsafe(send(frame), loop)
        try:
            sent.result(WRITE_SECONDS)
        except (RuntimeError, OSError, concurrent.futures.TimeoutError) as error:
            sent.cancel()
            raise OSError("the browser is gone") from error

    def drop() -> None:
        loop.call_soon_threadsafe(over.set)

    peer = Peer(write, f"web-{device.id}", on_given_up=drop, door=device.door)
    requests: queue.SimpleQueue[str | bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_answer_all, args=(peer, requests), daemon=True).start()
    try:
        server.connect(peer, {"digest": digest})
        await _read(receive, requests, over)
        if over.is_set():
            await send({"type": "websocket.close", "code": REVOKED, "reason": "revoked"})
    finally:
        requests.put(None)
        await asyncio.to_thread(server.disconnect, peer)


async def _read(receive: Any, requests: queue.SimpleQueue[Any], over: asyncio.Event) -> None:
    """Hand on what the browser sends until it leaves, or `over` is set."""
    ending = asyncio.ensure_future(over.wait())
    try:
        while True:
            reading = asyncio.ensure_future(receive())
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                return
            message = reading.result()
            if message["type"] != "websocket.receive":
                return
            requests.put(message.get("text") or message.get("bytes") or "")
    finally:
        ending.cancel()


def _answer_all(peer: Peer, requests: queue.SimpleQueue[Any]) -> None:
    """Answer a browser's requests in their order."""
    while (text := requests.get()) is not None:
        frame = parse(text) if len(text) <= MAX_LINE else None
        if isinstance(frame, Refused):
            peer.send(frame.response)
        else:
            server.dispatch(frame, peer)
