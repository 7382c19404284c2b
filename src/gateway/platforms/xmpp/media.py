"""Files: fetched from where their sender put them, and put where our server has a place for them.

Whoever writes names the address, so it is looked at first: only https, only hosts of the sender's
own server and those that the configuration lists, and nothing inside our network but those.
"""

from __future__ import annotations

import hashlib
import logging
import mimetypes
import ssl
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import httpx

from tools.base import ToolError
from tools.web.address import AllowedPrivate
from tools.web.http import Limits, fetch

from ...media import MediaTooLargeError, safe_name
from ..base import AdapterHost, SendError
from .client import Client, RefusedError
from .stanzas import FORMS, UPLOAD, upload_request

log = logging.getLogger(__name__)

MOST_BYTES = 50 * 1024 * 1024
"""Of a file that is fetched, whatever the configuration allows: it passes through memory."""
SECONDS = 60.0
_HEADERS = ("authorization", "cookie", "expires")
"""What a server may have us send with an upload (XEP-0363)."""


class FetchError(Exception):
    """A file could not be had; the message is for the person who sent it."""


async def fetch_file(
    host: AdapterHost, chat: str, url: str, listed: Iterable[str], whose: str
) -> Path:
    """A file on disk, kept by the host; `whose` is the address of who sent it, if that is known.

    Raises FetchError, MediaTooLargeError, and StoreError or OSError if it cannot be kept.
    """
    if url.startswith("aesgcm:"):
        raise FetchError("it is encrypted (OMEMO), which I cannot read")
    limit = min(host.limits.media_bytes, MOST_BYTES)
    listed = list(listed)
    if not is_allowed(url, whose, listed):
        raise FetchError("it does not lie on your own server; see media_hosts in docs/xmpp.md")
    names = [name.rpartition(":")[0] if name.count(":") == 1 else name for name in listed]
    try:
        response = await fetch(
            url,
            allowed=AllowedPrivate(names),
            limits=Limits(bytes=limit, seconds=SECONDS, redirects=0),
        )
    except ToolError as error:
        log.warning("%s was not fetched: %s", url, error)
        raise FetchError("its server does not give it to me") from error
    if response.status != 200:
        raise FetchError(f"its server answers {response.status}")
    if response.cut == "size":
        raise MediaTooLargeError(f"it is larger than {limit:,} bytes")
    if response.cut:
        raise FetchError("its server is too slow")
    # Two files of one name are two files.
    name = f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{name_of(url)}"
    return await host.keep_file(chat, name, _once(response.body))


def is_allowed(url: str, whose: str, listed: Iterable[str]) -> bool:
    """Whether a file may be fetched from an address that somebody has written."""
    try:
        place = urlsplit(url)
        host, port = (place.hostname or "").lower().rstrip("."), place.port
    except ValueError:
        return False
    if not host or place.username or place.password:
        return False
    for entry in listed:
        name, colon, number = entry.strip().lower().rpartition(":")
        if colon and number.isdecimal():
            if (host, port or {"https": 443, "http": 80}.get(place.scheme)) == (name, int(number)):
                return True
        elif host == entry.strip().lower() and place.scheme == "https" and port in (None, 443):
            return True
    domain = whose.rpartition("@")[2]
    own = host == domain or host.endswith(f".{domain}")
    return own and "." in domain and place.scheme == "https"


def name_of(url: str) -> str:
    """What a file is called, by its address."""
    return safe_name(unquote(urlsplit(url).path))


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


@dataclass(frozen=True, slots=True)
class UploadService:
    """Where our server takes files (XEP-0363)."""

    jid: str
    most_bytes: int | None = None


async def find_service(client: Client) -> UploadService | None:
    """The place for files of our server, if it has one. Raises BrokenError, RefusedError."""
    from .stanzas import DISCO_INFO, element

    for jid in await client.services():
        try:
            info = await client.ask(jid, element("query", DISCO_INFO))
        except RefusedError:
            continue  # a service that says nothing of itself
        features = {one.get("var") for one in info.iter(f"{{{DISCO_INFO}}}feature")}
        if UPLOAD in features:
            return UploadService(jid, _limit(info))
    return None


def _limit(info: ET.Element) -> int | None:
    for field in info.iter(f"{{{FORMS}}}field"):
        value = field.findtext(f"{{{FORMS}}}value") or ""
        if field.get("var") == "max-file-size" and value.isdecimal():
            return int(value)
    return None


async def upload(
    client: Client, service: UploadService, name: str, data: bytes, tls: ssl.SSLContext
) -> str:
    """Put a file there; returns its address. Raises SendError, RefusedError, BrokenError."""
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    answer = await client.ask(service.jid, upload_request(name, len(data), kind))
    put, get = (answer.find(f"{{{UPLOAD}}}slot/{{{UPLOAD}}}{what}") for what in ("put", "get"))
    if put is None or get is None:
        raise SendError("the server gives no place for the file", permanent=True)
    if urlsplit(put.get("url", "")).scheme != "https":
        raise SendError("the server takes files without TLS only", permanent=True)
    headers = {"Content-Type": kind}
    for header in put.iterfind(f"{{{UPLOAD}}}header"):
        label, value = header.get("name", ""), (header.text or "").replace("\r", "")
        if label.lower() in _HEADERS:
            headers[label] = value.replace("\n", "")
    try:
        async with httpx.AsyncClient(verify=tls, timeout=SECONDS, trust_env=False) as http:
            response = await http.put(put.get("url", ""), content=data, headers=headers)
    except httpx.HTTPError as error:
        raise SendError(f"the file could not be uploaded: {type(error).__name__}") from error
    if response.status_code not in (200, 201, 204):
        code = response.status_code
        raise SendError(f"the file was not taken: {code}", permanent=400 <= code < 500)
    return get.get("url", "")
