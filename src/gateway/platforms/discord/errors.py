"""What Discord refuses, as the gateway understands it."""

from __future__ import annotations

import aiohttp
import discord

from ..base import SendError

# The request never left, or not whole: Discord has not seen it.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
FAILURES = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
"""What a call of the library raises when it could not be done."""


def send_error(error: BaseException, *, repeatable: bool = False) -> SendError:
    """The SendError for a failed call; `repeatable` says that it shows its message once."""
    if isinstance(error, discord.RateLimited):
        return SendError(f"Discord wants fewer messages: {error}", retry_after=error.retry_after)
    if isinstance(error, discord.HTTPException):
        reason = f"Discord refuses: {error.status} {error.text[:200]} (code {error.code})"
        if error.status == 429:  # from the network in front of it, which says how long it is angry
            return SendError(reason, retry_after=_seconds(error))
        return SendError(reason, permanent=400 <= error.status < 500 and error.status != 401)
    if isinstance(error, RuntimeError):  # disconnected between the look and the call
        return SendError(f"Discord is not connected: {error}")
    reason = f"Discord cannot be reached: {error or type(error).__name__}"
    return SendError(reason, unsure=not (repeatable or isinstance(error, _NOT_SENT)))


def _seconds(error: discord.HTTPException) -> float | None:
    wish = error.response.headers.get("Retry-After", "")
    try:
        return float(wish)
    except ValueError:
        return None
