"""The Graph API: messages and files of one number."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from hermes_base.certificates import certificates

from ..last_look import look_before_sending
from .errors import ApiError

CONNECTIONS = 16
SECONDS = httpx.Timeout(30.0, connect=10.0, pool=60.0)
MEDIA_SECONDS = 120.0
_META = (".fbsbx.com", ".facebook.com", ".whatsapp.net", ".fbcdn.net")


class Api:
    """Requests in the name of one number."""

    def __init__(self, base: str, version: str, number: str, token: str) -> None:
        self._base = f"{base.rstrip('/')}/{version.strip('/')}"
        self._number = number
        self._http = httpx.AsyncClient(
            verify=certificates(),
            timeout=SECONDS,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            headers={"Authorization": f"Bearer {token}"},
            event_hooks={"request": [look_before_sending]},
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def describe(self) -> dict[str, Any]:
        """What Meta knows of the number."""
        fields = {"fields": "display_phone_number,verified_name"}
        return _answer(await self._http.get(f"{self._base}/{self._number}", params=fields))

    async def post(self, message: Mapping[str, Any]) -> str:
        """Send a message, or mark one as read; returns the message's id."""
        given = {"messaging_product": "whatsapp", **message}
        response = await self._http.post(f"{self._base}/{self._number}/messages", json=given)
        messages = _answer(response).get("messages") or [{}]
        return str(messages[0].get("id") or "")

    async def upload(self, file: Path, name: str, mime: str) -> str:
        """Put a file where a message can name it; returns its id."""
        with file.open("rb") as opened:
            response = await self._http.post(
                f"{self._base}/{self._number}/media",
                data={"messaging_product": "whatsapp", "type": mime},
                files={"file": (name, opened, mime)},
                timeout=MEDIA_SECONDS,
            )
        return str(_answer(response)["id"])

    async def address_of(self, media_id: str) -> tuple[str, int | None]:
        """Where a file can be fetched for some minutes, and its size."""
        params = {"phone_number_id": self._number}
        given = _answer(await self._http.get(f"{self._base}/{media_id}", params=params))
        size = given.get("file_size")
        return str(given["url"]), int(size) if size is not None else None

    def may_see_token(self, url: str) -> bool:
        """Whether whoever answers there may be shown the token."""
        try:
            place, ours = urlsplit(url), urlsplit(self._base)
            if place.netloc == ours.netloc and place.scheme == ours.scheme:
                return bool(place.netloc)
            host = (place.hostname or "").lower()
        except ValueError:
            return False
        return place.scheme == "https" and host.endswith(_META)

    async def download(self, url: str) -> AsyncGenerator[bytes, None]:
        """A file, piece by piece; raises ApiError if its address is good no more."""
        async with self._http.stream("GET", url, timeout=MEDIA_SECONDS) as response:
            if response.status_code != 200:
                raise ApiError(None, "the file cannot be fetched", response.status_code)
            async for chunk in response.aiter_bytes():
                yield chunk


def _answer(response: httpx.Response) -> dict[str, Any]:
    """What an answer says; raises ApiError if that is an error."""
    try:
        given = response.json()
    except (ValueError, RecursionError):
        given = None
    error = given.get("error") if isinstance(given, dict) else None
    if response.is_success and isinstance(given, dict) and error is None:
        return given
    wish = response.headers.get("retry-after", "")
    retry_after = float(wish) if wish.isdecimal() and len(wish) < 6 else None
    if not isinstance(error, dict):
        raise ApiError(None, "no error of Meta's", response.status_code, retry_after)
    details = (error.get("error_data") or {}).get("details") if error.get("error_data") else None
    code = error.get("code")
    raise ApiError(
        code if isinstance(code, int) else None,
        str(details or error.get("message") or "no reason")[:300],
        response.status_code,
        retry_after,
    )
