"""A message as the inbox keeps it: what is stored, and the same message made of that again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .platforms.base import MessageEvent
from .session import SessionSource


def facts_of(event: MessageEvent) -> dict[str, Any]:
    """What is needed to go on with a message after a restart, besides its text."""
    facts = {
        "source": event.source.to_dict(),
        "media": event.media,
        "album": event.album,
        "split_with": event.split_with,
        "order": event.order,
        "sent_at": event.timestamp.timestamp() if event.timestamp else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def event_of(row: Mapping[str, Any]) -> MessageEvent:
    """The message of an inbox row; KeyError, ValueError or TypeError if it is none of a chat."""
    facts = row["facts"]
    sent_at = facts.get("sent_at")
    return MessageEvent(
        str(row["content"] or ""),
        SessionSource.from_dict(facts["source"]),
        row["platform_message_id"],
        list(facts.get("media") or ()),
        timestamp=datetime.fromtimestamp(sent_at, UTC) if sent_at is not None else None,
        album=facts.get("album"),
        split_with=facts.get("split_with"),
        order=facts.get("order"),
    )
