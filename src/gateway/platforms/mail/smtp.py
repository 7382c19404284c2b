"""One mail at a time to the server that sends: refused, taken, or nobody knows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable

import aiosmtplib

from ..base import SendError
from .settings import MailError, Server

SECONDS = 60.0
GOODBYE_SECONDS = 2.0
BUSY_SECONDS = 60.0
"""After which a mail is tried again that was put off."""
_SECONDS = re.compile(r"\b(\d{1,5}) ?s(?:ec(?:ond)?s?)?\b", re.IGNORECASE)


class TooLargeError(SendError):
    """The server takes no mail as large as this one."""


async def check(server: Server) -> None:
    """Log in and out; MailError if the login is refused, ConnectionError where nobody is."""
    client = await _connect(server)
    with contextlib.suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=GOODBYE_SECONDS)
    client.close()


async def submit(
    server: Server,
    sender: str,
    recipient: str,
    mail: bytes,
    begin: Callable[[], Awaitable[None]],
) -> None:
    """Hand one mail over for one person. `begin` is awaited right before its text is sent: what
    fails up to then was not sent. Raises SendError."""
    try:
        client = await _connect(server)
    except MailError as error:
        raise SendError(str(error), retry_after=BUSY_SECONDS) from error
    except OSError as error:
        raise SendError(f"E-mail: {error}") from error
    try:
        await _submit(client, sender, recipient, mail, begin)
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            await client.quit(timeout=GOODBYE_SECONDS)
    finally:
        client.close()


async def _submit(
    client: aiosmtplib.SMTP,
    sender: str,
    recipient: str,
    mail: bytes,
    begin: Callable[[], Awaitable[None]],
) -> None:
    try:
        options = [f"SIZE={len(mail)}"] if client.supports_extension("size") else []
        if 0 < _most_bytes(client) < len(mail):
            raise TooLargeError(f"E-mail: {len(mail):,} bytes are too many", permanent=True)
        await client.mail(sender, options=options)
        await client.rcpt(recipient)
    except (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPRecipientRefused) as error:
        raise _refusal(error.code, error.message) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise SendError(f"E-mail: {error or type(error).__name__}") from error
    await begin()
    try:
        await client.data(mail)
    except aiosmtplib.SMTPResponseException as error:
        raise _refusal(error.code, error.message) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise SendError(f"E-mail: {error or type(error).__name__}", unsure=True) from error


def _most_bytes(client: aiosmtplib.SMTP) -> int:
    """How large a mail may be; 0 if the server does not say."""
    said = client.esmtp_extensions.get("size", "")
    return int(said) if said.isdecimal() else 0


def _refusal(code: int, message: str) -> SendError:
    why = f"E-mail: {code} {message}"[:500]
    if code >= 500:
        return SendError(why, permanent=True)
    wished = _SECONDS.search(message)
    return SendError(why, retry_after=float(wished[1]) if wished else BUSY_SECONDS)


async def _connect(server: Server) -> aiosmtplib.SMTP:
    with_tls = server.tls is not None
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        local_hostname=server.hello,
        use_tls=with_tls and server.from_the_start,
        start_tls=with_tls and not server.from_the_start,
        tls_context=server.tls,
        timeout=SECONDS,
    )
    try:
        await client.connect()
        await client.ehlo()  # after STARTTLS, what was said before counts for nothing
        if client.supports_extension("auth"):
            await client.login(server.user, server.password)
        elif with_tls:
            raise MailError(f"{server.host} takes no logins on port {server.port}; use 587 or 465.")
    except aiosmtplib.SMTPAuthenticationError as error:
        client.close()
        if error.code < 500:
            raise ConnectionError(f"{server.host}: {error.message}") from error
        raise MailError(
            f"{server.host} does not accept the login of {server.user} (EMAIL_PASSWORD):"
            f" {error.message}"
        ) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        client.close()
        raise ConnectionError(f"{server.host} cannot be reached: {error}") from error
    except BaseException:
        client.close()
        raise
    return client
