"""Classifies failures: from a status, a body or an exception to an `agent.errors` class.

Providers report the same few failures in many formats. Everything that knows a format is here, so
that the rest of the engine can act on the class alone. Messages quote the provider, shortened, and
never contain a key.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from agent.errors import (
    AuthenticationError,
    BrokenReplyError,
    ConnectionFailedError,
    ContextTooLongError,
    ModelError,
    RateLimitedError,
    RequestRefusedError,
    ServerFailedError,
)
from agent.providers.known import key_advice
from agent.providers.light_httpx import httpx
from hermes_base.redaction import redact

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|request_too_large"
    r"|string_above_max_length"
    r"|maximum (context|prompt|model|input) length|exceeds? (the )?max(imum)?( model)? length"
    r"|exceed(s|ed)?\b.{0,80}\bcontext (size|length|window|limit)"
    r"|context (size|length|window|limit)\b.{0,40}\bexceed"
    r"|(prompt|inputs?|request|messages?) (is |are )?too (long|large)"
    r"|input token (count|length)\b.{0,60}(exceeds?|too long)"
    r"|prompt token count of \d+ exceeds|exceeded model token limit|range of input length"
    r"|too large for model with \d+|greater than the context length"
    r"|tokens`? \+ .{0,20}max_(new_)?tokens.{0,30}must be"
    r"|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE | re.DOTALL,
)
_AUTHENTICATION = re.compile(
    r"authentication_error|permission_error|invalid_api_key|unauthorized|unauthenticated"
    r"|permission_denied|api key not valid",
    re.IGNORECASE,
)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|insufficient_credits|billing_", re.IGNORECASE)
_RATE_LIMIT = re.compile(
    r"rate_?limit|overloaded|too_many_requests|resource_exhausted|slow_down", re.IGNORECASE
)
_SERVER = re.compile(
    r"server_error|api_error|internal|unavailable|timeout|bad gateway", re.IGNORECASE
)
_INVALID = re.compile(r"invalid|not_found|unsupported|bad_request", re.IGNORECASE)
_LONGEST_PAGE = 20_000
"""Characters of an error page that are read."""
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


class Peer(NamedTuple):
    """Whom we talk to, as far as an error message needs to know."""

    provider: str
    model: str
    address: str
    """Scheme, host and port; never a path, a user or a query, which may carry secrets."""
    api_key: str
    timeout: float


class _Problem(NamedTuple):
    kind: str
    """The provider's own codes and types, joined."""
    words: str
    code: int | None = None
    """An HTTP status the body names itself, for errors inside a stream that began with 200."""


def refused(peer: Peer, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error for a response whose status is not 200."""
    if 300 <= status < 400:
        return RequestRefusedError(
            f"{peer.provider} at {peer.address} answered with a redirect (HTTP {status}). Set"
            " model.base_url to the address it redirects to.",
            status=status,
            provider=peer.provider,
        )
    return _classify(peer, status, _read_body(body), _retry_after(headers))


def reported(peer: Peer, event: Any) -> ModelError:
    """The error for a failure the provider reports inside its stream (or in a body with 200)."""
    problem = _read_json(event)
    return _classify(peer, problem.code, problem, None)


def disconnected(peer: Peer, error: Exception, *, begun: bool) -> ModelError:
    """The error for an exception of the HTTP client; `begun` says the answer had begun."""
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return RequestRefusedError(
            f"{peer.provider} cannot be asked at {peer.address!r}: {_tidy(peer, str(error))}. Set"
            " model.base_url to an address such as https://example.com/v1.",
            provider=peer.provider,
        )
    if isinstance(error, httpx.ReadTimeout):
        return ConnectionFailedError(
            f"{peer.provider} at {peer.address} sent nothing for {peer.timeout:g} seconds. Try"
            " again, or raise model.timeout.",
            provider=peer.provider,
        )
    if begun and isinstance(error, httpx.RemoteProtocolError | httpx.DecodingError):
        return broken(peer, f"the connection was closed in the middle ({_tidy(peer, str(error))})")
    reason = _tidy(peer, str(error)) or type(error).__name__
    what = "The connection to" if begun else "Could not reach"
    return ConnectionFailedError(
        f"{what} {peer.provider} at {peer.address}{' broke' if begun else ''}: {reason}. Check the"
        " network, and model.base_url if it is your own server.",
        provider=peer.provider,
    )


def broken(peer: Peer, detail: str) -> BrokenReplyError:
    """The error for a reply that is not what its protocol says."""
    return BrokenReplyError(
        f"The reply of {peer.provider} is broken: {_tidy(peer, detail)}. Try again.",
        provider=peer.provider,
    )


def key_unusable(peer: Peer, problem: str) -> AuthenticationError:
    """The error for a key that is not even worth sending."""
    return AuthenticationError(
        f"{problem} for {peer.provider}. {key_advice(peer.provider)}", provider=peer.provider
    )


def _classify(
    peer: Peer, status: int | None, problem: _Problem, retry_after: float | None
) -> ModelError:
    provider, kind = peer.provider, problem.kind
    words = _tidy(peer, problem.words)
    http = f" (HTTP {status})" if status else ""
    quote = f": {words}" if words else "."
    unauthorised = status in (401, 403) or (
        (status is None or status == 400) and _AUTHENTICATION.search(f"{kind} {problem.words}")
    )
    if unauthorised:
        said = f" It says: {words}" if words else ""
        return AuthenticationError(
            f"{provider} did not accept the API key{http}. {key_advice(provider)}{said}",
            status=status,
            provider=provider,
        )
    if status == 413 or _TOO_LONG.search(f"{kind} {problem.words}"):
        return ContextTooLongError(
            f"The request is too long for {peer.model}{http}{quote}",
            status=status,
            provider=provider,
        )
    if _OUT_OF_CREDIT.search(kind) or status == 402:
        return RequestRefusedError(
            f"The account at {provider} is out of credit{http}{quote}",
            status=status,
            provider=provider,
        )
    if status in (429, 529) or _RATE_LIMIT.search(kind):
        wait = f" It asks to wait {retry_after:g} seconds." if retry_after else ""
        return RateLimitedError(
            f"{provider} is limiting requests{http}{quote}{wait}",
            status=status,
            provider=provider,
            retry_after=retry_after,
        )
    # A stream that began well and then reports something unnamed failed on the provider's side.
    failed = not _INVALID.search(kind) if status is None else status >= 500
    if failed or status in (408, 409, 425) or _SERVER.search(kind):
        return ServerFailedError(
            f"{provider} failed on its side{http}{quote}",
            status=status,
            provider=provider,
            retry_after=retry_after,
        )
    hint = ""
    if status in (404, 405):
        hint = f" Check the model's name ({peer.model}) and model.base_url ({peer.address})."
    return RequestRefusedError(
        f"{provider} refused the request{http}{quote}{hint}", status=status, provider=provider
    )


def _read_body(body: bytes) -> _Problem:
    text = body.decode("utf-8", "replace").strip()
    try:
        return _read_json(json.loads(text))
    except ValueError:
        # Tags that are never closed would be looked for again and again in all that follows.
        return _Problem("", _TAG.sub(" ", text[:_LONGEST_PAGE]) if text.startswith("<") else text)


def _read_json(value: Any) -> _Problem:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return _Problem("", str(value))
    error = value.get("error") or value.get("response") or value
    if isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    if not isinstance(error, dict):
        return _Problem(str(value.get("type") or ""), str(error))
    code = error.get("code")
    kind = " ".join(str(error[key]) for key in ("type", "code", "status") if error.get(key))
    words = error.get("message") or error.get("detail") or error.get("msg") or ""
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):
        words = f"{words}: {metadata['raw']}"
    if not isinstance(words, str):
        words = json.dumps(words, ensure_ascii=False)
    number = int(str(code)) if str(code).isascii() and str(code).isdigit() else 0
    return _Problem(kind, words or kind, number if 400 <= number < 600 else None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The wish in `retry-after-ms` or `Retry-After` (seconds or an HTTP date), in seconds."""
    milliseconds = headers.get("retry-after-ms")
    text = headers.get("retry-after")
    try:
        if milliseconds is not None:
            seconds = float(milliseconds) / 1000
        elif text is None:
            return None
        elif text.strip()[:1].isalpha():
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        else:
            seconds = float(text)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _tidy(peer: Peer, text: str) -> str:
    """One line without secrets, at most 300 characters."""
    if len(peer.api_key) >= 4:
        text = text.replace(peer.api_key, "***")
    text = " ".join(redact(text).split())
    return text if len(text) <= 300 else text[:297] + "..."
