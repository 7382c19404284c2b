"""What Meta posts to the webhook: read into messages and statuses.

Pure: nothing here talks to Meta. A message that says nothing to the agent is None; one that is not
what Meta describes raises MalformedMessageError and nothing else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ..base import MessageEvent
from ..typed import as_command

log = logging.getLogger(__name__)

MEDIA = ("image", "document", "audio", "video", "sticker")
MOST_CONTACTS = 20
UNREADABLE = "[A message of a kind that WhatsApp does not pass on to programs]"
_ENDINGS = {
    "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "audio/aac": "aac",
    "audio/amr": "amr", "audio/mpeg": "mp3", "audio/mp4": "m4a", "audio/ogg": "ogg",
    "video/mp4": "mp4", "video/3gpp": "3gp", "application/pdf": "pdf", "text/plain": "txt",
}  # fmt: skip
_NO_DIGIT = re.compile(r"[^0-9]")


class MalformedMessageError(ValueError):
    """What was posted is not what Meta describes."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message came with."""

    id: str
    name: str


@dataclass(slots=True)
class Incoming:
    """A message, and what is to be fetched with it."""

    event: MessageEvent
    attachments: list[Attachment] = field(default_factory=list)
    reaction: str = ""
    """The emoji, if it is one under another message."""
    is_template_button: bool = False
    """Whether it is a pressed button of a template, which may only be there to open the chat."""


@dataclass(frozen=True, slots=True)
class Status:
    """What became of a message of ours."""

    message_id: str
    kind: str
    """sent, delivered, read or failed."""
    data: str = ""
    """What we sent with it to know it by."""
    chat_id: str = ""
    code: int = 0
    """Why it failed, as Meta numbers it."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Posted:
    """One request of Meta's."""

    messages: list[Incoming]
    statuses: list[Status]


def read_posted(body: Any, phone_number_id: str, listed: Mapping[str, str]) -> Posted:
    """What a request says for one number. `listed` gives the name under which a number is in the
    configuration's lists, by its digits."""
    posted = Posted([], [])
    try:
        for value in _values(body, phone_number_id):
            _read_value(value, listed, posted)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedMessageError(f"{type(error).__name__}: {error}") from error
    return posted


def read_message(
    given: Any, names: Mapping[str, str], listed: Mapping[str, str]
) -> Incoming | None:
    """What a message says to the agent, if anything."""
    try:
        return _message(given, names, listed)
    except (
        KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError, OSError,
    ) as error:  # fmt: skip
        raise MalformedMessageError(f"{type(error).__name__}: {error}") from error


def digits(number: str) -> str:
    """A number as WhatsApp writes it."""
    return _NO_DIGIT.sub("", number)


def _values(body: Any, phone_number_id: str) -> Iterator[Mapping[str, Any]]:
    if body.get("object") != "whatsapp_business_account":
        return
    for entry in body["entry"]:
        for change in entry["changes"]:
            value = change.get("value") or {}
            metadata = value.get("metadata") or {}
            # One address may be posted to for several numbers.
            if change["field"] == "messages" and metadata.get("phone_number_id") == phone_number_id:
                yield value


def _read_value(value: Mapping[str, Any], listed: Mapping[str, str], posted: Posted) -> None:
    for error in value.get("errors") or ():
        log.error("WhatsApp reports: %s %s", error.get("code"), error.get("title"))
    names = {
        str(one.get(key)): str((one.get("profile") or {}).get("name") or "")
        for one in value.get("contacts") or ()
        for key in ("wa_id", "user_id")
        if one.get(key)
    }
    for given in value.get("messages") or ():
        try:
            incoming = read_message(given, names, listed)
        except MalformedMessageError as error:
            log.warning("A message on WhatsApp cannot be read: %s", error)
            continue
        if incoming is not None:
            posted.messages.append(incoming)
    for given in value.get("statuses") or ():
        try:
            posted.statuses.append(_status(given))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            log.warning("A status on WhatsApp cannot be read: %s", error)


def _status(given: Mapping[str, Any]) -> Status:
    error = (given.get("errors") or [{}])[0]
    details = (error.get("error_data") or {}).get("details")
    return Status(
        str(given["id"]),
        str(given["status"]),
        str(given.get("biz_opaque_callback_data") or ""),
        str(given.get("recipient_id") or given.get("recipient_user_id") or ""),
        int(error.get("code") or 0),
        clean(str(details or error.get("title") or ""))[:300],
    )


def _message(
    given: Mapping[str, Any], names: Mapping[str, str], listed: Mapping[str, str]
) -> Incoming | None:
    if given.get("group_id"):
        return None  # groups of businesses; see docs/whatsapp.md
    # Somebody who hides their number has an id instead.
    sender = clean(str(given.get("from") or given.get("from_user_id") or ""))
    kind = str(given["type"])
    if not sender or kind == "system":
        return None
    source = SessionSource(
        Platform.WHATSAPP_CLOUD,
        chat_id=sender,
        user_id=listed.get(sender, sender),
        user_id_alt=sender,
        user_name=clean(names.get(sender, ""))[:128] or None,
    )
    message_id = str(given["id"])
    source.message_id = message_id
    event = MessageEvent(
        "",
        source,
        message_id,
        reply_to=str((given.get("context") or {}).get("id") or "") or None,
        timestamp=datetime.fromtimestamp(int(given.get("timestamp") or 0), UTC),
        raw=given,
    )
    incoming = Incoming(event)
    if kind == "reaction":
        incoming.reaction = str(given["reaction"].get("emoji") or "")
        event.reply_to = str(given["reaction"]["message_id"])
        return incoming if incoming.reaction else None
    if kind == "interactive":
        chosen = given["interactive"]
        reply = chosen.get("button_reply") or chosen.get("list_reply")
        if reply is None:
            event.text = UNREADABLE
            return incoming
        event.text = event.button = clean(str(reply["id"]))
        return incoming
    if kind in MEDIA:
        incoming.attachments.append(_attachment(given[kind], kind, event))
    incoming.is_template_button = kind == "button"
    text = clean(_said(given, kind)).strip()
    event.text = as_command(text) or text
    return incoming if event.text or incoming.attachments else None


def _said(given: Mapping[str, Any], kind: str) -> str:
    """What a message says, in words."""
    if kind == "text":
        return str(given["text"]["body"])
    if kind in MEDIA:
        return str(given[kind].get("caption") or "")
    if kind == "button":
        return str(given["button"].get("text") or "")
    if kind == "location":
        place = given["location"]
        where = ", ".join(str(place[key]) for key in ("name", "address") if place.get(key))
        spot = f"({place['latitude']}, {place['longitude']})"
        return f"[A place: {where} {spot}]" if where else f"[A place: {spot}]"
    if kind == "contacts":
        return "\n".join(_contact(one) for one in given["contacts"][:MOST_CONTACTS])
    return UNREADABLE


def _contact(given: Mapping[str, Any]) -> str:
    name = str((given.get("name") or {}).get("formatted_name") or "")
    phones: Sequence[Mapping[str, Any]] = given.get("phones") or ()
    numbers = [str(one.get("phone") or one.get("wa_id") or "") for one in phones]
    return f"[A contact: {', '.join(filter(None, (name, *numbers)))}]"


def _attachment(given: Mapping[str, Any], kind: str, event: MessageEvent) -> Attachment:
    mime = str(given.get("mime_type") or "").partition(";")[0].strip()
    wished = clean(str(given.get("filename") or ""))
    fallback = f"{kind}.{_ENDINGS.get(mime, 'bin')}"
    media_id = str(given["id"])
    # Two files of one name are two files.
    return Attachment(media_id, safe_name(f"{media_id[-24:]}-{safe_name(wished, fallback)}"))


def clean(text: str) -> str:
    """Text that can be stored: whole characters, no zero bytes."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "")
