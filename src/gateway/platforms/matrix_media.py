"""Files of Matrix messages: fetched into the home within a limit, and uploaded."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from pathlib import Path
from typing import Any

import httpx

from .base import SendError
from .matrix_events import Attachment

FETCH_SECONDS = 60.0
_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]+)/([A-Za-z0-9_-]+)")
_UNSAFE = re.compile(r"[^\w.-]+")


class MediaError(Exception):
    """A file could not be had; the message is for the person who sent it."""


def file_name(url: str, name: str) -> str:
    """The name a file is kept under: its own, made harmless, after what tells it from others."""
    told = hashlib.sha256(url.encode()).hexdigest()[:16]
    return f"{told}-{_UNSAFE.sub('_', Path(name).name)[-80:].lstrip('.') or 'file'}"


async def fetch(
    homeserver: str, token: str, attachment: Attachment, folder: Path, limit: int
) -> Path:
    """A message's file on disk; one that was fetched before is not fetched again."""
    found = _MXC.fullmatch(attachment.url)
    if found is None:
        raise MediaError(f"{attachment.name} has no address I understand")
    if attachment.encrypted:
        raise MediaError(f"{attachment.name} is encrypted, which I cannot read")
    too_large = MediaError(f"{attachment.name} is larger than {limit / 1_000_000:.0f} MB")
    if attachment.size is not None and attachment.size > limit:
        raise too_large
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / file_name(attachment.url, attachment.name)
    if path.exists():
        return path
    partial = path.with_name(f"{path.name}.partial")
    url = f"{homeserver}/_matrix/client/v1/media/download/{found[1]}/{found[2]}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=True) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            response.raise_for_status()
            size = 0
            with partial.open("wb") as file:
                partial.chmod(0o600)
                async for chunk in response.aiter_bytes():
                    size += len(chunk)
                    if size > limit:
                        raise too_large
                    file.write(chunk)
        partial.replace(path)
    except (httpx.HTTPError, OSError) as error:
        raise MediaError(f"{attachment.name} could not be fetched: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return path


async def upload(homeserver: str, token: str, path: Path) -> dict[str, Any]:
    """Give a file to the server; returns the content of the message that shows it."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SendError(f"{path} cannot be read: {error.strerror}", permanent=True) from error
    try:
        async with httpx.AsyncClient(timeout=FETCH_SECONDS) as client:
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
