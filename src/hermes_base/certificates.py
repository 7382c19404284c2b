"""The trusted certificates for TLS: read once for all clients of a process."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def certificates() -> ssl.SSLContext:
    """The TLS context for a client's `verify`; loading it takes longer than many a request."""
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()
