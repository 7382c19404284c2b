"""What archives hold (XEP-0313): the account's, with its direct chats, and each room's."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from .client import Client, RefusedError
from .messages import read_archived
from .place import Mark
from .stanzas import MAM, RSM, SID, archive_query, stamp

PAGE = 50
MOST_PAGES = 400
"""How much is read of what was missed: 20,000 messages of an archive."""
CLOCK_SECONDS = 300
"""By how much our clock may be ahead of a server's."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A message in an archive."""

    id: str
    when: datetime | None
    message: ET.Element

    @property
    def names(self) -> frozenset[str]:
        """What its sender called it."""
        origin = self.message.find(f"{{{SID}}}origin-id")
        ids = {self.message.get("id", ""), origin.get("id", "") if origin is not None else ""}
        return frozenset(ids - {""})


class Archive:
    """One archive, by the address of whoever keeps it."""

    def __init__(self, client: Client, jid: str) -> None:
        self._client = client
        self.jid = jid

    async def last(self) -> Mark:
        """Its end. Raises RefusedError, BrokenError."""
        kept, _ = await self._page({}, {"max": "1", "before": ""})
        if not kept:
            return Mark()
        return Mark(kept[-1].id, _seconds(kept[-1]))

    async def after(self, mark: Mark) -> AsyncIterator[list[Kept]]:
        """What came after a place, page by page. Raises RefusedError, BrokenError."""
        fields: dict[str, str] = {}
        place = mark.id
        if not place and mark.at:
            fields = {"start": stamp(datetime.fromtimestamp(mark.at, UTC))}
        for _ in range(MOST_PAGES):
            page = {"max": str(PAGE), **({"after": place} if place else {})}
            try:
                kept, is_last = await self._page(fields, page)
            except RefusedError as error:
                if error.condition != "item-not-found" or not place or fields:
                    raise
                # It has forgotten that message. What comes twice by this is known by its name.
                fields = {"start": stamp(datetime.fromtimestamp(mark.at - CLOCK_SECONDS, UTC))}
                place = ""
                continue
            if kept:
                yield kept
                place = kept[-1].id
            if is_last or not kept:
                return

    async def find(self, name: str, chat: str, since: float, pages: int) -> bool:
        """Whether it has a message that its sender called so, from `since` on; newest first."""
        fields = {"start": stamp(datetime.fromtimestamp(since, UTC))}
        if chat != self.jid:
            fields["with"] = chat
        before = ""
        for _ in range(pages):
            kept, is_last = await self._page(fields, {"max": str(PAGE), "before": before})
            if any(name in one.names for one in kept):
                return True
            if is_last or not kept:
                break
            before = kept[0].id
        return False

    async def _page(
        self, fields: Mapping[str, str], page: Mapping[str, str]
    ) -> tuple[list[Kept], bool]:
        query = secrets.token_hex(12)
        with self._client.collecting(self.jid, query) as messages:
            answer = await self._client.ask(self.jid, archive_query(query, fields, page), "set")
            end = answer.find(f"{{{MAM}}}fin")
            is_last = end is None or end.get("complete") == "true" or not messages
            if end is not None and end.find(f"{{{RSM}}}set") is None:
                is_last = True
            read = [read_archived(message) for message in messages]
            return [Kept(*one) for one in read if one is not None], is_last


def _seconds(kept: Kept) -> int:
    return int(kept.when.timestamp()) if kept.when is not None else 0
