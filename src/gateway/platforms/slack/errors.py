"""What Slack refuses, as the gateway understands it."""

from __future__ import annotations

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from ..base import SendError

FAILURES = (SlackClientError, aiohttp.ClientError, OSError, TimeoutError, RuntimeError, ValueError)
"""What a call of the library raises when it could not be done."""
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
TOKENS = frozenset(
    {
        "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired",
        "not_allowed_token_type",
    }
)  # fmt: skip
_PASSING = TOKENS | {
    "missing_scope", "ratelimited", "rate_limited", "service_unavailable",
    "team_access_not_granted",
}  # fmt: skip
_UNSURE = frozenset({"fatal_error", "internal_error", "request_timeout", ""})
"""After these, Slack says, it may have been done all the same."""


def code_of(error: BaseException) -> str:
    """What Slack calls the error; empty if it said nothing that it has a name for."""
    if not isinstance(error, SlackApiError):
        return ""
    data = error.response.data if hasattr(error.response, "data") else error.response
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def was_sent(error: BaseException) -> bool:
    """Whether what was asked for may have been done."""
    if isinstance(error, SlackApiError):
        return wish_of(error) is None and code_of(error) in _UNSURE
    return isinstance(error, OSError | TimeoutError | aiohttp.ClientError) and not isinstance(
        error, _NOT_SENT
    )


def send_error(error: BaseException, *, repeatable: bool = False) -> SendError:
    """The SendError for a failed call; `repeatable` says that it shows its message once."""
    unsure = was_sent(error) and not repeatable
    if isinstance(error, SlackApiError):
        code = code_of(error)
        if (wish := wish_of(error)) is not None:
            return SendError("Slack wants fewer messages", retry_after=wish)
        permanent = code not in _PASSING and code not in _UNSURE
        return SendError(
            f"Slack refuses: {code or 'no reason'}", permanent=permanent, unsure=unsure
        )
    if isinstance(error, RuntimeError):  # disconnected between the look and the call
        return SendError(f"Slack is not connected: {error}")
    return SendError(f"Slack cannot be reached: {error or type(error).__name__}", unsure=unsure)


def wish_of(error: BaseException) -> float | None:
    """How long Slack wants us to wait, if that is what it says."""
    if not isinstance(error, SlackApiError):
        return None
    status = getattr(error.response, "status_code", None)
    if status != 429 and code_of(error) not in ("ratelimited", "rate_limited"):
        return None
    headers = getattr(error.response, "headers", None) or {}
    named = {str(name).lower(): value for name, value in headers.items()}
    try:
        return float(named.get("retry-after", 1))
    except (TypeError, ValueError):
        return 1.0
