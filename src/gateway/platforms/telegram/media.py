"""Files of Telegram messages, fetched into the home within a limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import httpx

from hermes_base.certificates import certificates

from ...media import MediaTooLargeError
from .updates import Attachment, Incoming

if TYPE_CHECKING:
    from .adapter import TelegramAdapter

log = logging.getLogger(__name__)

ATTEMPTS = 3
PAUSE = 1.0
FETCH_SECONDS = 120.0


class FetchError(Exception):
    """A file could not be had; the text has no address in it, since addresses have the token."""


async def fetch_all(adapter: TelegramAdapter, incoming: Incoming) -> None:
    """Fetch a message's files; one that cannot be had is named in its text."""
    for attachment in incoming.attachments:
        try:
            path = await _fetch(adapter, incoming, attachment)
        except (FetchError, MediaTooLargeError, OSError) as error:
            log.warning("%s was not fetched: %s", attachment.name, error)
            incoming.event.unread.append(f"{attachment.name} could not be fetched: {error}")
            note = f"[The file {attachment.name} could not be fetched: {error}]"
            incoming.event.text = f"{incoming.event.text}\n{note}".strip()
        else:
            incoming.event.media.append(str(path))


async def _fetch(adapter: TelegramAdapter, incoming: Incoming, attachment: Attachment) -> object:
    limit = adapter.host.limits.media_bytes
    if attachment.size is not None and attachment.size > limit:
        raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            url = await _address(adapter, attachment)
            chat_id = incoming.event.source.chat_id
            return await adapter.host.keep_file(chat_id, attachment.name, _download(url))
        except httpx.HTTPError as error:
            if attempt == ATTEMPTS:
                raise FetchError(type(error).__name__) from None
            await asyncio.sleep(PAUSE * attempt)
    raise AssertionError("unreachable")


async def _address(adapter: TelegramAdapter, attachment: Attachment) -> str:
    from telegram.error import BadRequest, TelegramError

    if adapter.bot is None:
        raise FetchError("Telegram is not connected")
    try:
        file = await adapter.bot.get_file(attachment.file_id)
    except BadRequest as error:
        raise FetchError(error.message) from None
    except TelegramError as error:
        raise httpx.TransportError(error.message) from None
    if not file.file_path:
        raise FetchError("Telegram gives no address for it")
    return file.file_path


async def _download(url: str) -> AsyncGenerator[bytes, None]:
    async with (
        httpx.AsyncClient(verify=certificates(), timeout=FETCH_SECONDS) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code != 200:
            raise FetchError(f"Telegram answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            yield chunk
