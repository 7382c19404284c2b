"""What signal-cli and Signal refuse, as the gateway understands it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import SendError
from .client import BrokenError, RpcError

log = logging.getLogger(__name__)

UNTRUSTED, RATE_LIMITED, IO_FAILED, INTERNAL = -4, -5, -3, -32603
LONGEST_WAIT = 3600.0
FIRST_WAIT = 30.0
UNTRUSTED_SECONDS = 60.0
"""After which a text is tried again for somebody whose safety number has changed."""


def send_error(error: Exception, *, repeatable: bool = False) -> SendError:
    """The SendError for a request that failed; `repeatable` says that doing it twice is no harm."""
    if isinstance(error, BrokenError):
        return SendError(f"Signal: {error}", unsure=error.unsure and not repeatable)
    assert isinstance(error, RpcError)
    if error.results:
        return refusal(error.results, repeatable=repeatable)
    why = f"Signal refuses: {error}"
    if error.code == RATE_LIMITED:
        return SendError(why, retry_after=FIRST_WAIT)
    if error.code == UNTRUSTED:
        return SendError(why, retry_after=UNTRUSTED_SECONDS)
    if error.code in (IO_FAILED, INTERNAL):
        # Signal's servers could not be reached, or broke off: nobody knows what they have got.
        return SendError(why, unsure=not repeatable)
    return SendError(why, permanent=True)


def refusal(results: Sequence[Mapping[str, Any]], *, repeatable: bool = False) -> SendError:
    """The SendError for a message that reached none of its recipients."""
    kinds = {str(one.get("type")) for one in results}
    if "RATE_LIMIT_FAILURE" in kinds:
        token = next((one["token"] for one in results if one.get("token")), None)
        if token:
            log.error(
                "Signal wants a proof that a person sends. Solve"
                " https://signalcaptchas.org/challenge/generate.html and run: signal-cli"
                " submitRateLimitChallenge --challenge %s --captcha CAPTCHA",
                token,
            )
        wished = max((_seconds(one) for one in results), default=0.0)
        return SendError(
            "Signal wants fewer messages", retry_after=min(wished or FIRST_WAIT, LONGEST_WAIT)
        )
    if "IDENTITY_FAILURE" in kinds:
        who = ", ".join(_name(one) for one in results)
        return SendError(
            f"The safety number of {who} has changed. Compare it, then run: signal-cli trust"
            f" -v SAFETY_NUMBER {who}",
            retry_after=UNTRUSTED_SECONDS,
        )
    if kinds == {"UNREGISTERED_FAILURE"}:
        who = ", ".join(_name(one) for one in results)
        return SendError(f"{who} is not registered with Signal any more", permanent=True)
    if "NETWORK_FAILURE" in kinds:
        return SendError("Signal cannot be reached", unsure=not repeatable)
    return SendError(f"Signal refuses: {', '.join(sorted(kinds))}", permanent=True)


def _seconds(result: Mapping[str, Any]) -> float:
    try:
        return max(0.0, float(result.get("retryAfterSeconds") or 0))
    except (TypeError, ValueError):
        return 0.0


def _name(result: Mapping[str, Any]) -> str:
    address = result.get("recipientAddress")
    known = address if isinstance(address, dict) else {}
    return str(known.get("number") or known.get("uuid") or "somebody")
