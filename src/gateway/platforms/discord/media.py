"""Files of Discord messages, fetched into the home within a limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator

import httpx

from hermes_base.certificates import certificates

from ...media import MediaTooLargeError
from ..base import AdapterHost
from .messages import Attachment, Incoming

log = logging.getLogger(__name__)

ATTEMPTS = 3
PAUSE = 1.0
FETCH_SECONDS = 120.0


class FetchError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch_all(host: AdapterHost, incoming: Incoming) -> None:
    """Fetch a message's files; one that cannot be had is named in its text."""
    for attachment in incoming.attachments:
        try:
            path = await _fetch(host, incoming.event.source.chat_id, attachment)
        except (FetchError, MediaTooLargeError, OSError) as error:
            log.warning("%s was not fetched: %s", attachment.name, error)
            incoming.event.unread.append(f"{attachment.name} could not be fetched: {error}")
            note = f"[The file {attachment.name} could not be fetched: {error}]"
            incoming.event.text = f"{incoming.event.text}\n{note}".strip()
        else:
            incoming.event.media.append(str(path))


async def _fetch(host: AdapterHost, chat_id: str, attachment: Attachment) -> object:
    limit = host.limits.media_bytes
    if attachment.size is not None and attachment.size > limit:
        raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await host.keep_file(chat_id, attachment.name, _download(attachment.url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if attempt == ATTEMPTS:
                raise FetchError(type(error).__name__) from None
            await asyncio.sleep(PAUSE * attempt)
    raise AssertionError("unreachable")


async def _download(url: str) -> AsyncGenerator[bytes, None]:
    async with (
        httpx.AsyncClient(verify=certificates(), timeout=FETCH_SECONDS) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code >= 500:
            response.raise_for_status()
        if response.status_code != 200:
            raise FetchError(f"Discord answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            yield chunk
