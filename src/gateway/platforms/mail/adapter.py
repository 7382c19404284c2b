"""E-mail: one mailbox, read over IMAP and answered over SMTP.

A thread is a conversation, of the person who writes in it. Nothing is edited there, and nobody
waits in front of it: one mail has the whole answer, with its files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from .manifest import MANIFEST
from .settings import MailError, Settings, read_settings

if TYPE_CHECKING:
    from .imap import Mailbox
    from .reader import Reader
    from .sending import Sender

log = logging.getLogger(__name__)


class MailAdapter(PlatformAdapter):
    """One mailbox."""

    platform = Platform.EMAIL
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self._read: Settings | None = None
        self._mailbox: Mailbox | None = None
        self._parts: tuple[Reader, Sender] | None = None

    @property
    def account(self) -> str:
        """The address."""
        return str(self.config.extra.get("address") or "").strip().lower()

    @property
    def settings(self) -> Settings:
        """What the section says; raises MailError if it cannot be used."""
        if self._read is None:
            self._read = read_settings(self.config.extra)
        return self._read

    @property
    def reader(self) -> Reader:
        """Hands in what comes."""
        return self._made()[0]

    @property
    def sender(self) -> Sender:
        """Sends."""
        return self._made()[1]

    def _made(self) -> tuple[Reader, Sender]:
        if self._parts is None:
            from .reader import Reader
            from .sending import Sender

            self._parts = Reader(self), Sender(self)
        return self._parts

    # Connection

    async def connect(self) -> None:
        """Log in to both servers; raises MailError if the mailbox cannot be used."""
        settings = self.settings
        listed = [name for name in self.config.allowed_users if name != name.lower()]
        if listed:
            raise MailError(f"platforms.email.allowed_users: write {listed[0]} in small letters.")
        try:
            from . import smtp
            from .imap import Mailbox, RefusedError
        except ImportError as error:
            raise MailError(f"E-mail needs two libraries. Run: {install_hint('email')}") from error

        await self.disconnect()
        mailbox = Mailbox(settings.imap)
        try:
            try:
                await mailbox.open()
            except ConnectionError as error:
                raise ConnectionError(f"{settings.imap.host} cannot be reached: {error}") from error
            if settings.require_authentication and not settings.authserv_ids:
                await self._say_whom_to_believe(mailbox)
            await smtp.check(settings.smtp)
        except RefusedError as error:
            await mailbox.close()
            raise MailError(f"The folder {settings.folder} cannot be read: {error}") from error
        except BaseException:
            await mailbox.close()
            raise
        self._mailbox = mailbox

    async def _say_whom_to_believe(self, mailbox: Mailbox) -> None:
        name = await self.reader.look_for_server(mailbox)
        found = (
            f"In the latest mails it is {name}: if that is your own server's, set it."
            if name
            else "In the latest mails there is none: see docs/email.md."
        )
        raise MailError(
            "Set platforms.email.authserv_id (EMAIL_AUTHSERV_ID) to the name that your own server"
            f" writes in Authentication-Results, since anybody can write any sender. {found}"
        )

    async def run(self) -> None:
        """Receive until cancelled; raises when the connection breaks."""
        if self._mailbox is None:
            raise ConnectionError("E-mail is not connected")
        await self.reader.run(self._mailbox)

    async def disconnect(self) -> None:
        """End the connection."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            await mailbox.close()

    # Out

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Send a mail to a person, in a thread or as the beginning of one. Raises SendError."""
        return await self.send_with_files(chat_id, text, (), thread_id=thread_id, key=key)

    async def send_with_files(
        self,
        chat_id: str,
        text: str,
        files: Sequence[Path],
        *,
        thread_id: str | None = None,
        key: str | None = None,
    ) -> str | None:
        """Send a mail with files."""
        if self._mailbox is None:
            raise SendError("E-mail is not connected")
        return await self.sender.send(chat_id, text, thread_id, key, files)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a mail with a file."""
        return await self.send_with_files(chat_id, caption, (Path(path),), thread_id=thread_id)
