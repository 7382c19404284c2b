"""What Telegram refuses, as the gateway understands it."""

from __future__ import annotations

import warnings

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from ..base import SendError

# Both shapes of `retry_after`, today's and the announced one, are read below.
warnings.filterwarnings("ignore", message=".*attribute `retry_after`.*", category=UserWarning)

# The request never left, or not whole: Telegram has not seen it.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.WriteError,
    httpx.WriteTimeout,
    httpx.ProxyError,
)


def send_error(error: TelegramError) -> SendError:
    """The SendError for an error of the Bot API."""
    if isinstance(error, RetryAfter):
        return SendError(str(error), retry_after=seconds(error))
    if isinstance(error, Forbidden | BadRequest):
        return SendError(f"Telegram refuses: {error.message}", permanent=True)
    if isinstance(error, ChatMigrated):
        return SendError(f"The chat has become {error.new_chat_id}", permanent=True)
    if isinstance(error, NetworkError):
        cause = error.__cause__
        # Without a cause from the network, Telegram itself answered that it failed.
        unsure = isinstance(cause, httpx.HTTPError) and not isinstance(cause, _NOT_SENT)
        return SendError(f"Telegram cannot be reached: {error.message}", unsure=unsure)
    return SendError(f"Telegram: {error.message}", unsure=True)


def seconds(error: RetryAfter) -> float:
    """How long Telegram wants us to wait."""
    wanted = error.retry_after
    return float(wanted) if isinstance(wanted, int | float) else wanted.total_seconds()


def says(error: BadRequest, *phrases: str) -> bool:
    """Whether Telegram's explanation has one of these phrases in it."""
    message = error.message.lower()
    return any(phrase in message for phrase in phrases)
