"""Keys of the API: each is one owner, compared in constant time; without any nothing is served."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request

from hermes_base.files import write_private
from hermes_base.redaction import register_secret

from .errors import ApiError

log = logging.getLogger(__name__)

KEY_FILE = "api_server.key"
DEFAULT_OWNER = "default"
SHORTEST = 16
"""Characters of a key that may be offered to other machines."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class WeakKeyError(ValueError):
    """The configured keys cannot be used."""


class Keys:
    """The keys and their owners' names."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = {name: _digest(key) for name, key in keys.items()}
        self.names = sorted(keys)

    def owner(self, key: str) -> str | None:
        """Whose key this is; every key is looked at, so that time tells nothing."""
        given, known = _digest(key), None
        for name, digest in self._digests.items():
            if hmac.compare_digest(given, digest):
                known = name
        return known

    def require(self, request: Request) -> str:
        """The owner that a request's `Authorization: Bearer` names; raises ApiError."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        owner = self.owner(key.strip()) if scheme.lower() == "bearer" else None
        if owner is None:
            raise ApiError(
                401,
                "The API key is missing or wrong. Send it as: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return owner


def load_keys(settings: Mapping[str, Any], home: Path, host: str) -> Keys:
    """The configured keys (`key`, or `keys` by owner's name); one is made if there are none."""
    keys: dict[str, str] = {}
    named = settings.get("keys")
    if isinstance(named, Mapping):
        keys |= {str(name): str(key) for name, key in named.items() if key}
    if settings.get("key"):
        keys.setdefault(DEFAULT_OWNER, str(settings["key"]))
    if not keys:
        keys[DEFAULT_OWNER] = kept_key(home / KEY_FILE)
    for name, key in keys.items():
        if host not in LOOPBACK and len(key) < SHORTEST:
            raise WeakKeyError(
                f"The API key {name!r} is too short to be offered on {host}: use at least"
                f" {SHORTEST} characters, or listen on 127.0.0.1 only."
            )
        register_secret(key)
    return Keys(keys)


def kept_key(path: Path) -> str:
    """The key in a private file, made at the first start."""
    try:
        kept = path.read_text(encoding="ascii").strip()
        if kept:
            return kept
    except FileNotFoundError:
        pass
    key = secrets.token_urlsafe(32)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, key + "\n")
    log.warning("API_SERVER_KEY is not set; a key was made and is in %s", path)
    return key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
