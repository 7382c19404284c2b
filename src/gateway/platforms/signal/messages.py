"""signal-cli's envelopes as they are on the wire: read into messages.

Pure: nothing here talks to the daemon. An envelope that says nothing to the agent is None; one that
is not what signal-cli describes raises MalformedEnvelopeError and nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ..base import MessageEvent
from ..typed import as_command

GROUP = "group:"
"""How the id of a group's chat begins."""
LONG_TEXT = "text/x-signal-plain"
"""The kind of file that holds the whole of a long text."""
MOST_CONTACTS = 20
_PLACE = "\ufffc"
_ENDINGS = {
    "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "image/gif": "gif",
    "audio/aac": "aac", "audio/mp4": "m4a", "audio/mpeg": "mp3", "audio/ogg": "ogg",
    "video/mp4": "mp4", "application/pdf": "pdf", "text/plain": "txt", LONG_TEXT: "txt",
}  # fmt: skip


class MalformedEnvelopeError(ValueError):
    """An envelope is not what signal-cli describes."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message came with."""

    id: str
    """What the daemon calls it; empty if it did not fetch it."""
    name: str
    size: int | None = None
    is_long_text: bool = False


@dataclass(slots=True)
class Incoming:
    """A message, and what is to be fetched with it."""

    event: MessageEvent
    author: str
    """Whose it is, and when they sent it: by that Signal names a message."""
    sent_at: int
    attachments: list[Attachment] = field(default_factory=list)
    reaction: str = ""
    """The emoji, if it is one under a message of ours."""


@dataclass(frozen=True, slots=True)
class Listening:
    """What of the messages is for us."""

    account: str
    """Our number, or our id."""
    own: Container[str] = ()
    """Every name of our account."""
    require_mention: bool = True
    note_to_self: bool = False
    listed: Container[str] = ()
    """Numbers that are in lists of the configuration."""


def identity(params: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The envelope of a notification, and the account that it is for ("" if that is not said)."""
    given = params.get("result", params) if "subscription" in params else params
    envelope = given.get("envelope") if isinstance(given, Mapping) else None
    if not isinstance(envelope, Mapping):
        raise MalformedEnvelopeError("there is no envelope")
    return envelope, str(given.get("account") or "")


def chat_of(group_id: str) -> str:
    """The id of a group's chat, which is also the name of a folder."""
    return f"{GROUP}{clean(group_id).replace('+', '-').replace('/', '_')}"


def group_of(chat_id: str) -> str:
    """Signal's own id of a group."""
    return chat_id.removeprefix(GROUP).replace("-", "+").replace("_", "/")


def name_of(envelope: Mapping[str, Any]) -> str:
    """What a message is known by, should it come again."""
    return f"{_sender(envelope)}:{envelope.get('timestamp')}"


def read_envelope(envelope: Any, listening: Listening) -> Incoming | None:
    """What an envelope says to the agent, if anything."""
    try:
        return _read(envelope, listening)
    except (
        KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError,
    ) as error:  # fmt: skip
        raise MalformedEnvelopeError(f"{type(error).__name__}: {error}") from error


def _read(envelope: Mapping[str, Any], listening: Listening) -> Incoming | None:
    sender = _sender(envelope)
    if not sender:
        return None
    if envelope.get("syncMessage"):
        return _note_to_self(envelope, listening)
    if listening.note_to_self or _is_us(envelope, "source", listening):
        return None
    edit = envelope.get("editMessage")
    data = edit["dataMessage"] if edit else envelope.get("dataMessage")
    if not data:
        return None  # a receipt, a typing sign, a call, a story
    group = data.get("groupInfo") or {}
    number = str(envelope.get("sourceNumber") or "")
    source = SessionSource(
        Platform.SIGNAL,
        chat_id=chat_of(str(group["groupId"])) if group else sender,
        chat_name=clean(str(group.get("groupName") or "")) or None,
        chat_type="group" if group else "dm",
        # A list may name somebody by number; Signal itself knows people by their ids.
        user_id=number if number and number in listening.listed else sender,
        user_id_alt=sender,
        user_name=clean(str(envelope.get("sourceName") or number or ""))[:128] or None,
    )
    return _message(data, source, sender, listening, edit)


def _note_to_self(envelope: Mapping[str, Any], listening: Listening) -> Incoming | None:
    """What the owner of our account writes to themselves on another of their devices."""
    sent = envelope["syncMessage"].get("sentMessage")
    if not sent or not listening.note_to_self or sent.get("groupInfo"):
        return None
    if not _is_us(sent, "destination", listening):
        return None
    edit = sent.get("editMessage")
    data = edit["dataMessage"] if edit else sent
    # One name for the owner, whichever the daemon knows today.
    us = listening.account
    source = SessionSource(Platform.SIGNAL, us, chat_name="Note to Self", user_id=us, user_name=us)
    alone = Listening(us, listening.own, require_mention=False)
    return _message(data, source, _sender(envelope), alone, edit)


def _message(
    data: Mapping[str, Any],
    source: SessionSource,
    sender: str,
    listening: Listening,
    edit: Mapping[str, Any] | None,
) -> Incoming | None:
    sent_at = int(data["timestamp"])
    if data.get("reaction"):
        return _reaction(data, source, sender, sent_at, listening)
    attachments = [
        _attachment(one, sent_at, number)
        for number, one in enumerate(data.get("attachments") or ())
    ]
    said = _with_mentions(str(data.get("message") or ""), data.get("mentions") or (), listening)
    text = clean("\n".join(filter(None, (said, *_described(data))))).strip()
    if data.get("viewOnce"):
        # It was sent to be seen once: nothing of it is kept.
        attachments = []
        text = text or "[A picture that may be viewed once; it was not kept]"
    if not text and not attachments:
        return None
    quote = data.get("quote") or {}
    if source.chat_type != "dm" and listening.require_mention:
        is_named = any(_is_us(one, "", listening) for one in data.get("mentions") or ())
        if not is_named and not _is_us(quote, "author", listening):
            return None
    target = int(edit["targetSentTimestamp"]) if edit else sent_at
    name = f"{sender}:{target}"
    source.message_id = name
    event = MessageEvent(
        as_command(text) or text,
        source,
        name,
        reply_to=str(quote["id"]) if quote.get("id") else None,
        timestamp=datetime.fromtimestamp(sent_at / 1000, UTC),
        is_edit=edit is not None,
        order=sent_at,
        raw=data,
    )
    return Incoming(event, sender, sent_at, attachments)


def _reaction(
    data: Mapping[str, Any],
    source: SessionSource,
    sender: str,
    sent_at: int,
    listening: Listening,
) -> Incoming | None:
    reaction = data["reaction"]
    if reaction.get("isRemove") or not _is_us(reaction, "targetAuthor", listening):
        return None
    event = MessageEvent(
        "",
        source,
        f"reaction:{sender}:{sent_at}",
        reply_to=str(int(reaction["targetSentTimestamp"])),
        timestamp=datetime.fromtimestamp(sent_at / 1000, UTC),
    )
    return Incoming(event, sender, sent_at, reaction=str(reaction["emoji"]))


def _sender(envelope: Mapping[str, Any]) -> str:
    return clean(str(envelope.get("sourceUuid") or envelope.get("source") or ""))


def _is_us(given: Mapping[str, Any], what: str, listening: Listening) -> bool:
    """Whether an address is ours, in whichever of its forms it is given."""
    forms = [f"{what}Number", f"{what}Uuid", what] if what else ["number", "uuid"]
    return any(given.get(form) in listening.own for form in forms if given.get(form))


def _with_mentions(text: str, mentions: Sequence[Mapping[str, Any]], listening: Listening) -> str:
    """A text with names where Signal has places for them; ours is left out."""
    if not mentions:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    parts, at = [], 0
    for one in sorted(mentions, key=lambda one: int(one["start"])):
        start, end = int(one["start"]), int(one["start"]) + int(one["length"])
        if not at <= start <= end <= len(units) // 2:
            continue
        name = str(one.get("name") or one.get("number") or one.get("uuid") or "")
        shown = "" if _is_us(one, "", listening) else f"@{name}"
        parts += [units[at * 2 : start * 2], shown.encode("utf-16-le", "surrogatepass")]
        at = end
    return b"".join([*parts, units[at * 2 :]]).decode("utf-16-le", "replace")


def _described(data: Mapping[str, Any]) -> list[str]:
    """What a message has beside its text, in words."""
    found = []
    if data.get("sticker"):
        found.append("[A sticker]")
    for contact in (data.get("contacts") or ())[:MOST_CONTACTS]:
        name = contact.get("name") or {}
        phones = [str(one.get("value") or "") for one in contact.get("phone") or ()]
        shown = name.get("display") or " ".join(
            filter(None, (name.get("given"), name.get("family")))
        )
        found.append(f"[A contact: {', '.join(filter(None, (str(shown or ''), *phones)))}]")
    poll = data.get("pollCreate")
    if poll:
        options = "; ".join(str(one) for one in poll.get("options") or ())
        found.append(f"[A poll: {poll.get('question')} ({options})]")
    return found


def _attachment(given: Mapping[str, Any], sent_at: int, number: int) -> Attachment:
    kind = str(given.get("contentType") or "")
    wished = clean(str(given.get("filename") or ""))
    fallback = f"file.{_ENDINGS.get(kind, 'bin')}"
    # Two files of one name are two files.
    name = safe_name(f"{sent_at}-{number}-{safe_name(wished, fallback)}")
    size = given.get("size")
    return Attachment(
        str(given.get("id") or ""), name, int(size) if size is not None else None, kind == LONG_TEXT
    )


def clean(text: str) -> str:
    """Text that can be stored: whole characters, no zero bytes, no places without a name."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "").replace(_PLACE, "")
