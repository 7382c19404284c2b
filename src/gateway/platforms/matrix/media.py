"""Files of Matrix messages: fetched into the home within a limit, and uploaded."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx

from hermes_base.certificates import certificates

from ...media import MediaTooLargeError, safe_name
from ..base import AdapterHost, SendError
from .events import Attachment

FETCH_SECONDS = 60.0
_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]+)/([A-Za-z0-9_-]+)")


class MediaError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch(
    homeserver: str, token: str, attachment: Attachment, host: AdapterHost, chat_id: str
) -> Path:
    """A message's file on disk, kept by the host; raises MediaError if it cannot be had."""
    limit = host.limits.media_bytes
    match = _MXC.fullmatch(attachment.url)
    if match is None:
        raise MediaError(f"{attachment.name} has no address I understand")
    if attachment.encrypted:
        raise MediaError(f"{attachment.name} is encrypted, which I cannot read")
    if attachment.size is not None and attachment.size > limit:
        raise MediaError(f"{attachment.name} is larger than {limit:,} bytes")
    url = f"{homeserver}/_matrix/client/v1/media/download/{match[1]}/{match[2]}"
    # Two files of one name are two files.
    name = f"{hashlib.sha256(attachment.url.encode()).hexdigest()[:8]}-{safe_name(attachment.name)}"
    try:
        return await host.keep_file(chat_id, name, _download(url, token))
    except MediaTooLargeError as error:
        raise MediaError(str(error)) from error
    except (httpx.HTTPError, OSError) as error:
        raise MediaError(f"{attachment.name} could not be fetched: {error}") from error


async def _download(url: str, token: str) -> AsyncGenerator[bytes, None]:
    async with (
        httpx.AsyncClient(
            verify=certificates(), timeout=FETCH_SECONDS, follow_redirects=True
        ) as client,
        client.stream("GET", url, headers={"Authorization": f"Bearer {token}"}) as response,
    ):
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            yield chunk


async def upload(homeserver: str, token: str, path: Path) -> dict[str, Any]:
    """Give a file to the server; returns the content of the message that shows it."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SendError(f"{path} cannot be read: {error.strerror}", permanent=True) from error
    try:
        async with httpx.AsyncClient(verify=certificates(), timeout=FETCH_SECONDS) as client:
            response = await client.post(
                f"{homeserver}/_matrix/media/v3/upload",
                params={"filename": path.name},
                headers={"Authorization": f"Bearer {token}", "Content-Type": kind},
                content=data,
            )
    except httpx.HTTPError as error:
        raise SendError(f"{path.name} could not be uploaded: {error}") from error
    if response.status_code != 200:
        wait = response.headers.get("Retry-After", "")
        raise SendError(
            f"{path.name} was not taken: {response.status_code} {response.text[:200]}",
            retry_after=float(wait) if wait.isdigit() else None,
            permanent=response.status_code in (400, 403, 413),
        )
    group = kind.partition("/")[0]
    return {
        "msgtype": f"m.{group}" if group in ("image", "audio", "video") else "m.file",
        "body": path.name,
        "filename": path.name,
        "url": str(response.json()["content_uri"]),
        "info": {"mimetype": kind, "size": len(data)},
        "m.mentions": {},
    }
