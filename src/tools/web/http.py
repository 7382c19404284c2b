"""Fetching from the web, with an end to everything.

Size, time and redirects are bounded; every hop is judged by `address` and connected to exactly
the addresses that were judged, while the server still sees, and proves, the name that was asked
for. No cookies, credentials or proxies of the surroundings are used.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes_base.certificates import certificates
from hermes_base.version import __version__

from ..base import ToolError
from .address import AllowedPrivate, Resolver, checked_addresses, system_resolver

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 5_000_000
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5
_MAX_URL = 4_000
_REDIRECTS = {301, 302, 303, 307, 308}
_HEADERS = {
    "User-Agent": f"hermes/{__version__} (self-hosted agent)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,"
    "application/pdf;q=0.8,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, slots=True)
class Response:
    """What a server answered, after redirects."""

    url: str
    status: int
    content_type: str
    body: bytes
    cut: Literal["", "size", "time"] = ""
    """Why the body is not complete, if it is not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a fetch may cost."""

    bytes: int = MAX_BYTES
    seconds: float = MAX_SECONDS
    redirects: int = MAX_REDIRECTS


async def fetch(
    url: str,
    *,
    allowed: AllowedPrivate | None = None,
    resolve: Resolver = system_resolver,
    limits: Limits | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """GET a URL; a body that is too long or too slow is cut, anything else amiss is a ToolError.

    `headers` are sent to the first server only, not to those it redirects to.
    """
    import httpx

    allowed, limits = allowed or AllowedPrivate(), limits or Limits()
    body = _Body(limits.bytes)
    response: httpx.Response | None = None
    current = checked_url(url)
    timeout = httpx.Timeout(limits.seconds, connect=10.0)
    # A kept connection could be reused for another name at the same address.
    pool = httpx.Limits(max_connections=1, max_keepalive_connections=0)
    try:
        async with (
            asyncio.timeout(limits.seconds),
            httpx.AsyncClient(
                verify=certificates(), trust_env=False, timeout=timeout, limits=pool
            ) as client,
        ):
            for hop in range(limits.redirects + 1):
                extra = headers if headers and hop == 0 else {}
                response = await _get(client, current, {**_HEADERS, **extra}, allowed, resolve)
                try:
                    target = response.headers.get("location")
                    if response.status_code not in _REDIRECTS or not target:
                        await _read(response, body)
                        return _finished(current, response, body)
                finally:
                    await response.aclose()
                current = checked_url(str(_join(current, target)))
    except TimeoutError:
        if response is None or not body.data:
            raise ToolError(
                f"{current.host} did not answer within {limits.seconds:g} seconds. "
                "Try again later, or another source."
            ) from None
        body.cut = "time"
        return _finished(current, response, body)
    except httpx.HTTPError as error:
        raise ToolError(
            f"Fetching {current} failed: {type(error).__name__}: {error}".rstrip(": ")[:600]
            + ". Check the URL or try another source."
        ) from None
    raise ToolError(f"{url} redirects more than {limits.redirects} times; it was given up.")


def checked_url(text: str) -> httpx.URL:
    """A URL that may be asked for at all: http or https, a host, no password, nothing odd."""
    import httpx

    text = text.strip()
    if "://" not in text and not text.lower().startswith(("file:", "data:", "javascript:")):
        text = f"https://{text}"
    if len(text) > _MAX_URL:
        raise ToolError(f"The URL is longer than {_MAX_URL:,} characters.")
    if any(char.isspace() or ord(char) < 32 or char == "\\" for char in text):
        raise ToolError("The URL contains spaces, control characters or backslashes; encode them.")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"{text[:200]!r} is not a valid URL: {error}.") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"Only http and https URLs can be fetched, not {url.scheme}:.")
    if url.userinfo:
        raise ToolError("A URL with a user name or password in it is not fetched. Leave it out.")
    if not url.host:
        raise ToolError(f"{text[:200]!r} names no host.")
    return url


def _join(base: httpx.URL, target: str) -> httpx.URL:
    import httpx

    try:
        return base.join(target)
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"{base} redirects to an invalid URL: {error}.") from None


async def _get(
    client: httpx.AsyncClient,
    url: httpx.URL,
    headers: Mapping[str, str],
    allowed: AllowedPrivate,
    resolve: Resolver,
) -> httpx.Response:
    """Ask the first of the host's addresses that accepts a connection."""
    import httpx

    port = url.port or (443 if url.scheme == "https" else 80)
    host = url.raw_host.decode("ascii")
    addresses = await checked_addresses(host, port, allowed, resolve)
    for number, address in enumerate(addresses, 1):
        request = client.build_request(
            "GET",
            url.copy_with(host=address, fragment=None),
            headers={**headers, "Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": host},
        )
        try:
            return await client.send(request, stream=True, follow_redirects=False)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if number == len(addresses):
                raise
    raise AssertionError("checked_addresses returns at least one")


class _Body:
    """What was received so far, unpacked, never more than its limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.cut: Literal["", "size", "time"] = ""
        self._limit = limit

    def add(self, chunk: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += chunk[:room]
        if len(chunk) > room:
            self.cut = "size"

    @property
    def room(self) -> int:
        """How many bytes may still come; one more than that shows that it is too long."""
        return self._limit - len(self.data) + 1


async def _read(response: httpx.Response, body: _Body) -> None:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"The server answered in the encoding {encoding!r}, which is not supported."
        )
    unpack = None if encoding in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)
    first = True
    async for chunk in response.aiter_raw():
        if unpack is None:
            body.add(chunk)
        else:
            if first and encoding == "deflate" and chunk[0] & 0x0F != 8:
                unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # without the header it should have
            try:
                # The limit is on what comes out: a small bomb never unfolds.
                body.add(unpack.decompress(chunk, body.room))
            except zlib.error as error:
                raise ToolError(f"The server's compressed answer is damaged: {error}.") from None
        first = False
        if body.cut:
            return


def _finished(url: httpx.URL, response: httpx.Response, body: _Body) -> Response:
    kind = response.headers.get("content-type", "")
    return Response(str(url), response.status_code, kind, bytes(body.data), body.cut)
