"""A Graph API of our own for one WhatsApp number, with the webhook's other side, on loopback.

It checks tokens, texts, buttons, files and templates as Meta's documentation says, and fields that
it does not know, which Meta might ignore. It refuses what comes after 24 hours (later, by a status,
as Meta mostly does), and too much to one person; signs what it posts, posts it again until it is
answered with 200, and tells what became of messages. What it does not imitate is said in
docs/whatsapp.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from .whatsapp_world import ANN, DISPLAY, NUMBER, SECRET, TOKEN, VERIFY, Sent, World

__all__ = [
    "ANN", "DISPLAY", "NUMBER", "SECRET", "TOKEN", "VERIFY", "Fault", "Sent", "WhatsAppApi",
]  # fmt: skip

_COMMON = {"messaging_product", "recipient_type", "to", "recipient", "type", "context"}
_FIELDS = {
    "text": {"body", "preview_url"}, "image": {"id", "caption"}, "video": {"id", "caption"},
    "audio": {"id"}, "document": {"id", "caption", "filename"},
    "reaction": {"message_id", "emoji"}, "template": {"name", "language"},
    "interactive": {"type", "body", "action"},
}  # fmt: skip
_LIMITS = {
    "image/jpeg": 5, "image/png": 5, "video/mp4": 16, "video/3gpp": 16, "audio/aac": 16,
    "audio/amr": 16, "audio/mpeg": 16, "audio/mp4": 16, "audio/ogg": 16, "text/plain": 100,
    "application/pdf": 100, "application/msword": 100,
}  # fmt: skip
_SIGNS = {"messaging_product", "status", "message_id", "typing_indicator"}


class Refusal(Exception):
    """An error as the Graph API answers it."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


@dataclass
class Fault:
    """What is to go wrong, and how often."""

    kind: str
    """A number of an error of Meta's, html (503, no JSON), drop (nothing was done), drop_after."""
    path: str = "messages"
    """Or signs (read, typing), media (uploads), node (what is asked of a number or a file)."""
    times: int = 1
    later: bool = False
    """Whether a message is taken, and the error told by a status."""


class WhatsAppApi(World):
    """The servers. Use as `async with WhatsAppApi() as api`; may be closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN
        self.webhook = ""
        """Where the gateway listens."""
        self.templates = {("come_back", "en")}
        self.faults: list[Fault] = []
        self.outage = False
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refused = 0
        self.posted: list[tuple[int, dict[str, Any]]] = []
        """What the webhook answered to what."""
        self.refuses_at_once = False
        """Whether what comes after 24 hours is refused in the answer, not by a status."""
        self.tells = True
        """Whether statuses are told at all."""
        self.redeliver_seconds = 0.05
        self.gives_up = False
        self.pair_limit, self.pair_seconds = 0, 1.0
        """Messages to one person within so many seconds; 0 for any number."""
        self.url_seconds = 300.0
        self._moments: dict[str, list[float]] = {}
        self._uploads: dict[str, tuple[str, bytes, str]] = {}
        self._addresses: dict[str, tuple[str, float]] = {}
        self._runner: web.AppRunner | None = None
        self._http: aiohttp.ClientSession | None = None
        self._is_away = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._port = 0

    # Life

    async def __aenter__(self) -> WhatsAppApi:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        app = web.Application(client_max_size=128 * 1024 * 1024)
        app.router.add_post(f"/v23.0/{NUMBER}/messages", self._messages)
        app.router.add_post(f"/v23.0/{NUMBER}/media", self._media)
        app.router.add_get("/file/{address}", self._file)
        app.router.add_get("/v23.0/{id}", self._node)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._is_away = False
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._http = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=10)
            )

    async def go_away(self) -> None:
        """Answer nobody, and post nothing, until `open`."""
        assert self._runner is not None
        self._is_away = True
        await self._runner.cleanup()

    async def close(self) -> None:
        """End; what was not taken is not posted any more."""
        assert self._http is not None
        await self.go_away()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()
        self._http = None

    @property
    def url(self) -> str:
        """Where the Graph API is."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def connected(self) -> int:
        """Whether the gateway listens."""
        place = urlsplit(self.webhook)
        with contextlib.suppress(OSError), socket.create_connection((place.hostname, place.port)):
            return 1
        return 0

    # The webhook

    async def post(self, value: dict[str, Any]) -> asyncio.Task[None]:
        metadata = {"display_phone_number": DISPLAY, "phone_number_id": NUMBER}
        change = {
            "field": "messages",
            "value": {"messaging_product": "whatsapp", "metadata": metadata, **value},
        }
        body = {
            "object": "whatsapp_business_account",
            "entry": [{"id": "102290129340398", "changes": [change]}],
        }
        return self._spawn(self._deliver(body))

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _deliver(self, body: dict[str, Any]) -> None:
        while not self.gives_up:
            if self._is_away:
                await asyncio.sleep(self.redeliver_seconds)
                continue
            code = await self.post_once(body)
            self.posted.append((code, body))
            await self.notify()
            if code == 200:
                return
            await asyncio.sleep(self.redeliver_seconds)

    async def post_once(self, body: dict[str, Any], secret: str = SECRET) -> int:
        """Post a request; returns the answer's status, 0 if there is none."""
        assert self._http is not None
        content = json.dumps(body).encode()
        made = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={made}", "Content-Type": "application/json"}
        try:
            async with self._http.post(self.webhook, data=content, headers=headers) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def _tell_status(
        self, message_id: str, given: dict[str, Any], kind: str, code: int = 0
    ) -> None:
        status: dict[str, Any] = {
            "id": message_id, "status": kind, "timestamp": str(int(time.time())),
            "recipient_id": given.get("to") or given.get("recipient"),
        }  # fmt: skip
        if data := given.get("biz_opaque_callback_data"):
            status["biz_opaque_callback_data"] = data
        if code:
            details = {"details": "Message failed to send because …"}
            status["errors"] = [{"code": code, "title": f"error {code}", "error_data": details}]
        await self.post({"statuses": [status]})

    # Requests

    async def _guarded(self, request: web.Request, name: str, work: Any) -> web.StreamResponse:
        if self.outage:
            self.refused += 1
            return web.Response(status=503, text="<h1>Service unavailable</h1>")
        fault = next((one for one in self.faults if one.times and one.path == name), None)
        if fault is not None:
            fault.times -= 1
            self.refused += 1
        kind = fault.kind if fault else ""
        assert request.transport is not None
        if kind == "drop":
            request.transport.abort()
            return web.Response()
        if kind == "html":
            return web.Response(status=503, text="<h1>Service unavailable</h1>")
        try:
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise Refusal(190, "Error validating access token: Session has expired", 401)
            if fault is not None and kind.isdecimal() and not fault.later:
                raise Refusal(int(kind), f"error {kind}")
            later = int(kind) if fault is not None and fault.later else 0
            body, status = await work(request, later), 200
        except Refusal as error:
            body = {
                "error": {
                    "message": f"(#{error.code}) {error.message}", "type": "OAuthException",
                    "code": error.code, "fbtrace_id": "x",
                    "error_data": {"messaging_product": "whatsapp", "details": error.message},
                }
            }  # fmt: skip
            status = error.status
        await self.notify()
        if kind == "drop_after":
            request.transport.abort()
            return web.Response()
        return web.json_response(body, status=status)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        try:
            name = "signs" if "status" in await request.json() else "messages"
        except ConnectionError:
            return web.Response()  # it was killed
        return await self._guarded(request, name, self._take)

    async def _media(self, request: web.Request) -> web.StreamResponse:
        return await self._guarded(request, "media", self._upload)

    async def _node(self, request: web.Request) -> web.StreamResponse:
        return await self._guarded(request, "node", self._describe)

    async def _take(self, request: web.Request, later: int) -> dict[str, Any]:
        given = await request.json()
        if given.get("messaging_product") != "whatsapp":
            raise Refusal(100, "The parameter messaging_product is required.")
        if "status" in given:
            return self._sign(given)
        self.calls.append(("messages", given))
        kind = given.get("type", "text")
        _check(kind in _FIELDS, f"unknown type {kind}")
        _check(given.keys() <= _COMMON | {kind, "biz_opaque_callback_data"}, "unknown field")
        _check(given[kind].keys() <= _FIELDS[kind], "unknown field")
        _check(len(given.get("biz_opaque_callback_data", "")) <= 512, "too much data")
        chat = given.get("to") or given.get("recipient") or ""
        _check(bool(chat) and not ("to" in given and not chat.isdecimal()), "no recipient")
        sent = Sent(self.new_id(), chat, kind, "", given)
        self._read(sent, given[kind])
        if kind == "reaction":
            content = given["reaction"]
            self.reactions.append((chat, content["message_id"], content["emoji"]))
        else:
            self._count(chat)
            self._send(sent, later)
        contacts = [{"input": chat, "wa_id": chat}]
        return {
            "messaging_product": "whatsapp", "contacts": contacts, "messages": [{"id": sent.id}]
        }  # fmt: skip

    def _sign(self, given: dict[str, Any]) -> dict[str, Any]:
        _check(given.keys() <= _SIGNS and given["status"] == "read", "unknown status")
        _check(given["message_id"].startswith("wamid."), "no such message")
        sign = given.get("typing_indicator")
        _check(sign in (None, {"type": "text"}), "unknown sign")
        (self.typings if sign else self.read).append(given["message_id"])
        return {"success": True}

    def _send(self, sent: Sent, later: int) -> None:
        code = later
        if sent.chat in self.gone:
            code = 131026
        elif sent.kind != "template" and not self.is_open(sent.chat):
            if self.refuses_at_once:
                raise Refusal(131047, "More than 24 hours have passed")
            code = 131047
        if code == 0:
            self.sent.append(sent)
        if self.tells:
            kinds = ["failed"] if code else ["sent", "delivered"]
            self._spawn(self._tell_all(sent, kinds, code))

    async def _tell_all(self, sent: Sent, kinds: list[str], code: int) -> None:
        for kind in kinds:
            await self._tell_status(sent.id, sent.given, kind, code)

    def _read(self, sent: Sent, content: dict[str, Any]) -> None:
        kind = sent.kind
        if kind == "text":
            sent.text = content["body"]
            _check(1 <= len(sent.text) <= 4096 and sent.text.strip() != "", "text.body")
        elif kind == "template":
            name, language = content["name"], content["language"]["code"]
            if (name, language) not in self.templates:
                raise Refusal(132001, "Template name does not exist in the translation", 404)
            sent.text = f"<{name}>"
        elif kind == "interactive":
            sent.text = content["body"]["text"]
            _check(1 <= len(sent.text) <= 1024, "interactive.body")
            sent.choices = _choices(content)
        elif kind != "reaction":
            _check(content["id"] in self._uploads, "no such media")
            sent.file = self._uploads[content["id"]]
            sent.text = content.get("caption", "")
            _check(len(sent.text) <= 1024, "caption")
            _check(kind == "document" or sent.file[2].startswith(kind), "another kind of file")

    def _count(self, chat: str) -> None:
        if not self.pair_limit:
            return
        now = time.monotonic()
        recent = [one for one in self._moments.get(chat, []) if now - one < self.pair_seconds]
        if len(recent) >= self.pair_limit:
            self.refused += 1
            raise Refusal(131056, "(Business, Consumer Account) pair rate limit hit")
        self._moments[chat] = [*recent, now]

    async def _upload(self, request: web.Request, later: int) -> dict[str, Any]:
        given = await request.post()
        _check(set(given) == {"messaging_product", "type", "file"}, "unknown field")
        file, mime = given["file"], str(given["type"])
        assert isinstance(file, web.FileField)
        data = file.file.read()
        if mime not in _LIMITS or file.content_type != mime:
            raise Refusal(131053, f"Unsupported file type {mime}")
        _check(0 < len(data) <= _LIMITS[mime] * 1024 * 1024, "size")
        media_id = f"media{next(self._numbers)}"
        self._uploads[media_id] = file.filename, data, mime
        return {"id": media_id}

    async def _describe(self, request: web.Request, later: int) -> dict[str, Any]:
        name = request.match_info["id"]
        if name == NUMBER:
            return {"display_phone_number": "+1 555-078-3881", "verified_name": "Us", "id": NUMBER}
        if name not in self.files:
            raise Refusal(100, "Unsupported get request. Object does not exist")
        _check(request.query.get("phone_number_id") == NUMBER, "another number's")
        data, mime = self.files[name]
        address = f"{name}-{next(self._numbers)}"
        self._addresses[address] = name, time.monotonic()
        return {
            "url": f"{self.url}/file/{address}", "mime_type": mime, "sha256": "x",
            "file_size": len(data), "id": name, "messaging_product": "whatsapp",
        }  # fmt: skip

    async def _file(self, request: web.Request) -> web.Response:
        name, made_at = self._addresses.get(request.match_info["address"], ("", 0.0))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        if not name or time.monotonic() - made_at > self.url_seconds:
            self.refused += 1
            return web.Response(status=404)
        return web.Response(body=self.files[name][0])


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise Refusal(100, f"Invalid parameter: {what}")


def _choices(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The buttons or rows of a question that WhatsApp would show."""
    action = content["action"]
    if content["type"] == "button":
        found = [one["reply"] for one in action["buttons"]]
        most, longest = 3, 20
    else:
        _check(1 <= len(action["button"]) <= 20 and len(action["sections"]) == 1, "list")
        _check(1 <= len(action["sections"][0]["title"]) <= 24, "section")
        found = action["sections"][0]["rows"]
        most, longest = 10, 24
    _check(1 <= len(found) <= most, "number of choices")
    _check(all(1 <= len(one["title"]) <= longest for one in found), "title")
    _check(all(1 <= len(one["id"]) <= 200 for one in found), "id")
    _check(len({one["title"] for one in found}) == len(found), "the same title twice")
    _check(len({one["id"] for one in found}) == len(found), "the same id twice")
    return list(found)
