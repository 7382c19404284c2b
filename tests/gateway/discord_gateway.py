"""The gateway of the scripted Discord: sessions that are begun, cut and resumed."""

from __future__ import annotations

import contextlib
import itertools
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from .discord_world import BOT_ID, MESSAGE_CONTENT, World

TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.Gabcde.test-token-of-the-suite-000000000000"
GUILD_MESSAGES, DIRECT_MESSAGES = 1 << 9, 1 << 12
ALL_INTENTS = (1 << 25) - 1
PRIVILEGED = (1 << 1) | (1 << 8) | MESSAGE_CONTENT


@dataclass
class Session:
    """What the gateway knows of one bot's session."""

    id: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    compress: Any = None


class Gateway(World):
    """What bots are connected to."""

    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN
        self.allowed_intents = ALL_INTENTS & ~PRIVILEGED
        """Privileged ones are switched on in the portal."""
        self.identified = 0
        self.resumed = 0
        self.sessions: dict[str, Session] = {}
        self._names = itertools.count(1)

    @property
    def connected(self) -> int:
        """How many sessions have a connection."""
        return sum(one.socket is not None for one in self.sessions.values())

    async def cut(self, code: int = 4000) -> None:
        """Cut the gateway's connections; sessions can be resumed."""
        for session in self.sessions.values():
            socket, session.socket = session.socket, None
            if socket is not None:
                with contextlib.suppress(ConnectionError, RuntimeError):
                    await socket.close(code=code)

    async def forget_sessions(self) -> None:
        """Cut, and let no session be resumed."""
        await self.cut()
        self.sessions.clear()

    async def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Tell an event to every session that may know of it."""
        for session in list(self.sessions.values()):
            seen = self._visible(kind, data, session.intents)
            if seen is not None:
                await self._dispatch(session, kind, seen)

    def _visible(self, kind: str, data: dict[str, Any], intents: int) -> dict[str, Any] | None:
        if not kind.startswith("MESSAGE_"):
            return data
        if not intents & (GUILD_MESSAGES if "guild_id" in data else DIRECT_MESSAGES):
            return None
        return self._readable(data, intents)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            await socket.close(code=4012)
            return socket
        compress = None
        if wanted := request.query.get("compress"):
            assert wanted == "zlib-stream", "zstd is not imitated"
            compress = zlib.compressobj()
        hello = {"op": 10, "d": {"heartbeat_interval": 41_250}, "s": None, "t": None}
        await self._send(socket, compress, hello)
        session: Session | None = None
        try:
            async for frame in socket:
                if frame.type is not WSMsgType.TEXT:
                    break
                session = await self._taken(socket, compress, frame.data, session)
        finally:
            if session is not None and session.socket is socket:
                session.socket = None
            await self._notify()
        return socket

    async def _taken(
        self, socket: web.WebSocketResponse, compress: Any, text: str, session: Session | None
    ) -> Session | None:
        try:
            payload = json.loads(text)
            op, data = payload["op"], payload["d"]
        except (ValueError, KeyError, TypeError):
            await socket.close(code=4002)
            return session
        if len(text) > 4096:
            await socket.close(code=4002)
        elif op == 1:
            await self._send(socket, compress, {"op": 11, "d": None, "s": None, "t": None})
        elif op == 2:
            if session is not None:
                await socket.close(code=4005)
                return session
            return await self._identify(socket, compress, data)
        elif op == 6:
            return await self._resume(socket, compress, data)
        elif op in (3, 4, 8):
            if session is None:
                await socket.close(code=4003)
        else:
            await socket.close(code=4001)
        return session

    async def _identify(
        self, socket: web.WebSocketResponse, compress: Any, data: dict[str, Any]
    ) -> Session | None:
        intents = data.get("intents")
        if data.get("token") != self.token:
            await socket.close(code=4004)
        elif not isinstance(intents, int) or not 0 <= intents <= ALL_INTENTS:
            await socket.close(code=4013)
        elif intents & ~self.allowed_intents:
            await socket.close(code=4014)
        else:
            self.identified += 1
            session = Session(f"session-{next(self._names)}", intents, [], socket, compress)
            self.sessions[session.id] = session
            await self._dispatch(session, "READY", {
                "v": 10, "user": self._me(), "session_id": session.id, "session_type": "normal",
                "resume_gateway_url": f"ws://{self.host}/ws", "private_channels": [],
                "guilds": [{"id": one, "unavailable": True} for one in self.guilds],
                "application": {"id": str(BOT_ID), "flags": 0},
            })  # fmt: skip
            for guild in self.guilds.values():
                await self._dispatch(session, "GUILD_CREATE", self._guild(guild))
            return session
        return None

    async def _resume(
        self, socket: web.WebSocketResponse, compress: Any, data: dict[str, Any]
    ) -> Session | None:
        session = self.sessions.get(data.get("session_id") or "")
        if data.get("token") != self.token:
            await socket.close(code=4004)
            return None
        if session is None:
            await self._send(socket, compress, {"op": 9, "d": False, "s": None, "t": None})
            return None
        seen = data.get("seq") or 0
        if seen > len(session.events):
            await socket.close(code=4007)
            return None
        self.resumed += 1
        for event in session.events[seen:]:
            await self._send(socket, compress, event)
        session.socket, session.compress = socket, compress
        await self._dispatch(session, "RESUMED", {})
        return session

    async def _dispatch(self, session: Session, kind: str, data: dict[str, Any]) -> None:
        event = {
            "op": 0,
            "t": kind,
            "s": len(session.events) + 1,
            "d": json.loads(json.dumps(data)),
        }
        session.events.append(event)
        if session.socket is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await self._send(session.socket, session.compress, event)
        await self._notify()

    async def again(self, kind: str = "MESSAGE_CREATE") -> None:
        """The last event of a kind is told another time, under a new number."""
        for session in list(self.sessions.values()):
            event = next(one for one in reversed(session.events) if one["t"] == kind)
            await self._dispatch(session, kind, event["d"])

    async def _send(self, socket: web.WebSocketResponse, compress: Any, event: Any) -> None:
        text = json.dumps(event)
        if compress is None:
            await socket.send_str(text)
        else:
            data = compress.compress(text.encode()) + compress.flush(zlib.Z_SYNC_FLUSH)
            await socket.send_bytes(data)

    def _me(self) -> dict[str, Any]:
        return {**self._user(str(BOT_ID), "Hermes"), "bot": True, "verified": True, "flags": 0}

    def _guild(self, guild: dict[str, Any]) -> dict[str, Any]:
        channels = [self.channels[one] for one in guild["channels"]]
        role = {
            "id": guild["id"], "name": "@everyone", "color": 0, "hoist": False, "position": 0,
            "permissions": "0", "managed": False, "mentionable": False, "flags": 0,
        }  # fmt: skip
        return {
            "id": guild["id"], "name": guild["name"], "unavailable": False, "owner_id": "1",
            "member_count": 2, "roles": [role], "emojis": [], "stickers": [], "features": [],
            "members": [], "presences": [], "voice_states": [], "stage_instances": [],
            "guild_scheduled_events": [], "soundboard_sounds": [], "icon": None, "banner": None,
            "verification_level": 0, "default_message_notifications": 0, "afk_timeout": 300,
            "explicit_content_filter": 0, "mfa_level": 0, "nsfw_level": 0, "premium_tier": 0,
            "preferred_locale": "en-US", "system_channel_flags": 0, "large": False,
            "channels": [one for one in channels if one["type"] == 0],
            "threads": [one for one in channels if one["type"] == 11],
            "joined_at": "2026-01-01T00:00:00+00:00",
        }  # fmt: skip
