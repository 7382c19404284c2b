"""Discord's messages and interactions, read into the gateway's events.

Pure: nothing here talks to Discord. A message that says nothing to the agent is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import discord

from ...config import Platform
from ...media import safe_name
from ...session import SessionSource
from ..base import MessageEvent

_SAID = (discord.MessageType.default, discord.MessageType.reply)
_QUOTED = 500
"""Characters of a message that is replied to."""
_MENTION = re.compile(r"<@!?(\d{1,20})>")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message came with."""

    url: str
    name: str
    size: int | None = None


@dataclass(slots=True)
class Incoming:
    """A message, and what is to be fetched with it."""

    event: MessageEvent
    attachments: list[Attachment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listening:
    """What of the servers' messages is for us."""

    me: int
    """Our own id."""
    require_mention: bool = True
    free_channels: frozenset[str] = frozenset()
    """Channels in which everything is for us."""


def read_message(
    message: discord.Message,
    listening: Listening,
    *,
    is_edit: bool = False,
    expected: Callable[[MessageEvent], bool] = lambda event: False,
) -> Incoming | None:
    """What a message says to the agent, if anything."""
    author = message.author
    if author.id == listening.me or author.bot or message.webhook_id is not None:
        return None
    if message.type not in _SAID or (is_edit and message.edited_at is None):
        return None  # somebody joined, …; a preview of a link was added
    attachments = [_attachment(file) for file in message.attachments]
    text = _text(message, listening.me)
    if not text and not attachments:
        return None
    source = source_of(message.channel, message.guild, author)
    source.message_id = str(message.id)
    replied = message.reference.resolved if message.reference is not None else None
    if not text.startswith("/"):
        text = _quoted(replied, listening.me) + text
    event = MessageEvent(
        text,
        source,
        str(message.id),
        reply_to=str(message.reference.message_id) if message.reference is not None else None,
        timestamp=message.edited_at if is_edit else message.created_at,
        is_edit=is_edit,
        order=message.id,
        raw=message,
    )
    if not _is_for_us(message, source, replied, listening) and not expected(event):
        return None
    return Incoming(event, attachments)


def read_command(interaction: discord.Interaction[Any]) -> MessageEvent:
    """A slash command, as the line that it stands for."""
    data: Any = interaction.data or {}
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    line = clean(" ".join([f"/{data.get('name', '')}", *values])).strip()
    return _event(interaction, line)


def read_press(interaction: discord.Interaction[Any], data: str) -> MessageEvent:
    """A pressed button that says `data`."""
    event = _event(interaction, data)
    event.button = data
    if interaction.message is not None:
        event.reply_to = str(interaction.message.id)
    return event


def _event(interaction: discord.Interaction[Any], text: str) -> MessageEvent:
    channel: Any = interaction.channel or discord.Object(interaction.channel_id or 0)
    guild = interaction.guild or (interaction.guild_id and discord.Object(interaction.guild_id))
    return MessageEvent(
        text,
        source_of(channel, guild or None, interaction.user),
        f"interaction:{interaction.id}",
        timestamp=interaction.created_at,
        order=interaction.id,
    )


def source_of(channel: Any, guild: Any, author: Any) -> SessionSource:
    """Where something came from. A thread is a conversation of its own, which its members share."""
    guild_id = guild.id if guild is not None else getattr(channel, "guild_id", None)
    is_thread = isinstance(channel, discord.Thread)
    names = [getattr(guild, "name", None), getattr(channel, "name", None)]
    return SessionSource(
        Platform.DISCORD,
        chat_id=str(channel.id),
        chat_name=clean(" / ".join(name for name in names if name))[:128] or None,
        chat_type="thread" if is_thread else "group" if guild_id is not None else "dm",
        user_id=str(author.id),
        user_name=clean(author.display_name)[:128] or None,
        thread_id=str(channel.id) if is_thread else None,
        parent_chat_id=str(channel.parent_id) if is_thread else None,
        scope_id=str(guild_id) if guild_id is not None else None,
        is_bot=author.bot,
    )


def _is_for_us(
    message: discord.Message, source: SessionSource, replied: Any, listening: Listening
) -> bool:
    if source.chat_type == "dm" or not listening.require_mention:
        return True
    if {source.chat_id, source.parent_chat_id} & listening.free_channels:
        return True
    if any(user.id == listening.me for user in message.mentions):
        return True
    return isinstance(replied, discord.Message) and replied.author.id == listening.me


def _text(message: discord.Message, me: int) -> str:
    """What a message says, without our own mention, and with names for those of others."""
    names = {str(user.id): user.display_name for user in message.mentions}

    def name(mention: re.Match[str]) -> str:
        if mention[1] == str(me):
            return ""
        return f"@{names[mention[1]]}" if mention[1] in names else mention[0]

    text = _MENTION.sub(name, message.content)
    for snapshot in message.message_snapshots:
        text += f"\n[Forwarded]\n{snapshot.content}"
    if not text.strip() and message.stickers:
        text = f"[Sticker {message.stickers[0].name}]"
    if not text.strip() and message.poll is not None:
        answers = "; ".join(answer.text for answer in message.poll.answers)
        text = f"[Poll: {message.poll.question} ({answers})]"
    return clean(text).strip()


def _quoted(replied: Any, me: int) -> str:
    """What somebody else said, where a message replies to it: the model has not seen it."""
    if not isinstance(replied, discord.Message) or replied.author.id == me or not replied.content:
        return ""
    shown = clean(replied.content)[:_QUOTED].replace("\n", "\n> ")
    return f"[In reply to {clean(replied.author.display_name)[:128]}]\n> {shown}\n\n"


def _attachment(file: discord.Attachment) -> Attachment:
    # Two files of one name are two files.
    name = f"{file.id}-{safe_name(clean(file.filename), 'file')}"
    return Attachment(file.url, name, file.size)


def clean(text: str) -> str:
    """Text that can be stored: whole characters, no zero bytes."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "")
