"""Texts and files that IRC has no place for, put where a browser finds them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from hermes_base.certificates import certificates

SECONDS = 60.0
_ADDRESS = re.compile(r"https?://[^\s\"'<>]{1,2000}")


class PasteError(Exception):
    """The service did not take it."""


async def upload(url: str, name: str, data: bytes) -> str:
    """Put something there, as the field `file` of a form; returns its address."""
    try:
        async with httpx.AsyncClient(verify=certificates(), timeout=SECONDS) as client:
            response = await client.post(url, files={"file": (name, data)})
    except httpx.HTTPError as error:
        raise PasteError(f"the paste service does not answer: {type(error).__name__}") from error
    if not response.is_success:
        raise PasteError(f"the paste service answers {response.status_code}")
    match = _ADDRESS.search(response.text[:10_000])
    if match is None:
        raise PasteError("the paste service gives no address")
    return match[0]


def read(path: Path) -> bytes:
    """A file's bytes; raises PasteError if there is nothing to read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PasteError(f"{path.name} cannot be read: {error.strerror}") from error
