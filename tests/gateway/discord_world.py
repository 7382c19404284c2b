"""The world of the scripted Discord: channels, what stands in them, and what people do there."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

BOT_ID = 100000000000000000
EPOCH_MS = 1_420_070_400_000
MESSAGE_CONTENT = 1 << 15
MAX_UPLOAD = 10 * 1024 * 1024


@dataclass
class Sent:
    """A message of the bot as a channel shows it."""

    id: str
    channel_id: str
    content: str
    payload: dict[str, Any]
    buttons: list[dict[str, Any]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)


class World:
    """Channels and messages; whoever is connected is told by `tell`."""

    def __init__(self) -> None:
        self.host = ""
        self.bot_id = str(BOT_ID)
        self.sent: list[Sent] = []
        self.commands: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.guilds: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, list[dict[str, Any]]] = {}
        self._interactions: dict[str, str] = {}
        self._last_id = 0
        self._changed = asyncio.Condition()
        self.add_channel("42", "42")

    async def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Tell an event to every session that may know of it."""
        raise NotImplementedError

    # What people do

    def add_channel(
        self, channel_id: str, user_id: str = "", *, guild: str = "", parent: str = ""
    ) -> None:
        """A direct chat with somebody, a channel of a server, or a thread in one."""
        channel: dict[str, Any] = {"id": channel_id, "last_message_id": None}
        if not guild:
            channel |= {"type": 1, "recipients": [self._user(user_id)]}
        else:
            channel |= {"type": 0, "guild_id": guild, "name": f"channel-{channel_id}"}
            channel |= {"position": 0, "permission_overwrites": [], "nsfw": False}
            self.guilds.setdefault(guild, {"id": guild, "name": "Friends", "channels": []})
            if parent:
                channel |= {"type": 11, "parent_id": parent, "owner_id": "42"}
                channel |= {"message_count": 1, "member_count": 1}
                channel["thread_metadata"] = {
                    "archived": False, "auto_archive_duration": 1440, "locked": False,
                    "archive_timestamp": "2026-01-01T00:00:00+00:00",
                }  # fmt: skip
            self.guilds[guild]["channels"].append(channel_id)
        self.channels[channel_id] = channel

    def _user(self, user_id: str, name: str = "Ann") -> dict[str, Any]:
        return {
            "id": user_id, "username": name.lower(), "global_name": name, "discriminator": "0",
            "avatar": None,
        }  # fmt: skip

    def new_id(self) -> str:
        """The next id; ids grow with time, and are later than any id made of the time alone."""
        self._last_id = max(self._last_id + 1, ((int(time.time() * 1000) - EPOCH_MS) << 22) + 1)
        return str(self._last_id)

    def message(
        self,
        text: str = "",
        *,
        channel_id: str = "42",
        user_id: str = "42",
        name: str = "Ann",
        reply_to: dict[str, Any] | None = None,
        files: dict[str, bytes] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """A message as its channel keeps it."""
        channel = self.channels[channel_id]
        mentioned = dict.fromkeys(re.findall(r"<@!?(\d+)>", text))
        message_id = self.new_id()
        attachments = []
        for file_name, data in (files or {}).items():
            file_id = self.new_id()
            self.files[file_id] = data
            attachments.append({
                "id": file_id, "filename": file_name, "size": len(data),
                "url": f"http://{self.host}/cdn/{file_id}", "proxy_url": "",
            })  # fmt: skip
        message: dict[str, Any] = {
            "id": message_id, "channel_id": channel_id, "content": text,
            "author": self._user(user_id, name), "timestamp": _now(), "edited_timestamp": None,
            "tts": False, "mention_everyone": "@everyone" in text, "mention_roles": [],
            "mentions": [
                self._user(one, "Hermes" if one == str(BOT_ID) else "Bob") for one in mentioned
            ],
            "attachments": attachments, "embeds": [], "pinned": False, "type": 0,
            "components": [], "flags": 0,
        }  # fmt: skip
        if reply_to is not None:
            message |= {"type": 19, "referenced_message": reply_to}
            message["mentions"].append(reply_to["author"])
            message["message_reference"] = {
                "message_id": reply_to["id"], "channel_id": channel_id, "type": 0,
            }  # fmt: skip
        if "guild_id" in channel:
            message["guild_id"] = channel["guild_id"]
        return {**message, **more}

    async def say(self, text: str = "", **more: Any) -> dict[str, Any]:
        """A person writes; returns the message."""
        message = self.message(text, **more)
        await self.add(message)
        return message

    async def add(self, message: dict[str, Any]) -> None:
        """A message stands in its channel, and is told to whoever is connected."""
        channel = self.channels[message["channel_id"]]
        self._messages.setdefault(message["channel_id"], []).append(message)
        channel["last_message_id"] = message["id"]
        await self.tell("MESSAGE_CREATE", message)

    async def rewrite(self, message: dict[str, Any], text: str) -> None:
        """A person changes what they wrote."""
        message |= {"content": text, "edited_timestamp": _now()}
        await self.tell("MESSAGE_UPDATE", message)

    async def unfurl(self, message: dict[str, Any]) -> None:
        """A preview is added to a message, which changes nothing that was said."""
        message["embeds"] = [{"type": "link", "url": "https://example.org"}]
        await self.tell("MESSAGE_UPDATE", message)

    async def press(self, sent: Sent, label: str, *, user_id: str = "42") -> str:
        """A person presses a button under a message of the bot; returns the interaction's id."""
        button = next(one for one in sent.buttons if one["label"] == label)
        shown = next(one for one in self._messages[sent.channel_id] if one["id"] == sent.id)
        data = {"custom_id": button["custom_id"], "component_type": 2}
        return await self._interact(3, sent.channel_id, user_id, data, message=shown)

    async def use(
        self, name: str, text: str = "", *, channel_id: str = "42", user_id: str = "42"
    ) -> str:
        """A person uses a command; returns the interaction's id."""
        command = next(one for one in self.commands if one["name"] == name)
        data: dict[str, Any] = {"id": command["id"], "name": name, "type": 1}
        if text:
            assert "options" in command, f"/{name} takes nothing"
            data["options"] = [{"name": "text", "type": 3, "value": text}]
        return await self._interact(2, channel_id, user_id, data)

    async def _interact(
        self, kind: int, channel_id: str, user_id: str, data: dict[str, Any], **more: Any
    ) -> str:
        interaction_id = self.new_id()
        self._interactions[interaction_id] = f"token-{interaction_id}"
        channel = self.channels[channel_id]
        event = {
            "id": interaction_id, "application_id": str(BOT_ID), "type": kind, "data": data,
            "token": f"token-{interaction_id}", "version": 1, "channel_id": channel_id,
            "channel": channel, "locale": "en-US", "entitlements": [],
            "authorizing_integration_owners": {}, "attachment_size_limit": MAX_UPLOAD, **more,
        }  # fmt: skip
        user = self._user(user_id)
        if "guild_id" in channel:
            event["guild_id"] = channel["guild_id"]
            event["app_permissions"] = "0"
            event["member"] = {
                "user": user, "roles": [], "joined_at": _now(), "deaf": False, "mute": False,
                "flags": 0, "permissions": "0",
            }  # fmt: skip
        else:
            event["user"] = user
        await self.tell("INTERACTION_CREATE", event)
        return interaction_id

    def _readable(self, message: dict[str, Any], intents: int) -> dict[str, Any]:
        """A message without what only the Message Content intent shows."""
        names_us = any(one["id"] == str(BOT_ID) for one in message["mentions"])
        is_ours = message["author"]["id"] == str(BOT_ID)
        if "guild_id" not in message or names_us or is_ours or intents & MESSAGE_CONTENT:
            return message
        return {**message, "content": "", "attachments": [], "embeds": [], "components": []}

    # What a test looks at

    def texts(self, channel_id: str = "42") -> list[str]:
        """What the bot's messages in a channel say."""
        return [one.content for one in self.sent if one.channel_id == channel_id]

    def called(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests whose path has this in it."""
        return [body for one, where, body in self.calls if one == method and path in where]

    async def until(self, fits: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds), self._changed:
            while not fits():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.05)

    async def wait_for(self, count: int, channel_id: str = "42") -> list[str]:
        """Wait until a channel shows at least `count` messages of the bot."""
        await self.until(lambda: len(self.texts(channel_id)) >= count)
        return self.texts(channel_id)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _now() -> str:
    return datetime.now(UTC).isoformat()
