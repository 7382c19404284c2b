"""A Slack of our own: its Web API and its socket on loopback, as strict as the real one where it
matters, and stricter with arguments it does not know.

It delivers an envelope again until it is acknowledged, checks tokens, texts, blocks and files,
counts messages, shapes its errors as Slack does, and fails when it is told to. What it does not
imitate is said in docs/slack.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from .slack_world import APP_TOKEN, BOT_TOKEN, ME, TEAM, Sent, World

__all__ = ["APP_TOKEN", "BOT_TOKEN", "ME", "Fault", "Sent", "SlackApi"]

_ARGUMENTS = {
    "auth.test": set(),
    "apps.connections.open": set(),
    "users.info": {"user"},
    "users.conversations": {"types", "exclude_archived", "limit", "cursor"},
    "conversations.history": {"channel", "oldest", "limit", "cursor", "include_all_metadata"},
    "conversations.replies": {
        "channel", "ts", "oldest", "limit", "cursor", "include_all_metadata",
    },
    "chat.postMessage": {
        "channel", "text", "thread_ts", "blocks", "metadata", "unfurl_links", "unfurl_media",
    },
    "chat.postEphemeral": {"channel", "user", "text", "thread_ts"},
    "chat.update": {"channel", "ts", "text", "blocks"},
    "reactions.add": {"channel", "timestamp", "name"},
    "files.getUploadURLExternal": {"filename", "length"},
    "files.completeUploadExternal": {"files", "channel_id", "initial_comment", "thread_ts"},
}  # fmt: skip
_REACTIONS = {"eyes", "+1", "-1", "heart", "fire", "tada", "ok_hand", "thinking_face"}


class ApiError(Exception):
    """An answer with ok: false."""

    def __init__(self, code: str, status: int = 200, retry_after: float | None = None) -> None:
        super().__init__(code)
        self.code, self.status, self.retry_after = code, status, retry_after


@dataclass
class Fault:
    """What is to go wrong, how often, with which method (any if empty)."""

    kind: str
    """429, 503, an error's name, drop (before anything was done) or drop_after (when all was)."""
    method: str = ""
    times: int = 1
    retry_after: float = 1


class SlackApi(World):
    """The servers. Use as `async with SlackApi() as api`; may be closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.bot_token, self.app_token = BOT_TOKEN, APP_TOKEN
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.outage: str | None = None
        self.refused = 0
        self.limit = 0
        """Messages of a chat within `limit_seconds`; 0 for any number."""
        self.limit_seconds = 1.0
        self.redeliver_seconds = 3.0
        """After which an envelope that was not acknowledged is delivered again."""
        self.missing_scopes: set[str] = set()
        """Methods that the app has no scope for."""
        self.hellos = 0
        self.retried = 0
        self.acknowledged: set[str] = set()
        self._waiting: dict[str, tuple[dict[str, Any], float]] = {}
        """Envelopes that were not acknowledged, and when they were last delivered."""
        self._sockets: list[web.WebSocketResponse] = []
        self._tickets: set[str] = set()
        self._limits: dict[str, list[float]] = {}
        self._uploads: dict[str, tuple[str, bytes]] = {}
        self._runner: web.AppRunner | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._port = 0

    # Life

    async def __aenter__(self) -> SlackApi:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/socket", self._socket)
        app.router.add_route("*", "/api/{method}", self._rest)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._file)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.host = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.host}/api"
        self._retrying = asyncio.create_task(self._retry())

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        assert self._runner is not None and self._retrying is not None
        self._retrying.cancel()
        await self.cut()
        await self._runner.cleanup()

    async def cut(self) -> None:
        """Cut the socket's connections."""
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await socket.close(code=1001)

    async def refresh(self) -> None:
        """Ask for a new connection, as Slack does every few hours."""
        for socket in list(self._sockets):
            frame = {"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}
            await socket.send_str(json.dumps(frame))

    def forget_envelopes(self) -> None:
        """Slack gives up delivering what was not acknowledged."""
        self._waiting.clear()

    @property
    def connected(self) -> int:
        """How many connections there are."""
        return len(self._sockets)

    # The socket

    async def deliver(self, kind: str, payload: dict[str, Any]) -> str:
        """Deliver an envelope until it is acknowledged."""
        name = f"envelope-{self.new_number()}"
        envelope = {
            "envelope_id": name, "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api",
        }  # fmt: skip
        self._waiting[name] = envelope, 0.0
        await self._send(name)
        return name

    async def _send(self, name: str) -> None:
        envelope, _ = self._waiting[name]
        if self._sockets:
            self._waiting[name] = envelope, time.monotonic()
            with contextlib.suppress(ConnectionError, RuntimeError):
                await self._sockets[-1].send_str(json.dumps(envelope))

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            for name, (envelope, when) in list(self._waiting.items()):
                if self._sockets and time.monotonic() - when > self.redeliver_seconds:
                    if when:
                        self.retried += 1
                        envelope["retry_attempt"] = envelope.get("retry_attempt", 0) + 1
                        envelope["retry_reason"] = "timeout"
                    await self._send(name)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:  # each address is good for one connection
            raise web.HTTPUnauthorized
        self._tickets.discard(ticket)
        await socket.prepare(request)
        hello = {"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}}
        await socket.send_str(json.dumps(hello))
        self.hellos += 1
        self._sockets.append(socket)
        await self.notify()
        # What the connection before this did not acknowledge comes at once.
        for name in list(self._waiting):
            await self._send(name)
        try:
            async for frame in socket:
                if frame.type is not WSMsgType.TEXT:
                    break
                name = json.loads(frame.data).get("envelope_id")
                if self._waiting.pop(name, None) is not None:
                    self.acknowledged.add(name)
                    await self.notify()
        finally:
            if socket in self._sockets:
                self._sockets.remove(socket)
            await self.notify()
        return socket

    # Requests

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        fault = self._fault(method)
        kind = fault.kind if fault else ""
        if kind == "drop":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if kind == "503":
            return web.Response(status=503, text="<h1>Service unavailable</h1>")
        headers = {}
        try:
            if fault is not None and kind == "429":
                raise ApiError("ratelimited", 429, fault.retry_after)
            if kind and kind != "drop_after":
                raise ApiError(kind)
            body = {"ok": True, **await self._answer(request, method)}
            status = 200
        except ApiError as error:
            body, status = {"ok": False, "error": error.code}, error.status
            if error.retry_after is not None:
                headers["Retry-After"] = str(error.retry_after)
        await self.notify()
        if kind == "drop_after":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.json_response(body, status=status, headers=headers)

    def _fault(self, method: str) -> Fault | None:
        if self.outage is not None:
            self.refused += 1
            return Fault(self.outage)
        for one in self.faults:
            if one.times > 0 and one.method in ("", method):
                one.times -= 1
                self.refused += 1
                return one
        return None

    async def _answer(self, request: web.Request, method: str) -> dict[str, Any]:
        known = _ARGUMENTS.get(method)
        if known is None:
            raise ApiError("unknown_method")
        given = await _arguments(request)
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token = given.pop("token", "") or bearer
        if not token:
            raise ApiError("not_authed")
        wanted = self.app_token if method == "apps.connections.open" else self.bot_token
        if token != wanted:
            is_other = token in (self.app_token, self.bot_token)
            raise ApiError("not_allowed_token_type" if is_other else "invalid_auth")
        if method in self.missing_scopes:
            raise ApiError("missing_scope")
        assert given.keys() <= known, f"{method} has no {given.keys() - known}"
        self.calls.append((method, given))
        handler = getattr(self, f"_do_{method.replace('.', '_')}")
        answer: dict[str, Any] = handler(given)
        return answer

    def called(self, method: str) -> list[dict[str, Any]]:
        """The arguments of the calls of a method."""
        return [given for name, given in self.calls if name == method]

    def _do_auth_test(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"user_id": ME, "team_id": TEAM, "bot_id": "B1", "user": "hermes", "team": "Us"}

    def _do_apps_connections_open(self, given: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{self.new_number()}"
        self._tickets.add(ticket)
        return {"url": f"ws://{self.host}/socket?ticket={ticket}"}

    def _do_users_info(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["user"] not in self.people:
            raise ApiError("user_not_found")
        return {"user": self.people[given["user"]]}

    def _do_users_conversations(self, given: dict[str, Any]) -> dict[str, Any]:
        return _page([{"id": one} for one in self.members], "channels", given)

    def _do_conversations_history(self, given: dict[str, Any]) -> dict[str, Any]:
        self._chat(given["channel"])
        oldest = float(given.get("oldest") or 0)
        found = [
            one
            for one in reversed(self.messages.get(given["channel"], []))
            if float(one["ts"]) > oldest and one.get("thread_ts", one["ts"]) == one["ts"]
        ]
        return _page([_seen(one, given) for one in found], "messages", given)

    def _do_conversations_replies(self, given: dict[str, Any]) -> dict[str, Any]:
        self._chat(given["channel"])
        oldest = float(given.get("oldest") or 0)
        all_here = self.messages.get(given["channel"], [])
        if not any(one["ts"] == given["ts"] for one in all_here):
            raise ApiError("thread_not_found")
        found = [
            one
            for one in all_here
            if one["ts"] == given["ts"]
            or (one.get("thread_ts") == given["ts"] and float(one["ts"]) > oldest)
        ]
        return _page([_seen(one, given) for one in found], "messages", given)

    def _chat(self, channel: str) -> str:
        if channel not in self.members or channel in self.gone:
            raise ApiError("channel_not_found")
        if channel in self.archived:
            raise ApiError("is_archived")
        return channel

    def _count(self, channel: str) -> None:
        if not self.limit:
            return
        moment = time.monotonic()
        recent = [
            when for when in self._limits.get(channel, []) if moment - when < self.limit_seconds
        ]
        if len(recent) >= self.limit:
            self.refused += 1
            raise ApiError("ratelimited", 429, round(recent[0] + self.limit_seconds - moment, 3))
        self._limits[channel] = [*recent, moment]

    def _do_chat_postMessage(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = self._chat(given["channel"])
        self._count(channel)
        text = str(given.get("text") or "")
        if not text.strip() and not given.get("blocks"):
            raise ApiError("no_text")
        if len(text) > 40_000:
            raise ApiError("msg_too_long")
        buttons = _checked_blocks(given.get("blocks") or [])
        metadata = given.get("metadata")
        if metadata and set(metadata) != {"event_type", "event_payload"}:
            raise ApiError("invalid_metadata_format")
        message = self.own(channel, text, given.get("thread_ts"))
        message |= {"blocks": given.get("blocks") or [], "metadata": metadata}
        self.sent.append(Sent(message["ts"], channel, text, given, given.get("thread_ts"), buttons))
        return {"channel": channel, "ts": message["ts"], "message": message}

    def _do_chat_postEphemeral(self, given: dict[str, Any]) -> dict[str, Any]:
        self._chat(given["channel"])
        self.whispers.append((given["user"], given["text"]))
        return {"message_ts": self.new_ts()}

    def _do_chat_update(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = self._chat(given["channel"])
        self._count(channel)
        message = next((one for one in self.messages[channel] if one["ts"] == given["ts"]), None)
        if message is None:
            raise ApiError("message_not_found")
        if message["user"] != ME:
            raise ApiError("cant_update_message")
        text = str(given.get("text") or "")
        if not text.strip() and not given.get("blocks"):
            raise ApiError("no_text")
        if len(text) > 4000:
            raise ApiError("msg_too_long")
        sent = next(one for one in self.sent if one.ts == given["ts"])
        if "blocks" in given:
            sent.buttons = _checked_blocks(given["blocks"])
            message["blocks"] = given["blocks"]
        sent.versions.append(sent.text)
        sent.text = message["text"] = text
        return {"channel": channel, "ts": given["ts"], "text": text}

    def _do_reactions_add(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = self._chat(given["channel"])
        if given["name"] not in _REACTIONS:
            raise ApiError("invalid_name")
        if not any(one["ts"] == given["timestamp"] for one in self.messages[channel]):
            raise ApiError("message_not_found")
        reaction = (channel, given["timestamp"], given["name"])
        if reaction in self.reactions:
            raise ApiError("already_reacted")
        self.reactions.append(reaction)
        return {}

    def _do_files_getUploadURLExternal(self, given: dict[str, Any]) -> dict[str, Any]:
        if int(given["length"]) <= 0:
            raise ApiError("invalid_arguments")
        file_id = f"F{self.new_number()}"
        self._uploads[file_id] = given["filename"], b""
        return {"upload_url": f"http://{self.host}/upload/{file_id}", "file_id": file_id}

    def _do_files_completeUploadExternal(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = self._chat(given["channel_id"])
        files = json.loads(given["files"]) if isinstance(given["files"], str) else given["files"]
        for one in files:
            name, data = self._uploads.pop(one["id"], ("", b""))
            if not data:
                raise ApiError("file_not_found")
            text = given.get("initial_comment") or ""
            message = self.own(channel, text, given.get("thread_ts"))
            sent = Sent(message["ts"], channel, text, given, given.get("thread_ts"))
            sent.file = (name, data)
            self.sent.append(sent)
        return {"files": [{"id": one["id"], "title": one.get("title")} for one in files]}

    async def _upload(self, request: web.Request) -> web.Response:
        name, _ = self._uploads[request.match_info["file"]]
        if request.content_type == "multipart/form-data":
            part = await (await request.multipart()).next()
            data = bytes(await part.read())  # type: ignore[union-attr]
        else:
            data = await request.read()
        self._uploads[request.match_info["file"]] = name, data
        return web.Response(text="OK")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.bot_token}":
            raise web.HTTPFound("/login")
        data = self.files.get(request.match_info["file"])
        return web.Response(status=404) if data is None else web.Response(body=data)


def _seen(message: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    wants = str(given.get("include_all_metadata", "")).lower() in ("1", "true")
    return message if wants else {name: one for name, one in message.items() if name != "metadata"}


def _page(rows: list[dict[str, Any]], name: str, given: dict[str, Any]) -> dict[str, Any]:
    begin, limit = int(given.get("cursor") or 0), int(given.get("limit") or 100)
    if not 1 <= limit <= 999:
        raise ApiError("invalid_limit")
    more = str(begin + limit) if begin + limit < len(rows) else ""
    return {
        name: rows[begin : begin + limit], "has_more": bool(more),
        "response_metadata": {"next_cursor": more},
    }  # fmt: skip


def _checked_blocks(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The buttons of blocks that Slack would take."""
    if len(blocks) > 50:
        raise ApiError("invalid_blocks")
    buttons = []
    for block in blocks:
        if block["type"] == "section":
            fits = 1 <= len(block["text"]["text"]) <= 3000
        else:
            elements = block["elements"]
            buttons += elements
            fits = 1 <= len(elements) <= 25 and all(
                1 <= len(one["text"]["text"]) <= 75
                and 1 <= len(one["action_id"]) <= 255
                and len(one["value"]) <= 2000
                for one in elements
            )
            fits = fits and len({one["action_id"] for one in elements}) == len(elements)
        if not fits:
            raise ApiError("invalid_blocks")
    return buttons


async def _arguments(request: web.Request) -> dict[str, Any]:
    given: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        given |= await request.json()
    else:
        given |= dict(await request.post())
    return given
