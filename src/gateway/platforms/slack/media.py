"""Files of Slack messages, fetched into the home within a limit.

They are fetched with the bot's token, so only from Slack itself: a message may name a file that
lies somewhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import httpx

from hermes_base.certificates import certificates

from ...media import MediaTooLargeError
from ..base import AdapterHost
from .messages import Attachment, Incoming

log = logging.getLogger(__name__)

ATTEMPTS = 3
PAUSE = 1.0
FETCH_SECONDS = 120.0
_SLACK = (".slack.com", ".slack-files.com")


class FetchError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch_all(host: AdapterHost, incoming: Incoming, token: str, api: str) -> None:
    """Fetch a message's files; one that cannot be had is named in its text."""
    for attachment in incoming.attachments:
        try:
            path = await _fetch(host, incoming.event.source.chat_id, attachment, token, api)
        except (FetchError, MediaTooLargeError, OSError) as error:
            log.warning("%s was not fetched: %s", attachment.name, error)
            incoming.event.unread.append(f"{attachment.name} could not be fetched: {error}")
            note = f"[The file {attachment.name} could not be fetched: {error}]"
            incoming.event.text = f"{incoming.event.text}\n{note}".strip()
        else:
            incoming.event.media.append(str(path))


async def _fetch(
    host: AdapterHost, chat_id: str, attachment: Attachment, token: str, api: str
) -> object:
    limit = host.limits.media_bytes
    if not is_slack(attachment.url, api):
        raise FetchError("it does not lie on Slack")
    if attachment.size is not None and attachment.size > limit:
        raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            data = _download(attachment.url, token)
            return await host.keep_file(chat_id, attachment.name, data)
        except httpx.HTTPError as error:
            if attempt == ATTEMPTS:
                raise FetchError(type(error).__name__) from None
            await asyncio.sleep(PAUSE * attempt)
    raise AssertionError("unreachable")


def is_slack(url: str, api: str) -> bool:
    """Whether the token may be shown to whoever answers there."""
    try:
        place, ours = urlsplit(url), urlsplit(api)
        if place.netloc == ours.netloc and place.scheme == ours.scheme:
            return bool(place.netloc)
        host = (place.hostname or "").lower()
    except ValueError:
        return False
    return place.scheme == "https" and (host == "slack.com" or host.endswith(_SLACK))


async def _download(url: str, token: str) -> AsyncGenerator[bytes, None]:
    async with (
        httpx.AsyncClient(verify=certificates(), timeout=FETCH_SECONDS) as client,
        client.stream("GET", url, headers={"Authorization": f"Bearer {token}"}) as response,
    ):
        if response.status_code >= 500:
            response.raise_for_status()
        if 300 <= response.status_code < 400:
            raise FetchError("Slack wants somebody to log in: the app needs the scope files:read")
        if response.status_code != 200:
            raise FetchError(f"Slack answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            yield chunk
