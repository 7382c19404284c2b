"""A server that answers as ntfy's pages say, for the example plugin.

It keeps what was published for as long as it lives, gives it again after an id or a time, keeps
files, counts bytes, and forbids topics. It does not imitate: users and their rights, priorities,
delays, actions, e-mail and calls, other formats of the stream than JSON, expiry, and limits by
visitor. `Retry-After` is what a proxy in front of it may add.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from typing import Any

from aiohttp import web

MOST_BYTES = 4096
DROPPED = 0
"""Instead of a status: the connection is cut, and nobody knows what became of the request."""
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")


class NtfyServer:
    """The server. Use as `async with NtfyServer() as server`; may be closed and opened again."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []
        """What subscribers were told, oldest first."""
        self.files: dict[str, bytes] = {}
        self.forbidden: set[str] = set()
        """Topics that may be neither read nor written."""
        self.faults: list[tuple[int, dict[str, str]]] = []
        """What the next texts of programs are refused with: a status and headers."""
        self.subscribers: set[asyncio.Task[Any]] = set()
        self.port = 0
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> NtfyServer:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get("/v1/health", self._health)
        app.router.add_get("/file/{name}", self._file)
        app.router.add_get("/{topics}/json", self._stream)
        for method in ("PUT", "POST"):
            app.router.add_route(method, "/", self._publish_json)
            app.router.add_route(method, "/{topic}", self._publish)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        assert self._runner is not None
        for task in list(self.subscribers):
            task.cancel()
        await self._runner.cleanup()

    # What people do, and what a test looks at

    async def publish(self, topic: str, text: str = "", **more: Any) -> dict[str, Any]:
        """Somebody publishes a message."""
        number = next(self._numbers)
        message = {
            "id": f"m{number:011}", "time": int(time.time()), "expires": int(time.time()) + 43_200,
            "event": "message", "topic": topic, "message": text or "triggered", **more,
        }  # fmt: skip
        await self.tell(message)
        return message

    async def tell(self, message: dict[str, Any]) -> None:
        """Tell subscribers of a message, also of one that they know."""
        async with self._changed:
            self.published.append(message)
            self._changed.notify_all()

    async def attach(self, topic: str, name: str, data: bytes, text: str = "") -> dict[str, Any]:
        """Somebody publishes a file."""
        file = f"f{next(self._numbers)}"
        self.files[file] = data
        attachment = {"name": name, "size": len(data), "url": f"{self.url}/file/{file}"}
        return await self.publish(
            topic, text or f"You received a file: {name}", attachment=attachment
        )

    def texts(self, topic: str) -> list[str]:
        """What programs published in a topic."""
        return [
            one["message"]
            for one in self.published
            if one["topic"] == topic and "robot" in one.get("tags", ())
        ]

    # Requests

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"healthy": True})

    async def _file(self, request: web.Request) -> web.Response:
        data = self.files.get(request.match_info["name"])
        return _refusal(404, 40401, "page not found") if data is None else web.Response(body=data)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        topics = request.match_info["topics"].split(",")
        if self.forbidden & set(topics):
            return _refusal(403, 40301, "forbidden")
        place = self._find(request.query.get("since", ""))
        task = asyncio.current_task()
        assert task is not None
        self.subscribers.add(task)
        reply = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        try:
            await reply.prepare(request)
            hello = {"id": "open", "time": int(time.time()), "event": "open"}
            await _write(reply, {**hello, "topic": request.match_info["topics"]})
            while True:
                while place < len(self.published):
                    message = self.published[place]
                    place += 1
                    if message["topic"] in topics:
                        await _write(reply, message)
                async with self._changed:
                    await self._changed.wait_for(lambda: place < len(self.published))  # noqa: B023
        except (ConnectionError, asyncio.CancelledError):
            return reply  # it is gone, or we are
        finally:
            self.subscribers.discard(task)

    def _find(self, since: str) -> int:
        """How many messages come before what is asked for."""
        if not since:
            return len(self.published)
        if since.isdecimal():
            return sum(one["time"] < int(since) for one in self.published)
        ids = [one["id"] for one in self.published]
        return ids.index(since) + 1 if since in ids else 0

    async def _publish_json(self, request: web.Request) -> web.Response:
        try:
            body = json.loads(await request.read())
        except ConnectionError:
            return web.Response()  # it was killed while it asked
        except ValueError:
            return _refusal(400, 40017, "invalid request: request body must be message JSON")
        unknown = set(body) - {"topic", "message", "title", "tags", "markdown", "priority"}
        if unknown or not _TOPIC.fullmatch(str(body.get("topic"))):
            return _refusal(400, 40009, "invalid request: topic invalid")
        text = body.get("message") or ""
        if len(text.encode()) > MOST_BYTES:
            return _refusal(413, 41303, "JSON body too large")
        if self.faults and self.faults[0][0] == DROPPED:
            self.faults.pop(0)
            assert request.transport is not None
            request.transport.close()
        refusal = self._refused(body["topic"])
        if refusal is not None:
            return refusal
        given = {"tags": body["tags"]} if body.get("tags") else {}
        return web.json_response(await self.publish(body["topic"], text, **given))

    async def _publish(self, request: web.Request) -> web.Response:
        topic = request.match_info["topic"]
        refusal = self._refused(topic)
        if refusal is not None:
            return refusal
        query, data = request.query, await request.read()
        given: dict[str, Any] = {"tags": query["tags"].split(",")} if "tags" in query else {}
        if "filename" not in query:
            return web.json_response(await self.publish(topic, data.decode(), **given))
        file = f"f{next(self._numbers)}"
        self.files[file] = data
        name = query["filename"]
        given["attachment"] = {"name": name, "size": len(data), "url": f"{self.url}/file/{file}"}
        text = query.get("message") or f"You received a file: {name}"
        return web.json_response(await self.publish(topic, text, **given))

    def _refused(self, topic: str) -> web.Response | None:
        if self.faults:
            status, headers = self.faults.pop(0)
            return _refusal(status, status * 100 + 1, "no", headers)
        return _refusal(403, 40301, "forbidden") if topic in self.forbidden else None


def _refusal(
    status: int, code: int, error: str, headers: dict[str, str] | None = None
) -> web.Response:
    facts = {"code": code, "http": status, "error": error}
    return web.json_response(facts, status=status, headers=headers)


async def _write(reply: web.StreamResponse, message: dict[str, Any]) -> None:
    with contextlib.suppress(ConnectionResetError):
        await reply.write(json.dumps(message).encode() + b"\n")
