"""Files of WhatsApp messages: asked for by id, then fetched from an address that is good for
minutes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import httpx

from ...media import MediaTooLargeError
from .errors import ApiError
from .messages import Attachment, Incoming

if TYPE_CHECKING:
    from .adapter import WhatsAppAdapter

log = logging.getLogger(__name__)

ATTEMPTS = 3
PAUSE = 1.0


class FetchError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch_all(adapter: WhatsAppAdapter, incoming: Incoming) -> None:
    """Fetch a message's files; one that cannot be had is named in its text."""
    event = incoming.event
    for attachment in incoming.attachments:
        try:
            path = await _fetch(adapter, event.source.chat_id, attachment)
        except (FetchError, MediaTooLargeError, OSError) as error:
            log.warning("%s was not fetched: %s", attachment.name, error)
            note = f"[The file {attachment.name} could not be fetched: {error}]"
            event.text = f"{event.text}\n{note}".strip()
        else:
            event.media.append(str(path))


async def _fetch(adapter: WhatsAppAdapter, chat_id: str, attachment: Attachment) -> object:
    limit, api = adapter.host.limits.media_bytes, adapter.api
    for attempt in range(1, ATTEMPTS + 1):
        try:
            url, size = await api.address_of(attachment.id)
            if not api.may_see_token(url):
                raise FetchError("it does not lie at Meta's")
            if size is not None and size > limit:
                raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
            return await adapter.host.keep_file(chat_id, attachment.name, api.download(url))
        except (ApiError, httpx.HTTPError, KeyError, ValueError) as error:
            # An address that is too old is asked for again.
            if attempt == ATTEMPTS:
                raise FetchError(
                    str(error) if isinstance(error, ApiError) else "no answer"
                ) from None
            await asyncio.sleep(PAUSE * attempt)
    raise AssertionError("unreachable")
