"""Telegram's updates as they are on the wire: read into messages.

Pure: nothing here talks to a server. An update that says nothing to the agent is None; one that is
not what the Bot API describes raises MalformedUpdateError and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ...splitting import utf16_length
from ..base import MessageEvent

MESSAGE_KINDS = ("message", "edited_message", "channel_post", "edited_channel_post")
REACTION = "message_reaction"
ALLOWED_UPDATES = (*MESSAGE_KINDS, "callback_query", REACTION)
_CHAT_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}
_ENDINGS = {"voice": "ogg", "audio": "mp3", "video": "mp4", "video_note": "mp4", "animation": "mp4"}
LONGEST_TEXT = 4096
"""UTF-16 units of a message."""
_QUOTED = 500
"""Characters of a message that is replied to."""


class MalformedUpdateError(ValueError):
    """An update is not what the Bot API describes."""


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself."""

    id: int
    username: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message came with."""

    file_id: str
    name: str
    size: int | None = None
    """As Telegram says, where it does."""


@dataclass(slots=True)
class Incoming:
    """A message, and what is to be fetched or answered with it."""

    event: MessageEvent
    attachments: list[Attachment] = field(default_factory=list)
    callback_id: str | None = None
    reaction: str | None = None
    """The emoji that somebody put on a message; `event.reply_to` is which."""


def read_update(
    update: Any,
    me: Me,
    *,
    require_mention: bool = True,
    expected: Callable[[MessageEvent], bool] = lambda event: False,
) -> Incoming | None:
    """What an update says to the agent, if anything.

    `expected` says whether a message belongs to one before it: only one part of an album, or of a
    text that was split, names the bot.
    """
    try:
        if "callback_query" in update:
            return _pressed(update["callback_query"])
        if REACTION in update:
            return _reacted(update[REACTION], int(update["update_id"]), me)
        for kind in MESSAGE_KINDS:
            if kind in update:
                is_edit = kind.startswith("edited")
                incoming, addressed = _message(update[kind], me, require_mention, is_edit)
                return incoming if incoming and (addressed or expected(incoming.event)) else None
        return None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise MalformedUpdateError(f"{type(error).__name__}: {error}") from error


def update_id(update: Any) -> int | None:
    """The number by which an update is acknowledged."""
    number = update.get("update_id") if isinstance(update, Mapping) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def chat_of(update: Any) -> str:
    """The chat an update belongs to, as far as that can be told: its order matters only there."""
    try:
        for kind in MESSAGE_KINDS:
            if kind in update:
                return str(update[kind]["chat"]["id"])
        if REACTION in update:
            return str(update[REACTION]["chat"]["id"])
        return str(update["callback_query"]["message"]["chat"]["id"])
    except (KeyError, TypeError):
        return ""


def _message(
    message: dict[str, Any], me: Me, require_mention: bool, is_edit: bool
) -> tuple[Incoming | None, bool]:
    """What somebody wrote, if it can be answered, and whether it is meant for the bot."""
    source = _source(message, message.get("from") or {})
    if source.is_bot or source.user_id == str(me.id):
        return None, False
    attachments = _attachments(message)
    text = clean(message.get("text") or message.get("caption") or _described(message))
    if not text and not attachments:
        return None, False  # somebody joined, a title changed, …
    entities = message.get("entities") or message.get("caption_entities") or []
    addressed = _addressed(message, text, entities, me, require_mention, source.chat_type)
    replied = _replied(message)
    text = _without_name(text, me)
    if not text.startswith("/"):
        text = _quoted(replied, message, me) + text
    sent_at = message.get("edit_date") if is_edit else message.get("date")
    event = MessageEvent(
        text=text,
        source=source,
        message_id=str(int(message["message_id"])),
        reply_to=str(replied["message_id"]) if replied else None,
        timestamp=datetime.fromtimestamp(sent_at, UTC) if sent_at else None,
        is_edit=is_edit,
        album=clean(message["media_group_id"]) if message.get("media_group_id") else None,
        split_with=_split_with(message),
        order=int(message["message_id"]),
        raw=message,
    )
    return Incoming(event, attachments), addressed


def _split_with(message: Mapping[str, Any]) -> str | None:
    """Clients cut a text that is too long at a good place in the second half of what is allowed,
    or exactly at the limit, in the middle of a word."""
    length = utf16_length(str(message.get("text") or ""))
    if length <= LONGEST_TEXT // 2:
        return None
    return "\n" if length < LONGEST_TEXT else ""


def _pressed(query: dict[str, Any]) -> Incoming | None:
    message = query.get("message")
    if not message or not query.get("data"):
        return None  # of a message that is too old, or of a game
    source = _source({**message, "sender_chat": None}, query["from"])
    data = clean(query["data"])
    event = MessageEvent(
        text=data, source=source, message_id=f"callback:{clean(query['id'])}",
        reply_to=str(int(message["message_id"])), button=data, raw=query,
    )  # fmt: skip
    return Incoming(event, callback_id=str(query["id"]))


def _reacted(reaction: dict[str, Any], number: int, me: Me) -> Incoming | None:
    """An emoji that was put on a message; one that is taken away or is a picture says nothing."""
    before, now = reaction["old_reaction"], reaction["new_reaction"]
    added = [one["emoji"] for one in now if one["type"] == "emoji" and one not in before]
    if not added or not reaction.get("user"):
        return None  # a channel's or an anonymous administrator's: nobody who could be asked
    source = _source(reaction, reaction["user"])
    if source.is_bot or source.user_id == str(me.id):
        return None
    event = MessageEvent(
        text=clean(added[0]), source=source, message_id=f"reaction:{number}",
        reply_to=str(int(reaction["message_id"])), raw=reaction,
    )  # fmt: skip
    return Incoming(event, reaction=clean(added[0]))


def _source(message: Mapping[str, Any], sender: Mapping[str, Any]) -> SessionSource:
    chat = message["chat"]
    # Somebody who writes as a channel or as the group itself has no name of their own.
    written_as = message.get("sender_chat") or (chat if not sender else None)
    person = written_as or sender
    in_topic = message.get("is_topic_message") and message.get("message_thread_id")
    topic = _topic(message) if in_topic else ""
    return SessionSource(
        Platform.TELEGRAM,
        chat_id=str(int(chat["id"])),
        chat_name=": ".join(filter(None, (_name(chat), topic))) or None,
        chat_type=_CHAT_TYPES[chat["type"]],
        user_id=str(int(person["id"])),
        user_name=_name(person) or None,
        thread_id=str(int(message["message_thread_id"])) if in_topic else None,
        is_bot=bool(sender.get("is_bot")) and not written_as,
        message_id=str(int(message["message_id"])),
    )


def _name(person: Mapping[str, Any]) -> str:
    full = f"{person.get('first_name') or ''} {person.get('last_name') or ''}".strip()
    return clean(person.get("title") or full or person.get("username") or "")[:128]


def _addressed(
    message: Mapping[str, Any],
    text: str,
    entities: list[Any],
    me: Me,
    require_mention: bool,
    chat_type: str,
) -> bool:
    name = f"@{me.username}".lower()
    command = re.match(r"/\w+(@\w+)?", text)
    if command and command[1]:
        return command[1].lower() == name
    if chat_type == "dm" or not require_mention or command:
        return True
    if (_replied(message).get("from") or {}).get("id") == me.id:
        return True
    for entity in entities:
        if entity["type"] == "text_mention" and entity["user"]["id"] == me.id:
            return True
        if entity["type"] == "mention" and _slice(message, entity).lower() == name:
            return True
    return False


def _replied(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that one replies to. In a topic, what replies to nothing names its beginning."""
    replied = message.get("reply_to_message") or {}
    return {} if "forum_topic_created" in replied else replied


def _topic(message: Mapping[str, Any]) -> str:
    """The name of the topic that a message is in, as far as it tells."""
    begun = (message.get("reply_to_message") or {}).get("forum_topic_created") or {}
    return clean(begun.get("name") or "")[:128]


def _slice(message: Mapping[str, Any], entity: Mapping[str, Any]) -> str:
    """The text of an entity, whose place is counted in UTF-16 units."""
    text = str(message.get("text") or message.get("caption") or "")
    begin, length = int(entity["offset"]) * 2, int(entity["length"]) * 2
    units = text.encode("utf-16-le", "surrogatepass")
    return units[begin : begin + length].decode("utf-16-le", "replace")


def _without_name(text: str, me: Me) -> str:
    """The text without the bot's own name in it."""
    if not me.username:
        return text
    return re.sub(rf"[ \t]?@{re.escape(me.username)}\b", "", text, flags=re.IGNORECASE).strip()


def _quoted(replied: Mapping[str, Any], message: Mapping[str, Any], me: Me) -> str:
    """What somebody else said, where a message replies to it: the model has not seen it."""
    author = replied.get("from") or replied.get("sender_chat") or {}
    said = (message.get("quote") or {}).get("text") or replied.get("text") or replied.get("caption")
    if not said or author.get("id") == me.id:
        return ""
    shown = clean(said)[:_QUOTED].replace("\n", "\n> ")
    return f"[In reply to {_name(author) or 'somebody'}]\n> {shown}\n\n"


def _attachments(message: Mapping[str, Any]) -> list[Attachment]:
    number = int(message["message_id"])
    if sizes := message.get("photo"):
        best = max(sizes, key=lambda size: (size.get("width") or 0) * (size.get("height") or 0))
        return [_attachment(best, f"{number}-photo.jpg")]
    for kind, ending in _ENDINGS.items():
        if file := message.get(kind):
            return [_attachment(file, f"{number}-{_file_name(file, f'{kind}.{ending}')}")]
    if document := message.get("document"):
        return [_attachment(document, f"{number}-{_file_name(document, 'file')}")]
    if sticker := message.get("sticker"):
        moving = "tgs" if sticker.get("is_animated") else "webm"
        still = not (sticker.get("is_animated") or sticker.get("is_video"))
        return [_attachment(sticker, f"{number}-sticker.{'webp' if still else moving}")]
    return []


def _file_name(file: Mapping[str, Any], otherwise: str) -> str:
    """The name its sender gave a file, without the folders it may claim to be in."""
    return safe_name(clean(file.get("file_name") or ""), otherwise)


def _attachment(file: Mapping[str, Any], name: str) -> Attachment:
    size = file.get("file_size")
    return Attachment(str(file["file_id"]), name, int(size) if size is not None else None)


def _described(message: Mapping[str, Any]) -> str:
    """What a message without text is, in words."""
    for kind, name in (("voice", "Voice note"), ("video_note", "Video note")):
        if recorded := message.get(kind):
            seconds = int(recorded.get("duration") or 0)
            return f"[{name}, {seconds // 60}:{seconds % 60:02}]"
    if place := message.get("venue"):
        return f"[Place: {place['title']}, {place['address']}]"
    if place := message.get("location"):
        return f"[Location: {place['latitude']}, {place['longitude']}]"
    if contact := message.get("contact"):
        return f"[Contact: {_name(contact)}, {contact['phone_number']}]"
    if poll := message.get("poll"):
        options = "; ".join(str(option["text"]) for option in poll["options"])
        return f"[Poll: {poll['question']} ({options})]"
    if dice := message.get("dice"):
        return f"[{dice['emoji']}: {dice['value']}]"
    if sticker := message.get("sticker"):
        return f"[Sticker {sticker.get('emoji') or ''}]".replace(" ]", "]")
    return ""


def clean(text: Any) -> str:
    """Text that can be stored: whole characters, no zero bytes."""
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is no text")
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "")
