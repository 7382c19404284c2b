"""Files of Signal messages: from the daemon's folder, or asked of the daemon."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...media import MediaTooLargeError
from .client import BrokenError, RpcError
from .messages import GROUP, Attachment, Incoming, group_of

if TYPE_CHECKING:
    from .adapter import SignalAdapter

log = logging.getLogger(__name__)

CHUNK = 256 * 1024
MOST_ASKED = 40 * 1024 * 1024
"""A larger file is not asked for: it comes in one line."""
FETCH_SECONDS = 120.0


class FetchError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch_all(adapter: SignalAdapter, incoming: Incoming) -> None:
    """Fetch a message's files; one that cannot be had is named in its text."""
    event = incoming.event
    for attachment in incoming.attachments:
        try:
            data = await _read(adapter, event.source.chat_id, attachment)
            path = await adapter.host.keep_file(event.source.chat_id, attachment.name, data)
            if attachment.is_long_text:
                event.text = await asyncio.to_thread(_long_text, path, event.text)
                continue
        except (FetchError, MediaTooLargeError, OSError) as error:
            log.warning("%s was not fetched: %s", attachment.name, error)
            incoming.event.unread.append(f"{attachment.name} could not be fetched: {error}")
            note = f"[The file {attachment.name} could not be fetched: {error}]"
            event.text = f"{event.text}\n{note}".strip()
        else:
            event.media.append(str(path))


def _long_text(path: Path, beginning: str) -> str:
    """The whole of a text whose beginning is in the message itself."""
    try:
        whole = path.read_text(errors="replace").replace("\x00", "").strip()
    finally:
        path.unlink(missing_ok=True)
    return whole if whole.startswith(beginning.removeprefix("/")[:100]) else beginning


async def _read(
    adapter: SignalAdapter, chat_id: str, attachment: Attachment
) -> AsyncGenerator[bytes, None]:
    limit = adapter.host.limits.media_bytes
    if not attachment.id:
        raise FetchError("signal-cli did not fetch it")
    if attachment.id != Path(attachment.id).name or attachment.id.startswith("."):
        raise FetchError("its id is the name of another place")
    if attachment.size is not None and attachment.size > limit:
        raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
    path = await asyncio.to_thread(_in_folder, adapter.attachments, attachment.id)
    if path is not None:
        return _from_file(path)
    if attachment.size is not None and attachment.size > MOST_ASKED:
        raise FetchError("it is too large to be asked for; set platforms.signal.attachments")
    return _whole(await _ask(adapter, chat_id, attachment))


def _in_folder(folder: Path | None, name: str) -> Path | None:
    """The daemon's file of that name, if it can be read from here."""
    if folder is None:
        return None
    path = folder / name
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except (OSError, ValueError):
        return None  # not ours to read: the daemon is asked


async def _from_file(path: Path) -> AsyncGenerator[bytes, None]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


async def _ask(adapter: SignalAdapter, chat_id: str, attachment: Attachment) -> bytes:
    where: dict[str, Any] = (
        {"groupId": group_of(chat_id)} if chat_id.startswith(GROUP) else {"recipient": chat_id}
    )
    try:
        answer = await adapter.call("getAttachment", {"id": attachment.id, **where}, FETCH_SECONDS)
        given = answer if isinstance(answer, str) else answer["data"]
        return base64.b64decode(given, validate=True)
    except (BrokenError, RpcError) as error:
        raise FetchError(str(error)) from error
    except (KeyError, TypeError, binascii.Error, ValueError) as error:
        raise FetchError("signal-cli answers something else") from error


async def _whole(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data
