"""Mails of ours: an answer as text and HTML, its files, and what keeps it in its thread."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from ...markdown import to_plain
from ...markdown.html import to_html
from .headers import clean
from .threads import Thread

LONG = 50_000
"""Characters from which a text is encoded as a whole: the other way is slow."""
LONGEST_REFERENCES = 1500
_POLICY = SMTP.clone(cte_type="7bit")
"""Not every server takes letters beyond ASCII as they are."""
_LATE = re.compile(rb"^([A-Za-z-]+:) ?\r\n (?=<)", re.MULTILINE)
_PAGE = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n{}\n</body></html>\n'


@dataclass(frozen=True, slots=True)
class File:
    """Something to be attached."""

    name: str
    data: bytes


def compose(
    sender: str,
    name: str,
    recipient: str,
    markdown: str,
    message_id: str,
    thread: Thread | None,
    files: Sequence[File] = (),
) -> bytes:
    """A mail, as it goes over the wire. `sender` and `recipient` are plain addresses."""
    mail = EmailMessage(policy=_POLICY)
    user, _, domain = sender.rpartition("@")
    mail["From"] = Address(clean(name)[:100], user, domain)
    user, _, domain = recipient.rpartition("@")
    mail["To"] = Address("", user, domain)
    mail["Date"] = formatdate(usegmt=True)
    mail["Message-ID"] = f"<{message_id}>"
    if thread is not None and thread.last:
        mail["Subject"] = f"Re: {clean(thread.subject)}".rstrip()
        mail["In-Reply-To"] = f"<{thread.last}>"
        mail["References"] = _references(thread)
        mail["Auto-Submitted"] = "auto-replied"
    else:
        mail["Subject"] = clean(thread.subject if thread else "") or "Hermes"
        mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"  # no "I am on holiday" for an answer
    _set_texts(mail, markdown)
    for file in files:
        kind, encoding = mimetypes.guess_type(file.name)
        main, _, sub = (kind if kind and not encoding else "application/octet-stream").partition(
            "/"
        )
        mail.add_attachment(file.data, main, sub, filename=clean(file.name) or "file")
    head, blank, body = mail.as_bytes().partition(b"\r\n\r\n")
    # A field may begin on its second line; not every program that reads Message-IDs knows it.
    return _LATE.sub(rb"\1 ", head) + blank + body


def _set_texts(mail: EmailMessage, markdown: str) -> None:
    whole = markdown.encode("utf-8", "replace").decode()
    plain = to_plain(whole) or whole
    how = "base64" if len(whole) > LONG else None
    mail.set_content(f"{plain}\n", cte=how)
    mail.add_alternative(_PAGE.format(to_html(whole)), subtype="html", cte=how)


def _references(thread: Thread) -> str:
    """The beginning and the latest, as many as fit."""
    named = [f"<{known}>" for known in thread.references if known.isascii()]
    while len(named) > 2 and sum(map(len, named)) > LONGEST_REFERENCES:
        del named[1]
    return " ".join(named)


def subject_of(markdown: str) -> str:
    """What a mail is called that begins a thread: its first line."""
    for line in to_plain(markdown[:2000]).split("\n"):
        if words := clean(line).strip(" \t*_#>-"):
            return words if len(words) <= 70 else f"{words[:69].rstrip()}…"
    return ""
