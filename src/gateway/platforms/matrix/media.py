"""Files of Matrix messages: fetched into the home within a limit, and uploaded; encrypted where
their rooms are."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import mimetypes
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
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


class DecryptionError(Exception):
    """An encrypted file is not what its message says."""


async def fetch(
    homeserver: str, token: str, attachment: Attachment, host: AdapterHost, chat_id: str
) -> Path:
    """A message's file on disk, kept by the host; raises MediaError if it cannot be had."""
    limit = host.limits.media_bytes
    match = _MXC.fullmatch(attachment.url)
    if match is None:
        raise MediaError(f"{attachment.name} has no address I understand")
    if attachment.size is not None and attachment.size > limit:
        raise MediaError(f"{attachment.name} is larger than {limit:,} bytes")
    url = f"{homeserver}/_matrix/client/v1/media/download/{match[1]}/{match[2]}"
    # Two files of one name are two files.
    name = f"{hashlib.sha256(attachment.url.encode()).hexdigest()[:8]}-{safe_name(attachment.name)}"
    try:
        data = _download(url, token)
        if attachment.key is not None:
            data = decrypt(data, attachment.key)
        return await host.keep_file(chat_id, name, data)
    except MediaTooLargeError as error:
        raise MediaError(str(error)) from error
    except (httpx.HTTPError, OSError) as error:
        raise MediaError(f"{attachment.name} could not be fetched: {error}") from error
    except DecryptionError as error:
        raise MediaError(f"{attachment.name} cannot be decrypted: {error}") from error


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


async def decrypt(
    data: AsyncGenerator[bytes, None], key: Mapping[str, Any]
) -> AsyncGenerator[bytes, None]:
    """The content of an encrypted file; raises DecryptionError if it is not what was sent.

    It is told at the end: what came until then must not be used.
    """
    from Crypto.Cipher import AES
    from Crypto.Util import Counter

    try:
        secret = _decode(key["key"]["k"])
        start = _decode(key["iv"])
        expected = _decode(key["hashes"]["sha256"])
        if len(start) != 16:
            raise ValueError("not sixteen bytes")
        counter = Counter.new(64, prefix=start[:8], initial_value=int.from_bytes(start[8:], "big"))
        cipher = AES.new(secret, AES.MODE_CTR, counter=counter)
    except (KeyError, TypeError, ValueError) as error:
        raise DecryptionError("its key is not one that I understand") from error
    digest = hashlib.sha256()
    async with aclosing(data):
        async for chunk in data:
            digest.update(chunk)
            yield cipher.decrypt(chunk)
    if digest.digest() != expected:
        raise DecryptionError("it was changed on its way")


def encrypt(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """A file as it is given to a server, and how it is decrypted."""
    from Crypto.Cipher import AES
    from Crypto.Util import Counter

    secret, start = os.urandom(32), os.urandom(8)
    cipher = AES.new(secret, AES.MODE_CTR, counter=Counter.new(64, prefix=start, initial_value=0))
    sealed = cipher.encrypt(data)
    key = {
        "v": "v2",
        "key": {
            "kty": "oct", "alg": "A256CTR", "ext": True, "key_ops": ["encrypt", "decrypt"],
            "k": base64.urlsafe_b64encode(secret).decode().rstrip("="),
        },
        "iv": _encode(start + bytes(8)),
        "hashes": {"sha256": _encode(hashlib.sha256(sealed).digest())},
    }  # fmt: skip
    return sealed, key


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decode(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not a text")
    plain = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


async def upload(
    homeserver: str, token: str, path: Path, is_encrypted: bool = False
) -> dict[str, Any]:
    """Give a file to the server; returns the content of the message that shows it.

    If its room `is_encrypted`, so is the file, and the server learns neither its name nor its type.
    """
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SendError(f"{path} cannot be read: {error.strerror}", permanent=True) from error
    size, shown_kind, names = len(data), kind, {"filename": path.name}
    key: dict[str, Any] | None = None
    if is_encrypted:
        data, key = await asyncio.to_thread(encrypt, data)
        shown_kind, names = "application/octet-stream", {}
    try:
        async with httpx.AsyncClient(verify=certificates(), timeout=FETCH_SECONDS) as client:
            response = await client.post(
                f"{homeserver}/_matrix/media/v3/upload",
                params=names,
                headers={"Authorization": f"Bearer {token}", "Content-Type": shown_kind},
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
    address = str(response.json()["content_uri"])
    return {
        "msgtype": f"m.{group}" if group in ("image", "audio", "video") else "m.file",
        "body": path.name,
        "filename": path.name,
        **({"url": address} if key is None else {"file": {**key, "url": address}}),
        "info": {"mimetype": kind, "size": size},
        "m.mentions": {},
    }
