"""Slack's events as they are on the wire: read into messages.

Pure: nothing here talks to Slack. An event that says nothing to the agent is None; one that is not
what Slack describes raises MalformedEventError and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ..base import MessageEvent
from ..typed import as_command
from .place import micros

_SAID = (None, "file_share", "thread_broadcast", "me_message")
_MARKED = re.compile(r"<([^<>|]{1,3000})(?:\|([^<>]{0,3000}))?>")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY = re.compile(r"&(?:lt|gt|amp);")


class MalformedEventError(ValueError):
    """An event is not what Slack describes."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message came with."""

    url: str
    """Empty if it cannot be fetched."""
    name: str
    size: int | None = None


@dataclass(slots=True)
class Incoming:
    """A message, and what is to be fetched with it."""

    event: MessageEvent
    attachments: list[Attachment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listening:
    """What of the channels' messages is for us."""

    me: str
    """Our own id, `U…`."""
    team: str = ""
    require_mention: bool = True
    free_channels: frozenset[str] = frozenset()


def read_event(event: Any, listening: Listening) -> Incoming | None:
    """What an event of the Events API says to the agent, if anything."""
    try:
        return _event(event, listening)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise MalformedEventError(f"{type(error).__name__}: {error}") from error


def read_press(payload: Any, data: str, listening: Listening) -> MessageEvent:
    """A pressed button that says `data`."""
    try:
        message, action = payload["message"], payload["actions"][0]
        source = _source(
            payload["channel"]["id"], payload["user"]["id"], message.get("thread_ts"), listening
        )
        name = f"action:{action['action_ts']}:{source.user_id}"
        return MessageEvent(data, source, name, reply_to=str(message["ts"]), button=data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise MalformedEventError(f"{type(error).__name__}: {error}") from error


def read_command(payload: Any, listening: Listening) -> MessageEvent:
    """A slash command: what stands behind its name is the command of the shared table."""
    try:
        line = f"/{_plain(str(payload.get('text') or 'help')).strip().removeprefix('/')}"
        source = _source(payload["channel_id"], payload["user_id"], None, listening)
        return MessageEvent(clean(line), source, f"command:{payload['trigger_id']}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedEventError(f"{type(error).__name__}: {error}") from error


def thread_of(event: Mapping[str, Any]) -> str | None:
    """The thread that a message stands in; None if it stands in the channel itself."""
    thread = event.get("thread_ts")
    return str(thread) if thread and thread != event.get("ts") else None


def _event(event: Mapping[str, Any], listening: Listening) -> Incoming | None:
    if event["type"] not in ("message", "app_mention"):
        return None
    is_edit = event.get("subtype") == "message_changed"
    message: Mapping[str, Any] = event["message"] if is_edit else event
    channel = str(event["channel"])
    if is_edit:
        before = event.get("previous_message") or {}
        if not message.get("edited") or before.get("text") == message.get("text"):
            return None  # a preview of a link was added
    user = message.get("user")
    if message.get("bot_id") or not user or user in (listening.me, "USLACKBOT"):
        return None
    if message.get("subtype") not in _SAID:
        return None  # somebody joined, the topic changed, …
    ts = str(message["ts"])
    raw = str(message.get("text") or "")
    is_direct = channel.startswith("D")
    if not is_direct and not _is_for_us(event, raw, channel, listening):
        return None
    attachments = [_attachment(file) for file in message.get("files") or ()]
    text = clean(_plain(_without_us(raw, listening.me))).strip()
    if not text and not attachments:
        return None
    # In a channel each question begins a thread, in which it is answered.
    thread = message.get("thread_ts") or (None if is_direct else ts)
    source = _source(channel, user, thread, listening)
    source.message_id = ts
    sent_at = str((message["edited"]["ts"] if is_edit else None) or ts)
    return Incoming(
        MessageEvent(
            as_command(text) or text,
            source,
            ts,
            reply_to=thread_of(message),
            timestamp=datetime.fromtimestamp(micros(sent_at) / 1_000_000, UTC),
            is_edit=is_edit,
            order=micros(ts),
            raw=event,
        ),
        attachments,
    )


def _source(channel: Any, user: Any, thread: Any, listening: Listening) -> SessionSource:
    channel = clean(str(channel))
    return SessionSource(
        Platform.SLACK,
        chat_id=channel,
        chat_type="dm" if channel.startswith("D") else "group",
        user_id=clean(str(user)),
        thread_id=str(thread) if thread else None,
        scope_id=listening.team or None,
    )


def _is_for_us(event: Mapping[str, Any], text: str, channel: str, listening: Listening) -> bool:
    if not listening.require_mention or channel in listening.free_channels:
        return True
    return event["type"] == "app_mention" or f"<@{listening.me}" in text


def _without_us(text: str, me: str) -> str:
    return re.sub(rf"<@{re.escape(me)}(?:\|[^<>]{{0,300}})?>", "", text)


def _plain(text: str) -> str:
    """Slack's marks as people see them."""

    def shown(mark: re.Match[str]) -> str:
        target, label = mark[1], mark[2]
        if target[:1] in "@#!":
            name = label or target[1:].partition("^")[0]
            return f"#{name}" if target[0] == "#" else f"@{name.lstrip('@')}"
        return f"{label} ({target})" if label and label not in target else target

    return _ENTITY.sub(lambda entity: _ENTITIES[entity[0]], _MARKED.sub(shown, text))


def _attachment(file: Mapping[str, Any]) -> Attachment:
    # Two files of one name are two files.
    name = f"{file['id']}-{safe_name(clean(str(file.get('name') or '')), 'file')}"
    is_ours = file.get("mode") not in ("external", "tombstone", "hidden_by_limit")
    url = file.get("url_private_download") or file.get("url_private") or ""
    size = file.get("size")
    return Attachment(
        str(url) if is_ours and not file.get("is_external") else "",
        safe_name(name),
        int(size) if size is not None else None,
    )


def clean(text: str) -> str:
    """Text that can be stored: whole characters, no zero bytes."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "")
