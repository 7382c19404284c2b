"""What the gateway says, as mails: each text once, also when nobody knows whether it went out.

SMTP has no request that is done once. So a mail's Message-ID is made from its key, and right
before its text is sent it is noted that this was begun; right after, that it was done. What was
begun and not done is looked for in the folder of sent mail. If it is there, it was sent. If it is
not, and the server itself keeps what it sends, it was not. Else nobody knows: the person is told.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_state import LeaseLostError, StoreError

from ..base import SendError
from ..kept import KeptFacts
from ..last_look import LOST, is_lost
from . import smtp
from .compose import File, compose, subject_of
from .imap import BrokenError, Mailbox, RefusedError
from .settings import MailError, Settings, is_address
from .threads import Thread, Threads, is_name, name_of, own_id

if TYPE_CHECKING:
    from .adapter import MailAdapter

log = logging.getLogger(__name__)

NOTES = "email-sending"
MOST_NOTED = 300
MOST_COPIES = 200
AT_ONCE = 4
MAX_FILES = 20 * 1024 * 1024
"""Of all files of a mail together: with their encoding, most servers take no more."""
LOOKS = 4
LOOK_PAUSE = 2.0
"""A server may take a moment until it shows what it has sent."""
_GMAIL = "X-GM-EXT-1"


class Sender:
    """Sends for one mailbox; it outlives connections, since what was begun does."""

    def __init__(self, adapter: MailAdapter) -> None:
        self._adapter = adapter
        self._places = asyncio.Semaphore(AT_ONCE)
        self._noting = asyncio.Lock()
        self._folder = ""
        self._who_keeps = ""
        self._copies: deque[bytes] = deque(maxlen=MOST_COPIES)
        self._copying: asyncio.Task[object] | None = None

    @property
    def _settings(self) -> Settings:
        return self._adapter.settings

    @property
    def _facts(self) -> KeptFacts:
        return KeptFacts.of(self._adapter.host)

    async def send(
        self,
        person: str,
        markdown: str,
        name: str | None,
        key: str | None,
        files: Sequence[Path] = (),
    ) -> str:
        """Send a text, and files with it, to a person, in a thread; returns its Message-ID."""
        if not is_address(person):
            raise SendError(f"{person!r} is no address", permanent=True)
        if name and not is_name(name):
            raise SendError(f"{name!r} is no thread", permanent=True)
        settings = self._settings
        unique = key or os.urandom(16).hex()
        thread = await asyncio.to_thread(Threads(self._facts).find, person, name) if name else None
        message_id = own_id(name or name_of(unique), unique, settings.address)
        if key is not None and await self._was_sent(message_id):
            return message_id
        make = functools.partial(self._compose, person, markdown, message_id, thread)
        mail = await asyncio.to_thread(make, files)
        submit = functools.partial(self._submit, person, message_id, key)
        try:
            await submit(mail)
        except smtp.TooLargeError:
            if not files:
                raise
            mail = await asyncio.to_thread(make, files, room=0)
            await submit(mail)
        if key is not None:
            await self._note(message_id, "sent")
        self._keep_copy(mail)
        return message_id

    async def _submit(self, person: str, message_id: str, key: str | None, mail: bytes) -> None:
        settings = self._settings
        try:
            async with self._places:
                await smtp.submit(
                    settings.smtp, settings.address, person, mail,
                    lambda: self._begin(message_id, key),
                )  # fmt: skip
        except SendError as error:
            if key is not None:
                if not error.unsure:
                    await self._note(message_id, None)
                error.unsure = False  # it is looked for when it is tried again
            raise

    def _compose(
        self,
        person: str,
        markdown: str,
        message_id: str,
        thread: Thread | None,
        paths: Sequence[Path],
        room: int = MAX_FILES,
    ) -> bytes:
        files, notes = [], []
        for path in paths:
            try:
                size = path.stat().st_size
                if size > room:
                    notes.append(f"📎 `{path.name}` is too large for a mail ({size:,} bytes).")
                    continue
                files.append(File(path.name, path.read_bytes()))
                room -= size
            except OSError as error:
                notes.append(f"📎 `{path.name}` is gone: {error.strerror}.")
        text = "\n\n".join(filter(None, (markdown, *notes)))
        if not text:
            text = "📎 " + ", ".join(f"`{file.name}`" for file in files)
        if thread is None:
            thread = Thread(subject=subject_of(text))
        settings = self._settings
        return compose(settings.address, settings.name, person, text, message_id, thread, files)

    # What was begun, and what became of it

    async def _was_sent(self, message_id: str) -> bool:
        """Whether a mail went out before. Raises SendError while that cannot be found out, and one
        that is unsure if it never can."""
        state = (await asyncio.to_thread(self._facts.read, NOTES)).get(message_id)
        if not isinstance(state, list) or not state:
            return False
        if state[0] == "sent":
            return True
        try:
            is_there, knows_all = await self._look(message_id)
        except (MailError, ConnectionError, RefusedError) as error:
            raise SendError(f"Sent mail cannot be looked through: {error}") from error
        if is_there:
            await self._note(message_id, "sent")
            return True
        await self._note(message_id, None)
        if knows_all:
            return False
        raise SendError("whether this mail was sent is not known", unsure=True)

    async def _look(self, message_id: str) -> tuple[bool, bool]:
        """Whether sent mail has it, and whether everything that was sent is there."""
        mailbox = Mailbox(self._settings.imap)
        await mailbox.open()
        try:
            who = self._keeper(mailbox)
            if who == "none":
                return False, False
            try:
                await mailbox.select(await self._sent_folder(mailbox))
            except RefusedError as error:
                log.warning("There is no folder of sent mail to look into: %s", error)
                return False, False
            for attempt in range(LOOKS if who == "server" else 1):
                if attempt:
                    await asyncio.sleep(LOOK_PAUSE)
                if await mailbox.search_id(message_id):
                    return True, True
            return False, who == "server"
        finally:
            await mailbox.close()

    async def _begin(self, message_id: str, key: str | None) -> None:
        if is_lost():  # connecting may have taken long
            raise SendError(LOST)
        if key is not None:
            await self._note(message_id, "begun")

    async def _note(self, message_id: str, state: str | None) -> None:
        """Keep what became of a mail; None forgets it."""
        async with self._noting:
            try:
                await asyncio.to_thread(self._write, message_id, state)
            except (LeaseLostError, StoreError, OSError) as error:
                if state == "begun":
                    raise SendError(f"E-mail: what is sent cannot be noted: {error}") from error
                # At worst it is looked for once more.
                log.warning("That a mail was sent is not noted: %s", error)

    def _write(self, message_id: str, state: str | None) -> None:
        facts = self._facts
        notes = facts.read(NOTES)
        notes.pop(message_id, None)
        if state is not None:
            notes[message_id] = [state, int(time.time())]
        while len(notes) > MOST_NOTED:
            del notes[next(iter(notes))]
        facts.write(NOTES, notes)

    # Copies of what was sent

    def _keeper(self, mailbox: Mailbox) -> str:
        """Who keeps sent mail: we ("copy"), the server, or nobody ("none")."""
        wanted = self._settings.sent
        if wanted == "auto":
            wanted = "server" if mailbox.has(_GMAIL) else "copy"
        return wanted

    async def _sent_folder(self, mailbox: Mailbox) -> str:
        self._folder = self._folder or self._settings.sent_folder
        self._folder = self._folder or await mailbox.find_sent_folder()
        return self._folder

    def _keep_copy(self, mail: bytes) -> None:
        """Have a copy put where people look for what was sent."""
        if self._settings.sent in ("server", "none") or self._who_keeps == "server":
            return
        self._copies.append(mail)
        if self._copying is None or self._copying.done():
            self._copying = self._adapter.host.spawn(self._keep_copies())

    async def _keep_copies(self) -> None:
        """Put what waits into the folder of sent mail. That it was sent stays true without."""
        mailbox = Mailbox(self._settings.imap)
        try:
            await mailbox.open()
            self._who_keeps = self._keeper(mailbox)
            while self._copies:
                mail = self._copies.popleft()
                if self._who_keeps == "copy":
                    await mailbox.append(await self._sent_folder(mailbox), mail)
        except (MailError, BrokenError, RefusedError) as error:
            self._copies.clear()
            log.warning("No copy was put into the folder of sent mail: %s", error)
        finally:
            await mailbox.close()
