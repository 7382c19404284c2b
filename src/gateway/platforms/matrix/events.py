"""Matrix events as they are on the wire: read into plain values, and built from texts.

Pure: nothing here talks to a server. Whatever a room holds is read without failing; an event that
says nothing to the agent is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .formatting import to_matrix_html

MAX_EVENT_BYTES = 45_000
"""A server takes 65,536 with signatures and names, and encryption adds a third; beyond this the
HTML is left out."""

_QUOTE = re.compile(r"(?:> [^\n]*(?:\n|$))+\n?")
_SAID = ("m.text", "m.emote")
_FILES = ("m.image", "m.file", "m.audio", "m.video")


class UnreadableError(Exception):
    """A message that cannot be opened, or must not be; says why."""

    def __init__(self, reason: str, *, lacks_key: bool = False) -> None:
        super().__init__(reason)
        self.lacks_key = lacks_key
        """Whether it can be opened once its key has come."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message names."""

    url: str
    """mxc://server/id, or whatever stands in its place."""
    name: str
    size: int | None = None
    """As its sender says."""
    key: Mapping[str, Any] | None = None
    """How it is decrypted, if it is encrypted."""


@dataclass(slots=True)
class Incoming:
    """Something somebody wrote in a room."""

    event_id: str
    sender: str
    text: str
    timestamp: datetime | None = None
    thread_id: str | None = None
    reply_to: str | None = None
    replaces: str | None = None
    """The message of which this is a new version."""
    mentions: frozenset[str] = frozenset()
    attachment: Attachment | None = None
    encrypted: bool = False


def read_event(source: Mapping[str, Any]) -> Incoming | None:
    """A raw event of a room's timeline as what was written; None if it is something else."""
    event_id, sender, kind = source.get("event_id"), source.get("sender"), source.get("type")
    content = source.get("content")
    if not (isinstance(event_id, str) and isinstance(sender, str) and isinstance(content, dict)):
        return None
    when = _time(source.get("origin_server_ts"))
    relation = _mapping(content.get("m.relates_to"))
    thread_id = _text(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else None
    reply_to = _text(_mapping(relation.get("m.in_reply_to")).get("event_id"))
    if kind == "m.room.encrypted":
        if not content.get("ciphertext"):
            return None  # it was taken back
        return Incoming(event_id, sender, "", when, thread_id, reply_to, encrypted=True)
    if kind != "m.room.message":
        return None
    replaces = None
    if relation.get("rel_type") == "m.replace":
        replaces = _text(relation.get("event_id"))
        content = _mapping(content.get("m.new_content"))
    if content.get("msgtype") not in (*_SAID, *_FILES):
        return None
    attachment = _attachment(content)
    body = _text(content.get("body")) or ""
    if reply_to and body.startswith("> "):
        body = _QUOTE.sub("", body, count=1)
    if attachment is not None and content.get("filename") in (None, body):
        body = ""  # it is the file's name, not a caption
    if not body.strip() and attachment is None:
        return None
    return Incoming(
        event_id, sender, body, when, thread_id, reply_to, replaces, _mentions(content), attachment
    )


def membership_change(source: Mapping[str, Any], user_id: str) -> str | None:
    """What happened to a person's membership in this event: "invite", "join", …; else None."""
    if source.get("type") != "m.room.member" or source.get("state_key") != user_id:
        return None
    now = _mapping(source.get("content")).get("membership")
    unsigned = _mapping(source.get("unsigned"))
    before = _mapping(unsigned.get("prev_content") or source.get("prev_content"))
    return None if before.get("membership") == now else _text(now)


def is_addressed(incoming: Incoming, user_id: str, names: tuple[str, ...]) -> bool:
    """Whether a message in a room is meant for us: mentioned, named in full, or called by name."""
    return (
        user_id in incoming.mentions
        or user_id in incoming.text
        or without_address(incoming.text, (user_id, *names)) != incoming.text
    )


def without_address(text: str, names: tuple[str, ...]) -> str:
    """`text` without our name at its beginning: "Hermes: hello" is "hello"."""
    for name in names:
        match = re.match(rf"\s*@?{re.escape(name)}(?:[:,]\s*|\s+|$)", text, re.IGNORECASE)
        if name and match:
            return text[match.end() :]
    return text


def text_content(
    text: str, *, thread_id: str | None = None, reply_to: str | None = None
) -> dict[str, Any]:
    """A message as it is sent: the Markdown as plain text, and as HTML."""
    content = _body(text)
    if thread_id:
        content["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread_id,
            "is_falling_back": reply_to is None,
            "m.in_reply_to": {"event_id": reply_to or thread_id},
        }
    elif reply_to:
        content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
    return fitting(content)


def edit_content(message_id: str, text: str) -> dict[str, Any]:
    """A new version of a message of ours."""
    content = {
        "msgtype": "m.text",
        "body": f"* {text}",
        "m.mentions": {},
        "m.new_content": _body(text),
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }
    if _size(content) > MAX_EVENT_BYTES:
        content["body"] = "* …"
    return fitting(content)


def fitting(content: dict[str, Any]) -> dict[str, Any]:
    """`content`, without its HTML if a server would find it too large with it."""
    if _size(content) > MAX_EVENT_BYTES:
        for part in (content, content.get("m.new_content", {})):
            part.pop("format", None)
            part.pop("formatted_body", None)
    return content


def _body(text: str) -> dict[str, Any]:
    # Said outright, so that no name in an answer rings somebody's phone.
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = to_matrix_html(text)
    if html and html != text:
        content["format"] = "org.matrix.custom.html"
        content["formatted_body"] = html
    return content


def _attachment(content: Mapping[str, Any]) -> Attachment | None:
    if content.get("msgtype") not in _FILES:
        return None
    name = _text(content.get("filename")) or _text(content.get("body")) or "file"
    size = _mapping(content.get("info")).get("size")
    secret = _mapping(content.get("file"))
    url = _text(content.get("url")) or _text(secret.get("url")) or ""
    known = size if isinstance(size, int) and not isinstance(size, bool) else None
    return Attachment(url, name, known, secret or None)


def _mentions(content: Mapping[str, Any]) -> frozenset[str]:
    listed = _mapping(content.get("m.mentions")).get("user_ids")
    mentioned = (
        {user for user in listed if isinstance(user, str)} if isinstance(listed, list) else set()
    )
    html = _text(content.get("formatted_body")) or ""
    mentioned.update(re.findall(r"https://matrix\.to/#/(@[^\"'?/]+)", html.replace("%40", "@")))
    return frozenset(user_id.replace("%3A", ":") for user_id in mentioned)


def _time(value: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(value) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _size(content: Mapping[str, Any]) -> int:
    return len(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
