"""The page as an ASGI application: the gate, the files, devices, and the socket behind them.

What is served without a key is the same for everybody and holds no secret: the shell, its files,
and the exchange of a one-time code for a device's key. Everything else needs a key.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from gateway.platforms.http_server import trust
from hermes_state import AsyncSessionDB, NoLink, SessionDB

from .assets import Asset, Assets, is_static
from .gate import DEVICE, KEYS, SOCKET, Gate, Refusal, headers, headers_of, key_of
from .socket import serve_socket

log = logging.getLogger(__name__)

MAX_BODY = 4096
"""Bytes of a request that exchanges a code."""
FOR_GOOD = b"public, max-age=31536000, immutable"
EACH_TIME = b"no-cache"
PAGES = ("c", "find", "inbox", "jobs", "usage", "state", "settings")
"""The first parts of the addresses that the page itself understands."""
_ROOT_FILES = {"/sw.js": "sw.js", "/manifest.webmanifest": "manifest.webmanifest"}


class WebApp:
    """Answers requests and sockets."""

    def __init__(self, assets: Assets, gate: Gate, db: SessionDB) -> None:
        self._assets = assets
        self._gate = gate
        self._db = AsyncSessionDB(db)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request or one socket."""
        refusal = self._gate.refusal(scope)
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send, refusal)
        elif refusal is not None:
            await _plain(send, refusal)
        elif scope["method"] == "POST" and scope["path"] == KEYS:
            await self._make_device(scope, receive, send)
        elif scope["method"] == "GET" and scope["path"] == DEVICE:
            await self._tell_device(scope, send)
        elif scope["method"] in ("GET", "HEAD"):
            await self._file(scope, send)
        else:
            await _plain(send, Refusal(403, "Not without a key."))

    # The files

    async def _file(self, scope: Any, send: Any) -> None:
        path = scope["path"]
        found, cache, policy = self._find(path)
        if found is None:
            await _plain(send, Refusal(404, "There is no such page."))
            return
        trust(scope)  # the same bytes for everybody; a browser asks for many on one connection
        await _send_asset(scope, send, found, cache, policy)

    def _find(self, path: str) -> tuple[Asset | None, bytes, str]:
        if path.startswith("/static/"):
            digest, _, name = path.removeprefix("/static/").partition("/")
            is_ours = digest == self._assets.digest and is_static(name)
            return (self._assets.find(name) if is_ours else None), FOR_GOOD, "'none'"
        if path in _ROOT_FILES:
            return self._assets.find(_ROOT_FILES[path]), EACH_TIME, "'none'"
        if path == "/enter":
            # It alone may register the service worker, which Trusted Types count as a script.
            return self._assets.find("enter.html"), EACH_TIME, "hermes-worker"
        if path == "/" or path.split("/")[1] in PAGES:
            return self._assets.find("index.html"), EACH_TIME, "'none'"
        return None, EACH_TIME, "'none'"

    # Devices

    async def _make_device(self, scope: Any, receive: Any, send: Any) -> None:
        """Exchange a one-time code for a key."""
        given = headers_of(scope)
        if given.get("origin") is None:
            await _plain(send, Refusal(403, "A browser says where it comes from."))
            return
        if given.get("content-type", "").partition(";")[0].strip() != "application/json":
            await _plain(send, Refusal(415, "Send JSON."))
            return
        try:
            body = json.loads(await _body(receive))
            code, name = body["code"], body.get("name", "")
            if not isinstance(code, str) or not isinstance(name, str):
                raise ValueError("code and name are texts")
        except (ValueError, KeyError, TypeError):
            await _plain(send, Refusal(400, "Send {code, name}."))
            return
        client = scope.get("client") or ("", 0)
        made = await self._db.make_device(code, name, f"web:{client[0]}")
        if isinstance(made, NoLink):
            await _json(send, 403, {"error": made.value})
            return
        log.info("A device was let in: %s (%s)", made.device.name, made.device.id)
        facts = {"key": made.key, "device_id": made.device.id, "person": made.device.person.name}
        await _json(send, 200, facts)

    async def _tell_device(self, scope: Any, send: Any) -> None:
        """Say whose key it is; 401 if it is nobody's, so that a browser knows it was revoked."""
        key = key_of(scope)
        device = await self._db.find_device(key) if key else None
        if device is None:
            await _json(send, 401, {"error": "Not without a key."})
            return
        facts = {"device_id": device.id, "name": device.name, "person": device.person.name}
        await _json(send, 200, {**facts, "scope": device.scope})

    # The socket

    async def _socket(self, scope: Any, receive: Any, send: Any, refusal: Refusal | None) -> None:
        key = key_of(scope)
        device = None
        if refusal is None and scope["path"] == SOCKET and key:
            device = await self._db.find_device(key)
        if device is None:
            await receive()  # websocket.connect
            await _refuse_socket(scope, send, refusal or Refusal(403, "Not without a key."))
            return
        await self._db.note_device_used(device.id)
        await serve_socket(device, self._assets.digest, receive, send)


async def _body(receive: Any) -> bytes:
    content = b""
    while True:
        message = await receive()
        content += message.get("body", b"")
        if len(content) > MAX_BODY:
            raise ValueError("too long")
        if message["type"] != "http.request" or not message.get("more_body"):
            return content


async def _send_asset(scope: Any, send: Any, found: Asset, cache: bytes, policy: str) -> None:
    accepts = headers_of(scope).get("accept-encoding", "")
    packed = found.packed if "gzip" in accepts else None
    content = found.content if packed is None else packed
    answered = [
        *headers(policy),
        (b"content-type", found.type.encode()),
        (b"cache-control", cache),
        (b"content-length", str(len(content)).encode()),
        (b"vary", b"accept-encoding"),
    ]
    if packed is not None:
        answered.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": 200, "headers": answered})
    body = b"" if scope["method"] == "HEAD" else content
    await send({"type": "http.response.body", "body": body})


async def _json(send: Any, status: int, content: dict[str, Any]) -> None:
    await _answer(send, status, json.dumps(content).encode(), b"application/json")


async def _plain(send: Any, refusal: Refusal) -> None:
    text = f"{refusal.reason}\n".encode()
    await _answer(send, refusal.status, text, b"text/plain; charset=utf-8")


async def _answer(send: Any, status: int, content: bytes, kind: bytes) -> None:
    answered = [
        *headers(),
        (b"content-type", kind),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": answered})
    await send({"type": "http.response.body", "body": content})


async def _refuse_socket(scope: Any, send: Any, refusal: Refusal) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 4403, "reason": refusal.reason[:120]})
        return
    await send(
        {"type": "websocket.http.response.start", "status": refusal.status, "headers": headers()}
    )
    await send({"type": "websocket.http.response.body", "body": refusal.reason.encode()})
