"""The world of the scripted Slack: chats, what stands in them, and what people do there."""

from __future__ import annotations

import asyncio
import contextlib
import html
import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BOT_TOKEN = "xoxb-1-2-token-of-the-suite"
APP_TOKEN = "xapp-1-A1-2-token-of-the-suite"
ME, TEAM = "U0HERMES", "T1"


@dataclass
class Sent:
    """A message of the app as a chat shows it."""

    ts: str
    channel: str
    text: str
    given: dict[str, Any]
    thread: str | None = None
    buttons: list[dict[str, Any]] = field(default_factory=list)
    file: tuple[str, bytes] | None = None
    versions: list[str] = field(default_factory=list)


class World:
    """Chats and messages; whoever is connected is told by `deliver`."""

    def __init__(self) -> None:
        self.host = ""
        self.sent: list[Sent] = []
        self.whispers: list[tuple[str, str]] = []
        """What was shown to one person only."""
        self.reactions: list[tuple[str, str, str]] = []
        self.members = ["D42"]
        """Chats that the app is in."""
        self.gone: set[str] = set()
        self.archived: set[str] = set()
        self.people = {"U42": {"id": "U42", "name": "ann", "profile": {"display_name": "Ann"}}}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._last = 0
        self._changed = asyncio.Condition()

    async def deliver(self, kind: str, payload: dict[str, Any]) -> str:
        """Deliver an envelope until it is acknowledged; returns its name."""
        raise NotImplementedError

    def new_number(self) -> int:
        """The next number."""
        return next(self._numbers)

    def new_ts(self) -> str:
        """The next id of a message; ids grow with time."""
        self._last = max(self._last + 1, int(time.time() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06}"

    def own(self, channel: str, text: str, thread: str | None) -> dict[str, Any]:
        """A message of the app, in its chat."""
        message = self.message(text, channel=channel, user=ME, thread=thread, bot_id="B1")
        self._keep(message, channel)
        return message

    # What people do

    def message(
        self,
        text: str = "",
        *,
        channel: str = "D42",
        user: str = "U42",
        thread: str | None = None,
        files: dict[str, bytes] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """A message as its chat keeps it."""
        message: dict[str, Any] = {
            "type": "message", "user": user, "text": text, "ts": self.new_ts(), "team": TEAM,
        }  # fmt: skip
        if thread:
            message["thread_ts"] = thread
        if files:
            message |= {"subtype": "file_share", "files": []}
        for name, data in (files or {}).items():
            file_id = f"F{self.new_number()}"
            self.files[file_id] = data
            message["files"].append({
                "id": file_id, "name": name, "size": len(data), "mode": "hosted",
                "url_private_download": f"http://{self.host}/files/{file_id}",
            })  # fmt: skip
        return {**message, **more}

    def _keep(self, message: dict[str, Any], channel: str) -> None:
        chat = self.messages.setdefault(channel, [])
        chat.append(message)
        for parent in chat:
            if parent["ts"] == message.get("thread_ts") and parent is not message:
                parent["reply_count"] = parent.get("reply_count", 0) + 1
                parent["thread_ts"] = parent["ts"]

    async def say(self, text: str = "", *, channel: str = "D42", **more: Any) -> dict[str, Any]:
        """A person writes; returns the message, with the name of its envelope."""
        message = self.message(text, channel=channel, **more)
        self._keep(message, channel)
        return await self.tell(message, channel)

    async def tell(self, message: dict[str, Any], channel: str = "D42") -> dict[str, Any]:
        """Events for a message are delivered: in channels one more if it names the app."""
        event = {name: one for name, one in message.items() if name != "envelope"}
        kind = "im" if channel.startswith("D") else "channel"
        event |= {"channel": channel, "channel_type": kind, "event_ts": message["ts"]}
        if kind == "channel" and f"<@{ME}>" in message["text"]:
            await self._event({**event, "type": "app_mention"})
        message["envelope"] = await self._event(event)
        return message

    async def rewrite(self, message: dict[str, Any], text: str, channel: str = "D42") -> None:
        """A person changes what they wrote."""
        before = {**message}
        message |= {"text": text, "edited": {"user": message["user"], "ts": self.new_ts()}}
        await self._changed_event(message, before, channel)

    async def unfurl(self, message: dict[str, Any], channel: str = "D42") -> None:
        """A preview is added to a message, which changes nothing that was said."""
        before = {**message}
        message["attachments"] = [{"from_url": "https://example.org"}]
        await self._changed_event(message, before, channel)

    async def _changed_event(self, message: Any, before: Any, channel: str) -> None:
        await self._event({
            "type": "message", "subtype": "message_changed", "channel": channel, "hidden": True,
            "message": {**message}, "previous_message": before, "ts": self.new_ts(),
            "channel_type": "im",
        })  # fmt: skip

    async def _event(self, event: dict[str, Any]) -> str:
        payload = {
            "type": "event_callback", "team_id": TEAM, "api_app_id": "A1", "event": event,
            "event_id": f"Ev{self.new_number()}", "event_time": int(time.time()),
        }  # fmt: skip
        return await self.deliver("events_api", payload)

    async def press(self, sent: Sent, label: str, *, user: str = "U42") -> str:
        """A person presses a button under a message of the app."""
        button = next(one for one in sent.buttons if one["text"]["text"] == label)
        shown = next(one for one in self.messages[sent.channel] if one["ts"] == sent.ts)
        action = {
            "type": "button", "action_id": button["action_id"], "block_id": "b",
            "value": button["value"], "action_ts": self.new_ts(),
        }  # fmt: skip
        return await self.deliver("interactive", {
            "type": "block_actions", "user": {"id": user, "username": "x", "team_id": TEAM},
            "channel": {"id": sent.channel, "name": "x"}, "message": shown, "actions": [action],
            "trigger_id": f"trigger-{self.new_number()}", "response_url": "https://hooks.slack.com/",
            "container": {"type": "message", "message_ts": sent.ts, "channel_id": sent.channel},
        })  # fmt: skip

    async def use(self, text: str, *, channel: str = "D42", user: str = "U42") -> str:
        """A person uses the slash command of the app."""
        return await self.deliver("slash_commands", {
            "command": "/hermes", "text": text, "user_id": user, "user_name": "x",
            "channel_id": channel, "team_id": TEAM, "api_app_id": "A1",
            "trigger_id": f"trigger-{self.new_number()}", "response_url": "https://hooks.slack.com/",
        })  # fmt: skip

    # What a test looks at

    def texts(self, channel: str = "D42") -> list[str]:
        """What the app's messages in a chat say."""
        return [shown(one.text) for one in self.sent if one.channel == channel]

    async def until(self, fits: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds), self._changed:
            while not fits():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.05)

    async def wait_for(self, count: int, channel: str = "D42") -> list[str]:
        """Wait until a chat shows at least `count` messages of the app."""
        await self.until(lambda: len(self.texts(channel)) >= count)
        return self.texts(channel)

    async def notify(self) -> None:
        """Something has changed."""
        async with self._changed:
            self._changed.notify_all()


def shown(text: str) -> str:
    """A text as people see it."""
    return html.unescape(re.sub(r"<([^<>|]*)(?:\|([^<>]*))?>", lambda m: m[2] or m[1], text))
