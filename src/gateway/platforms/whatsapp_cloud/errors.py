"""What Meta refuses, as the gateway understands it: by the numbers of its errors."""

from __future__ import annotations

import logging

import httpx

from ..base import SendError

log = logging.getLogger(__name__)

CLOSED = 131047
"""More than 24 hours since the person wrote."""
TOKEN = frozenset({0, 190})
_RIGHTS = frozenset({3, 10, 131005, *range(200, 300)})
_ACCOUNT = frozenset({368, 131031, 131037, 131042, 131045, 133010})
"""The account, its payment or its number: somebody has to do something at Meta's."""
_SOON = {131056: 6.0, 130429: 2.0, 4: 60.0, 80007: 60.0, 131048: 3600.0, 131057: 300.0}
"""Too much, or not now: the seconds after which it is tried again."""
_BROKEN = frozenset({1, 2, 131000, 131016})
"""Meta's own trouble; it says that nothing was sent."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
SOMEBODY_SECONDS = 600.0
WRONG_TOKEN = "Meta rejects the token (expired or revoked): renew WHATSAPP_CLOUD_ACCESS_TOKEN"


class ApiError(Exception):
    """An answer of the Graph API that is an error."""

    def __init__(
        self, code: int | None, message: str, status: int, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        """None if the answer has no error of Meta's in it."""
        self.status, self.retry_after = status, retry_after


FAILURES = (ApiError, httpx.HTTPError, OSError)
"""What a request raises that could not be done."""


def send_error(error: BaseException, *, repeatable: bool = False) -> SendError:
    """The SendError for a request that failed; `repeatable` says that doing it twice is no harm."""
    if isinstance(error, ApiError):
        if error.code is not None:
            return refusal(error.code, str(error), error.retry_after)
        unsure = error.status >= 500 and not repeatable
        permanent = 400 <= error.status < 500 and error.status not in (408, 429)
        return SendError(
            f"Meta answers {error.status}", permanent=permanent, unsure=unsure,
            retry_after=error.retry_after,
        )  # fmt: skip
    sent = not isinstance(error, _NOT_SENT) and not repeatable
    return SendError(f"WhatsApp cannot be reached: {type(error).__name__}", unsure=sent)


def refusal(code: int, reason: str, retry_after: float | None = None) -> SendError:
    """The SendError for an error of Meta's, whether it was answered or told later."""
    why = f"WhatsApp refuses ({code}): {reason}"
    if code == CLOSED:
        return SendError("More than 24 hours since the person wrote", held=True)
    if code in TOKEN:
        log.error(WRONG_TOKEN)
        return SendError(WRONG_TOKEN, retry_after=SOMEBODY_SECONDS)
    if code in _RIGHTS or code in _ACCOUNT:
        log.error("%s. See docs/whatsapp.md", why)
        return SendError(why, retry_after=SOMEBODY_SECONDS)
    if code in _SOON:
        return SendError(why, retry_after=retry_after or _SOON[code])
    if code in _BROKEN:
        return SendError(why, retry_after=retry_after)
    return SendError(why, permanent=True)
