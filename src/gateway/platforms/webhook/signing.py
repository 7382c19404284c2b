"""Whether a webhook is from who it says: a signature over its body, made with a shared secret.

Two ways are understood. The first signs the delivery's id and time as well (the headers and format
of standardwebhooks.com), so nothing of it can be changed, and it is taken for a few minutes only.
The second is GitHub's: it signs the body alone, and nothing bounds when it may come again but that
its id is remembered.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Mapping

WINDOW_SECONDS = 300
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class SignatureError(Exception):
    """A request that is not signed as it should be; the message is for its sender."""


def delivery_id(headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """The name of a signed delivery; raises SignatureError. `headers` are in lower case."""
    if "webhook-signature" in headers:
        _check_standard(headers, body, secret)
        return _plain(headers["webhook-id"])
    if "x-hub-signature-256" in headers:
        signature = headers["x-hub-signature-256"]
        made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        if not _equal(signature, f"sha256={made}"):
            raise SignatureError("X-Hub-Signature-256 does not fit the body and the secret.")
        return _plain(headers.get("x-github-delivery") or made)
    raise SignatureError(
        "Sign the request: webhook-id, webhook-timestamp and webhook-signature, or"
        " X-Hub-Signature-256."
    )


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of webhook-signature."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    made = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}"


def _check_standard(headers: Mapping[str, str], body: bytes, secret: str) -> None:
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) < 15):
        raise SignatureError("webhook-id and webhook-timestamp (seconds) are needed.")
    wanted = sign(secret, message_id, int(sent_at), body)
    # Several are allowed, so that a sender may change its secret.
    if not any(_equal(part, wanted) for part in headers["webhook-signature"].split()[:10]):
        raise SignatureError("webhook-signature does not fit the request and the secret.")
    if abs(time.time() - int(sent_at)) > WINDOW_SECONDS:
        raise SignatureError(f"The request is more than {WINDOW_SECONDS // 60} minutes off.")


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            return secret.encode()
    return secret.encode()


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _plain(name: str) -> str:
    """A delivery's id as part of a session key, whatever its sender puts into it."""
    if _PLAIN.fullmatch(name):
        return name
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
