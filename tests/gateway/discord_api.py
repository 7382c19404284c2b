"""A Discord of our own: its gateway and its REST API on loopback, as strict as the real one where
it matters.

It counts and repeats events for a session that is resumed, hides what a bot without the right
intent may not read, checks lengths, names and fields, counts requests per channel, shapes its
errors as Discord does, and fails when it is told to. What it does not imitate is said in
docs/discord.md.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .discord_gateway import TOKEN, Gateway
from .discord_world import BOT_ID, EPOCH_MS, MAX_UPLOAD, MESSAGE_CONTENT, Sent

__all__ = ["BOT_ID", "MESSAGE_CONTENT", "TOKEN", "ApiError", "DiscordApi", "Fault", "Sent"]

_MESSAGE_FIELDS = {
    "content", "nonce", "tts", "embeds", "allowed_mentions", "message_reference", "components",
    "sticker_ids", "attachments", "flags", "enforce_nonce", "poll", "payload_json",
}  # fmt: skip
_EDIT_FIELDS = {  # the library always says "tts"
    "tts",
    "content", "embeds", "flags", "allowed_mentions", "components", "attachments", "payload_json",
}  # fmt: skip
_COMMAND_FIELDS = {
    "name", "type", "description", "options", "default_member_permissions", "nsfw", "contexts",
    "integration_types", "name_localizations", "description_localizations", "dm_permission",
}  # fmt: skip


class ApiError(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "message": message, **more}


@dataclass
class Fault:
    """What is to go wrong, how often, with requests whose path has this in it."""

    kind: str
    """429, 503, 403, drop (before anything was done) or drop_after (when all was done)."""
    path: str = ""
    times: int = 1
    retry_after: float = 0.05
    method: str = ""


class DiscordApi(Gateway):
    """The servers. Use as `async with DiscordApi() as api`; may be closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.calls: list[tuple[str, str, Any]] = []
        self.faults: list[Fault] = []
        self.outage: str | None = None
        """A kind of fault that every request meets until it is None again."""
        self.refused = 0
        self.limit = 0
        """Messages of a channel within `limit_seconds`; 0 for any number."""
        self.limit_seconds = 5.0
        self.gone: set[str] = set()
        """Channels that were deleted."""
        self.closed_to_us: set[str] = set()
        """Channels and people that do not let us write."""
        self.typing: list[str] = []
        self.reactions: list[tuple[str, str, str]] = []
        self.responses: dict[str, dict[str, Any]] = {}
        """What interactions were answered with."""
        self._nonces: dict[str, str] = {}
        self._limits: dict[str, list[float]] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    # Life

    async def __aenter__(self) -> DiscordApi:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/ws", self._gateway)
        app.router.add_get("/cdn/{name}", self._cdn)
        app.router.add_route("*", "/api/{path:.*}", self._rest)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.host = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.host}/api"

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        assert self._runner is not None
        await self.cut()
        await self._runner.cleanup()

    # Requests

    async def _cdn(self, request: web.Request) -> web.Response:
        data = self.files.get(request.match_info["name"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    def _fault(self, method: str, path: str) -> Fault | None:
        if self.outage is not None:
            self.refused += 1
            return Fault(self.outage)
        for one in self.faults:
            if one.times > 0 and one.path in path and one.method in ("", method):
                one.times -= 1
                self.refused += 1
                return one
        return None

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        fault = self._fault(request.method, path)
        if fault is not None and fault.kind == "drop":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        try:
            status, body = 200, await self._answer(request, path, fault)
            if body is None:
                status = 204
        except ApiError as error:
            status, body = error.status, error.body
        await self._notify()
        if fault is not None and fault.kind == "drop_after":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {"Via": "1.1 google"}
        if status == 429:
            wait = body["retry_after"]
            headers |= {"Retry-After": str(wait), "X-RateLimit-Reset-After": str(wait)}
            headers |= {"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": str(self.limit or 5)}
        # The library reads JSON only under exactly this name.
        headers["Content-Type"] = "application/json" if body is not None else "text/html"
        text = b"" if body is None else json.dumps(body).encode()
        return web.Response(status=status, body=text, headers=headers)

    async def _answer(self, request: web.Request, path: str, fault: Fault | None) -> Any:
        if fault is not None and fault.kind == "503":
            raise ApiError(503, 0, "503: Service Unavailable")
        if fault is not None and fault.kind == "403":
            raise ApiError(403, 50013, "Missing Permissions")
        if fault is not None and fault.kind == "429":
            self._too_many(fault.retry_after)
        if not path.startswith("/interactions/"):  # which its own token opens
            if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
                raise ApiError(403, 40333, "internal network error")
            if request.headers.get("Authorization") != f"Bot {self.token}":
                raise ApiError(401, 0, "401: Unauthorized")
        fields, files = await _body(request)
        self.calls.append((request.method, path, fields))
        parts = path.strip("/").split("/")
        match request.method, *parts:
            case "GET", "users", "@me":
                return self._me()
            case "GET", "oauth2", "applications", "@me":
                return {
                    "id": str(BOT_ID), "name": "Hermes", "icon": None, "description": "",
                    "bot_public": True, "bot_require_code_grant": False, "flags": 0,
                    "verify_key": "0", "owner": self._user("1"), "team": None, "summary": "",
                }  # fmt: skip
            case "GET", "gateway":
                return {"url": f"ws://{self.host}/ws"}
            case "PUT", "applications", _, "commands":
                return self._set_commands(fields)
            case "GET", "channels", channel_id, "messages":
                return self._history(self._channel(channel_id), request.query)
            case "POST", "channels", channel_id, "messages":
                return await self._post(self._channel(channel_id), fields, files)
            case "PATCH", "channels", channel_id, "messages", message_id:
                return self._patch(self._channel(channel_id), message_id, fields)
            case "PUT", "channels", channel_id, "messages", message_id, "reactions", emoji, "@me":
                self._find(self._channel(channel_id), message_id)
                self.reactions.append((channel_id, message_id, emoji))
                return None
            case "POST", "channels", channel_id, "typing":
                self.typing.append(self._channel(channel_id))
                return None
            case "POST", "interactions", interaction_id, token, "callback":
                self._respond(interaction_id, token, fields)
                if request.query.get("with_response") not in ("true", "True", "1"):
                    return None
                return {"interaction": {"id": interaction_id, "type": 2}}
        raise ApiError(404, 0, "404: Not Found")

    def _too_many(self, wait: float) -> None:
        body = {"retry_after": wait, "global": False}
        raise ApiError(429, 0, "You are being rate limited.", **body)

    def _count(self, channel_id: str) -> None:
        if not self.limit:
            return
        now = time.monotonic()
        since = now - self.limit_seconds
        recent = [when for when in self._limits.get(channel_id, []) if when > since]
        if len(recent) >= self.limit:
            self.refused += 1
            self._too_many(round(recent[0] + self.limit_seconds - now, 3))
        self._limits[channel_id] = [*recent, now]

    def _channel(self, channel_id: str) -> str:
        if channel_id in self.gone or channel_id not in self.channels:
            raise ApiError(404, 10003, "Unknown Channel")
        if channel_id in self.closed_to_us:
            if "guild_id" in self.channels[channel_id]:
                raise ApiError(403, 50001, "Missing Access")
            raise ApiError(403, 50007, "Cannot send messages to this user")
        return channel_id

    def _find(self, channel_id: str, message_id: str) -> dict[str, Any]:
        for message in self._messages.get(channel_id, []):
            if message["id"] == message_id:
                return message
        raise ApiError(404, 10008, "Unknown Message")

    def _history(self, channel_id: str, query: Any) -> list[dict[str, Any]]:
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= 100:
            _invalid("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
        known = sorted(self._messages.get(channel_id, []), key=lambda one: int(one["id"]))
        if "after" in query:
            known = [one for one in known if int(one["id"]) > int(query["after"])][:limit]
        elif "before" in query:
            known = [one for one in known if int(one["id"]) < int(query["before"])][-limit:]
        else:
            known = known[-limit:]
        intents = max((one.intents for one in self.sessions.values()), default=0)
        # As it is here: histories do not say which server they are of.
        shown = [dict(self._readable(one, intents)) for one in reversed(known)]
        for one in shown:
            one.pop("guild_id", None)
        return shown

    async def _post(
        self, channel_id: str, fields: dict[str, Any], files: list[tuple[str, bytes]]
    ) -> dict[str, Any]:
        self._count(channel_id)
        if unknown := fields.keys() - _MESSAGE_FIELDS:
            _invalid(sorted(unknown)[0], "UNKNOWN", "This field is not one of a message.")
        content = _checked_content(fields)
        if not content and not files:
            raise ApiError(400, 50006, "Cannot send an empty message")
        if any(len(data) > MAX_UPLOAD for _, data in files):
            raise ApiError(413, 40005, "Request entity too large")
        nonce = fields.get("nonce")
        if nonce is not None and len(str(nonce)) > 25:
            _invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
        if nonce is not None and fields.get("enforce_nonce") and str(nonce) in self._nonces:
            return self._find(channel_id, self._nonces[str(nonce)])
        buttons = _checked_components(fields.get("components") or [])
        message = self.message(content, channel_id=channel_id, user_id=str(BOT_ID), name="Hermes")
        message["author"]["bot"] = True
        parse = (fields.get("allowed_mentions") or {"parse": ["everyone"]}).get("parse", [])
        message["mention_everyone"] = "everyone" in parse and "@everyone" in content
        message["components"] = fields.get("components") or []
        self.sent.append(Sent(message["id"], channel_id, content, fields, buttons, files))
        if nonce is not None:
            self._nonces[str(nonce)] = message["id"]
        await self.add(message)
        return message

    def forget_nonces(self) -> None:
        """The few minutes for which nonces are known are over."""
        self._nonces.clear()

    def _patch(self, channel_id: str, message_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._count(channel_id)
        message = self._find(channel_id, message_id)
        if message["author"]["id"] != str(BOT_ID):
            raise ApiError(403, 50005, "Cannot edit a message authored by another user")
        if unknown := fields.keys() - _EDIT_FIELDS:
            _invalid(sorted(unknown)[0], "UNKNOWN", "This field is not one of a message.")
        sent = next(one for one in self.sent if one.id == message_id)
        if "content" in fields:
            content = _checked_content(fields)
            if not content:
                raise ApiError(400, 50006, "Cannot send an empty message")
            sent.versions.append(sent.content)
            sent.content = message["content"] = content
        return message

    def _set_commands(self, fields: Any) -> list[dict[str, Any]]:
        if not isinstance(fields, list) or len(fields) > 100:
            raise ApiError(400, 30032, "Maximum number of application commands reached (100)")
        for command in fields:
            if unknown := command.keys() - _COMMAND_FIELDS:
                _invalid(sorted(unknown)[0], "UNKNOWN", "This field is not one of a command.")
            for one in (command, *command.get("options", [])):
                if (
                    not re.fullmatch(r"[-_\w]{1,32}", one["name"])
                    or one["name"].lower() != one["name"]
                ):
                    _invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
                if not 1 <= len(one["description"]) <= 100:
                    _invalid("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100.")
        if len({one["name"] for one in fields}) != len(fields):
            _invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Command names must be unique")
        self.commands = [{**one, "id": self.new_id()} for one in fields]
        whole = {"application_id": str(BOT_ID), "version": "1", "default_member_permissions": None}
        return [{**one, **whole} for one in self.commands]

    def _respond(self, interaction_id: str, token: str, fields: dict[str, Any]) -> None:
        age = time.time() * 1000 - ((int(interaction_id) >> 22) + EPOCH_MS)
        if self._interactions.get(interaction_id) != token or age > 3000:
            raise ApiError(404, 10062, "Unknown interaction")
        if interaction_id in self.responses:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        if fields.get("type") not in (4, 5, 6, 7):
            _invalid("type", "BASE_TYPE_CHOICES", "Value must be one of (1, 4, 5, 6, 7).")
        self.responses[interaction_id] = fields


def _invalid(name: str, code: str, message: str) -> None:
    errors = {name: {"_errors": [{"code": code, "message": message}]}}
    raise ApiError(400, 50035, "Invalid Form Body", errors=errors)


def _checked_content(fields: dict[str, Any]) -> str:
    content = fields.get("content") or ""
    if not isinstance(content, str):
        _invalid("content", "STRING_TYPE_CONVERT", "Could not interpret as string.")
    if len(content.encode("utf-16-le")) // 2 > 2000:
        _invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
    return str(content).strip()


def _checked_components(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(rows) > 5 or any(not 1 <= len(row["components"]) <= 5 for row in rows):
        _invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    buttons = [one for row in rows for one in row["components"]]
    for one in buttons:
        if not 1 <= len(one["custom_id"]) <= 100:
            _invalid("custom_id", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if not 1 <= len(one["label"]) <= 80:
            _invalid("label", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 in length.")
    if len({one["custom_id"] for one in buttons}) != len(buttons):
        _invalid(
            "custom_id",
            "COMPONENT_CUSTOM_ID_DUPLICATED",
            "Component custom id cannot be duplicated",
        )
    return buttons


async def _body(request: web.Request) -> tuple[Any, list[tuple[str, bytes]]]:
    if request.content_type == "multipart/form-data":
        fields: Any = {}
        files = []
        async for part in await request.multipart():
            if part.filename is not None:  # type: ignore[union-attr]
                files.append((part.filename, bytes(await part.read())))  # type: ignore[union-attr]
            else:
                fields = json.loads(await part.text())  # type: ignore[union-attr]
        return fields, files
    text = await request.read()
    try:
        return (json.loads(text) if text else {}), []
    except ValueError as error:
        raise ApiError(400, 50109, "The request body contains invalid JSON.") from error
