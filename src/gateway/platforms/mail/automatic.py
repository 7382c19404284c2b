"""Mail that no person wrote: it is never answered, so that two programs do not talk for ever."""

from __future__ import annotations

import re

from .headers import Head, find_ids, read_parameters

_NOBODY = re.compile(
    r"(?:mailer-?daemon|postmaster|no-?reply|do-?not-?reply|bounces?|auto-?reply|listserv|majordomo)"
    r"(?:[+._-].*)?"
)
_LISTS = ("list-id", "list-post", "list-unsubscribe", "list-help", "x-mailing-list", "feedback-id")
_REPLIES = ("x-autoreply", "x-autorespond", "x-auto-reply", "x-autoreply-from")
OURS = "hermes."
"""How the Message-IDs of our mails begin."""


def why_automatic(head: Head, sender: str, own: str) -> str:
    """Why nobody is answered; empty for what a person wrote."""
    if sender == own:
        return "it is from us"
    if _NOBODY.fullmatch(sender.partition("@")[0]):
        return f"{sender} is nobody who reads"
    if any(value.strip() == "<>" for value in head.all("return-path")):
        return "it is a bounce"
    submitted = read_parameters(head.first("auto-submitted"))[0]
    if submitted not in ("", "no"):
        return f"it was {submitted}"
    kind, parameters = read_parameters(head.first("content-type"))
    if kind in ("multipart/report", "message/delivery-status", "message/disposition-notification"):
        return f"it is a report of {parameters.get('report-type', 'a program')}"
    if (kind_of := head.first("precedence").lower()) in ("bulk", "junk", "list", "auto_reply"):
        return f"its precedence is {kind_of}"
    if named := next((name for name in _LISTS if head.has(name)), ""):
        return f"it came over a list ({named})"
    if named := next((name for name in _REPLIES if head.has(name)), ""):
        return f"it is an automatic reply ({named})"
    suppressed = {
        word.strip() for word in head.first("x-auto-response-suppress").lower().split(",")
    }
    if suppressed & {"all", "autoreply"}:
        return "it wants no automatic reply"
    if any(is_ours(known, own) for known in find_ids(head.first("message-id"))):
        return "we wrote it"
    return ""


def is_ours(message_id: str, own: str) -> bool:
    """Whether a Message-ID looks like one of ours; anybody could write one."""
    local, _, domain = message_id.rpartition("@")
    return local.startswith(OURS) and domain.lower() == own.rpartition("@")[2]
