"""The section of the platform, read once and checked."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.certificates import certificates

IMAPS, IMAP, SMTPS, SUBMISSION = 993, 143, 465, 587
OWN_NAMES = {"imap.gmail.com": "mx.google.com"}
"""What servers that many use are called in Authentication-Results, where that is certain."""
SENT = ("auto", "copy", "server", "none")
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]{1,64}@[^\s@<>,;:\"()\\]{1,253}", re.ASCII)
_FALSE = ("false", "no", "off", "0", "none", "")


class MailError(Exception):
    """The mailbox cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where one protocol is spoken, and as whom."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    from_the_start: bool
    """TLS begins with the connection; else with STARTTLS, and nothing is said before."""
    user: str
    password: str = field(repr=False)
    hello: str = "localhost"
    """What we call ourselves: our domain, not this machine's name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the section says."""

    address: str
    name: str
    imap: Server
    smtp: Server
    authserv_ids: tuple[str, ...]
    require_authentication: bool
    folder: str
    mark_read: bool
    idle: bool
    poll_seconds: float
    sent: str
    sent_folder: str
    most_per_hour: int

    @property
    def domain(self) -> str:
        """What stands behind the @ of our address."""
        return self.address.rpartition("@")[2]


def is_address(text: str) -> bool:
    """Whether a text is one plain address, and nothing that a header would read otherwise."""
    # A local part that is quoted is left out: nobody has one, and much can be hidden in it.
    return text.isascii() and text.isprintable() and bool(_ADDRESS.fullmatch(text))


def read_settings(extra: Mapping[str, Any]) -> Settings:
    """What a section says; raises MailError if it cannot be used."""
    address = str(extra.get("address") or "").strip().lower()
    if not is_address(address):
        raise MailError("Set platforms.email.address (EMAIL_ADDRESS) to the mailbox's address.")
    password = str(extra.get("password") or "")
    if not password:
        raise MailError("Set EMAIL_PASSWORD to the password of the mailbox.")
    imap_host = str(extra.get("imap_host") or "").strip()
    if not imap_host:
        raise MailError("Set platforms.email.imap_host (EMAIL_IMAP_HOST) to the server's name.")
    tls = _tls(extra) if _is_true(extra.get("tls", True)) else None
    user = str(extra.get("user") or address)
    imap = _server(imap_host, IMAPS if tls else IMAP, IMAPS, tls, user, password)
    smtp_host = str(extra.get("smtp_host") or "").strip() or imap.host
    smtp = _server(
        smtp_host, SUBMISSION, SMTPS, tls,
        str(extra.get("smtp_user") or user), str(extra.get("smtp_password") or password),
    )  # fmt: skip
    sent = str(extra.get("sent") or "auto").lower()
    if sent not in SENT:
        raise MailError(f"platforms.email.sent: {sent!r} is not one of {', '.join(SENT)}.")
    return Settings(
        address=address,
        name=str(extra.get("name") or "Hermes"),
        imap=imap,
        smtp=smtp,
        authserv_ids=_names(extra.get("authserv_id")) or _names(OWN_NAMES.get(imap.host)),
        require_authentication=_is_true(extra.get("require_authentication", True)),
        folder=str(extra.get("folder") or "INBOX"),
        mark_read=_is_true(extra.get("mark_read", False)),
        idle=_is_true(extra.get("idle", True)),
        poll_seconds=max(0.01, _number(extra, "poll_seconds", 60.0)),
        sent=sent,
        sent_folder=str(extra.get("sent_folder") or ""),
        most_per_hour=max(1, int(_number(extra, "most_per_hour", 60))),
    )


def _server(
    address: str, port: int, tls_port: int, tls: ssl.SSLContext | None, user: str, password: str
) -> Server:
    host, colon, number = address.rpartition(":")
    if colon and number.isdecimal() and (":" not in host or host.startswith("[")):
        host, port = host.strip("[]"), int(number)
    else:
        host = address.strip("[]")
    hello = user.rpartition("@")[2] if is_address(user) else "localhost"
    return Server(host.lower(), port, tls, port == tls_port, user, password, hello)


def _tls(extra: Mapping[str, Any]) -> ssl.SSLContext:
    file = extra.get("ca_file")
    if not file:
        return certificates()
    try:
        return ssl.create_default_context(cafile=str(Path(str(file)).expanduser()))
    except (OSError, ssl.SSLError) as error:
        raise MailError(f"platforms.email.ca_file cannot be used: {error}") from error


def _number(extra: Mapping[str, Any], key: str, default: float) -> float:
    try:
        return float(extra.get(key, default))
    except (TypeError, ValueError):
        raise MailError(f"platforms.email.{key}: {extra[key]!r} is no number.") from None


def _names(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    listed = given if isinstance(given, list | tuple) else ()
    return tuple(str(name).strip().lower() for name in listed if str(name).strip())


def _is_true(value: object) -> bool:
    return str(value).strip().lower() not in _FALSE
