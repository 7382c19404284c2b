"""Reading the mailbox: each mail once, in order, and nothing further before it is stored.

Of each mail the head is read first. Only of people who may talk, and whom our own server vouches
for, the rest is read too; whatever a program wrote is passed over.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hermes_state import LeaseLostError, StoreError

from ...config import Platform
from ...media import MediaTooLargeError, safe_name
from ...session import SessionSource
from ..base import MessageEvent
from ..kept import KeptFacts
from ..lanes import hand_in
from ..typed import as_command
from .automatic import is_ours, why_automatic
from .headers import (
    MOST_BYTES,
    Head,
    decode_words,
    find_date,
    find_ids,
    find_sender,
    read_head,
    read_parameters,
)
from .imap import Mailbox, RefusedError, Summary
from .mime import Attachment, Content, read_content
from .place import MOST_RECENT, Place, Places
from .quoting import cut_quotes, cut_signature
from .threads import Thread, Threads, bare_subject, find_thread, references_of
from .trust import name_of_server, why_not_proved

if TYPE_CHECKING:
    from .adapter import MailAdapter
    from .settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 20
"""Heads that are asked for together."""
ATTEMPTS = 3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
IDLE_SECONDS = 540.0
"""After so long without news it is looked all the same: some connections die silently."""
MOST_MISSED = 5000
LARGEST = 64 * 1024 * 1024
BEGINNING = 256 * 1024
"""What is read of a mail that is too large."""
MOST_FILES = 50
STRANGER_SECONDS = 24 * 3600.0
STRANGERS_PER_HOUR = 20
HOUR = 3600.0
REMEMBERED = 1000
TOO_MANY = (
    "⚠️ More than {count} mails of yours came within an hour in this thread. That looks like two"
    " programs that answer each other, so I answer none of it for now."
)


class Mail(NamedTuple):
    """What the head of a mail says of it."""

    head: Head
    address: str
    name: str
    message_id: str
    known_as: str
    """The same for the same mail, whatever its number is."""


class Reader:
    """Hands in what comes; it outlives connections, since its place does."""

    def __init__(self, adapter: MailAdapter) -> None:
        self._adapter = adapter
        self.place = Place()
        self._counts: OrderedDict[str, deque[float]] = OrderedDict()
        """When mails came of a person in a thread, within the last hour."""
        self._strangers: OrderedDict[str, float] = OrderedDict()
        """When somebody was last told how to be let in."""

    @property
    def _settings(self) -> Settings:
        return self._adapter.settings

    @property
    def _facts(self) -> KeptFacts:
        return KeptFacts.of(self._adapter.host)

    async def run(self, mailbox: Mailbox) -> None:
        """Read until cancelled; raises BrokenError when the connection breaks."""
        settings = self._settings
        await self._begin(mailbox)
        while True:
            await self._catch_up(mailbox)
            quiet = IDLE_SECONDS if settings.idle and mailbox.has("IDLE") else settings.poll_seconds
            await mailbox.wait(quiet, idle=settings.idle)

    # The place

    async def _begin(self, mailbox: Mailbox) -> None:
        """Open the folder, and go on where it was left."""
        settings = self._settings
        folder = await mailbox.select(settings.folder, is_changed=settings.mark_read)
        account = f"{settings.imap.user}@{settings.imap.host}/{settings.folder}"
        self.place = place = await asyncio.to_thread(Places(self._facts).read, account)
        if not place.validity:  # what was written before the first connection is not for us
            place.uid = folder.next_uid - 1
            place.day = _day_of(datetime.now(UTC))
            await self._remember_earlier(mailbox, place)
        elif place.validity != folder.validity:
            await self._read_anew(mailbox, place)
            place.uid = folder.next_uid - 1
        elif place.uid >= folder.next_uid:
            # Numbers never go back; a server that does so all the same has lost its own.
            log.warning("The mailbox has fewer mails than were read; it is read from its end")
            place.uid = folder.next_uid - 1
        place.validity = folder.validity
        await self._save()

    async def _remember_earlier(self, mailbox: Mailbox, place: Place) -> None:
        """Know what is there already, should the folder be numbered anew."""
        uids = (await mailbox.search("SINCE", _day_before(place.day)))[-MOST_RECENT:]
        for begin in range(0, len(uids), AT_ONCE):
            for summary in await self._heads(mailbox, uids[begin : begin + AT_ONCE]):
                if (mail := identify(summary)) is not None:
                    place.pass_by(summary.uid, "", mail.known_as)

    async def _read_anew(self, mailbox: Mailbox, place: Place) -> None:
        """After the folder was numbered anew: take what came since the last mail, as far as that
        was not taken. Mails that were written long before have only come to lie there again."""
        log.warning("The mailbox was numbered anew: it is read from %s on", place.day)
        day = _day_before(place.day)
        oldest = _date_of(day)
        uids = (await mailbox.search("SINCE", day))[-MOST_MISSED:]
        for begin in range(0, len(uids), AT_ONCE):
            for summary in await self._heads(mailbox, uids[begin : begin + AT_ONCE]):
                written_at = find_date(read_head(summary.head).first("date"))
                if written_at is None or written_at >= oldest:
                    # Its number is of the new ones, and moves nothing.
                    place.pass_by(0, summary.day, await self._take_any(mailbox, summary))

    async def _save(self) -> None:
        """Keep the place; what cannot be kept is kept with the next mail."""
        try:
            await asyncio.to_thread(Places(self._facts).write, self.place)
        except LeaseLostError:
            pass  # the one who has the platform now reads from where we were
        except (StoreError, OSError) as error:
            log.warning("The place in the mailbox is kept later: %s", error)

    async def _catch_up(self, mailbox: Mailbox) -> None:
        """Take everything that is new."""
        while uids := await mailbox.search_after(self.place.uid):
            for begin in range(0, len(uids), AT_ONCE):
                several = uids[begin : begin + AT_ONCE]
                for summary in await self._heads(mailbox, several):
                    known_as = await self._take_any(mailbox, summary)
                    self.place.pass_by(summary.uid, summary.day, known_as)
                    await self._save()
                # Also those that were deleted meanwhile.
                self.place.pass_by(several[-1], "", "")
            await self._save()

    async def _heads(self, mailbox: Mailbox, uids: list[int]) -> list[Summary]:
        try:
            return await mailbox.heads(uids, MOST_BYTES)
        except RefusedError as error:
            if len(uids) == 1:
                log.error("The mail %s cannot be read, and is passed over: %s", uids[0], error)
                return []
        # One of them is broken: which one is found out by asking for each.
        return [summary for uid in uids for summary in await self._heads(mailbox, [uid])]

    # One mail

    async def _take_any(self, mailbox: Mailbox, summary: Summary) -> str:
        try:
            return await self._take(mailbox, summary)
        except (StoreError, OSError, RefusedError):
            raise  # it is taken when that has passed
        except Exception:
            # Whatever one mail meets must not keep all others out.
            log.exception("The mail %s could not be taken", summary.uid)
            return ""

    async def _take(self, mailbox: Mailbox, summary: Summary) -> str:
        """Deal with a mail; returns by what it is known."""
        mail = identify(summary)
        if mail is None:
            log.info("The mail %s is passed over: it does not say who wrote it", summary.uid)
            return ""
        head, address = mail.head, mail.address
        if why := self._why_not(head, address):
            log.info("The mail %s of %s is passed over: %s", summary.uid, address, why)
            self._note_bounce(head, address)
            return ""
        if mail.known_as in self.place.recent:
            log.info("The mail %s of %s is passed over: it was taken before", summary.uid, address)
            return ""
        source = SessionSource(
            Platform.EMAIL,
            chat_id=address,
            user_id=address,
            user_name=mail.name or None,
            thread_id=find_thread(head, mail.message_id, self._settings.address),
            message_id=mail.message_id,
        )
        written_at = find_date(head.first("date"))
        event = MessageEvent("", source, mail.message_id, timestamp=written_at, order=summary.uid)
        if not await self._adapter.host.is_allowed(source):
            await self._take_stranger(event, head)
        elif await self._is_loop(event):
            log.warning("The mail %s of %s is passed over: a loop", summary.uid, address)
        else:
            await self._take_whole(mailbox, summary, mail, event)
        if self._settings.mark_read:
            await self._mark_read(mailbox, summary.uid)
        return mail.known_as

    def _why_not(self, head: Head, address: str) -> str:
        settings = self._settings
        if why := why_automatic(head, address, settings.address):
            return why
        if not settings.require_authentication:
            return ""
        return why_not_proved(head, address, settings.authserv_ids)

    def _note_bounce(self, head: Head, address: str) -> None:
        """Say in the log that an answer of ours did not arrive."""
        if read_parameters(head.first("content-type"))[0] != "multipart/report":
            return
        named = find_ids(f"{head.first('references')} {head.first('in-reply-to')}")
        if any(is_ours(known, self._settings.address) for known in named):
            log.error("%s says that a mail of ours did not arrive", address)

    async def _take_stranger(self, event: MessageEvent, head: Head) -> None:
        """Have a stranger told how to be let in: once a day, and few within an hour; their mail is
        not read."""
        now, address = time.monotonic(), str(event.source.user_id)
        recent = [at for at in self._strangers.values() if now - at < HOUR]
        last = self._strangers.get(address)
        if last is not None and now - last < STRANGER_SECONDS:
            log.info("A mail of %s is passed over: they were told how to be let in", address)
            return
        if len(recent) >= STRANGERS_PER_HOUR:
            log.warning("A mail of %s is passed over: too many strangers write", address)
            return
        _remember(self._strangers, address, now)
        event.text = f"[{decode_words(head.first('subject')) or 'a mail'}]"
        await self._note_thread(event, head)
        await hand_in(self._adapter.on_message, event)

    async def _is_loop(self, event: MessageEvent) -> bool:
        """Whether more comes of somebody in a thread than a person writes; they are told once."""
        name, now = f"{event.source.thread_id}:{event.source.user_id}", time.monotonic()
        times = self._counts.get(name, deque())
        while times and now - times[0] > HOUR:
            times.popleft()
        times.append(now)
        _remember(self._counts, name, times)
        most = self._settings.most_per_hour
        if len(times) == most + 1:
            key = f"email:loop:{name}:{int(time.time() // HOUR)}"
            await self._adapter.host.deliver(event.source, TOO_MANY.format(count=most), key)
        if len(times) > most + 1:
            times.pop()
        return len(times) > most

    async def _take_whole(
        self, mailbox: Mailbox, summary: Summary, mail: Mail, event: MessageEvent
    ) -> None:
        host, source, head = self._adapter.host, event.source, mail.head
        # Files are a third longer on the way.
        most = min(host.limits.media_bytes * 3 // 2, LARGEST)
        is_cut = summary.size > most
        raw = await self._read(mailbox, summary.uid, BEGINNING if is_cut else most)
        if raw is None:
            return  # it was deleted meanwhile
        is_known = await asyncio.to_thread(
            Threads(self._facts).find, source.chat_id, str(source.thread_id)
        )
        content = await _content_of(raw)
        if is_cut:
            content.notes.append(
                f"[This mail is too large ({summary.size:,} bytes); only its beginning was read.]"
            )
            content.attachments.clear()
        event.text = text_of(head, content, is_first=is_known is None)
        with host.expecting(source):
            await self._keep_files(event, content.attachments, mail.known_as)
            if not event.text and not event.media:
                event.text = "[This mail is empty.]"
            await self._note_thread(event, head)
            await hand_in(self._adapter.on_message, event)

    async def _read(self, mailbox: Mailbox, uid: int, most: int) -> bytes | None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await mailbox.read(uid, most)
            except RefusedError as error:
                if attempt == ATTEMPTS:
                    log.error("The mail %s cannot be read, and is passed over: %s", uid, error)
                    return None
                await asyncio.sleep(FIRST_PAUSE * attempt)
        raise AssertionError("unreachable")

    async def _keep_files(
        self, event: MessageEvent, attachments: list[Attachment], prefix: str
    ) -> None:
        notes = []
        for number, attachment in enumerate(attachments[:MOST_FILES], 1):
            # Two files of one name are two files.
            name = f"{prefix[:8]}-{number}-{safe_name(attachment.name)}"
            try:
                path = await self._adapter.host.keep_file(
                    event.source.chat_id, name, _bytes_of(attachment)
                )
            except (MediaTooLargeError, StoreError, OSError) as error:
                log.warning("%s was not kept: %s", name, error)
                notes.append(f"[The file {safe_name(attachment.name)} was not kept: {error}]")
            else:
                event.media.append(str(path))
        if len(attachments) > MOST_FILES:
            notes.append(f"[{len(attachments) - MOST_FILES} more files were not kept.]")
        event.text = "\n".join(filter(None, [event.text, *notes]))

    async def _note_thread(self, event: MessageEvent, head: Head) -> None:
        """Keep what an answer will refer to, before there can be one."""
        source = event.source
        thread = Thread(
            bare_subject(decode_words(head.first("subject"))),
            str(source.message_id),
            references_of(head, str(source.message_id)),
        )
        pause = FIRST_PAUSE
        while True:
            try:
                await asyncio.to_thread(
                    Threads(self._facts).note, source.chat_id, str(source.thread_id), thread
                )
                return
            except LeaseLostError:
                return  # whoever has the mailbox now takes the mail too
            except (StoreError, OSError) as error:
                log.warning("A thread is noted later: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _mark_read(self, mailbox: Mailbox, uid: int) -> None:
        try:
            await mailbox.mark_read(uid)
        except RefusedError as error:
            log.warning("The mail %s stays marked as new: %s", uid, error)

    async def look_for_server(self, mailbox: Mailbox) -> str:
        """Who writes Authentication-Results on top of the latest mails; empty if nobody does."""
        folder = await mailbox.select(self._settings.folder)
        latest = list(range(max(1, folder.next_uid - 10), folder.next_uid))
        found = [
            name_of_server(read_head(summary.head))
            for summary in (await self._heads(mailbox, latest) if latest else [])
        ]
        names = [name for name in found if name]
        return max(set(names), key=names.count) if names else ""


def identify(summary: Summary) -> Mail | None:
    """Who wrote a mail and what it is called; None if it is not said who."""
    head = read_head(summary.head)
    ids = find_ids(head.first("message-id"))
    message_id = ids[0] if ids else f"{hashlib.sha256(summary.head).hexdigest()[:32]}@unnamed"
    sender = find_sender(head)
    if sender is None:
        return None
    known_as = hashlib.sha256(f"{sender[0]}\0{message_id}".encode()).hexdigest()[:16]
    return Mail(head, *sender, message_id, known_as)


def text_of(head: Head, content: Content, *, is_first: bool) -> str:
    """What a mail says. Of the first of a thread the subject too, and what it quotes: that is not
    in the conversation."""
    text = cut_signature(content.text if is_first else cut_quotes(content.text))
    if (line := as_command(text)) is not None:
        return line
    subject = decode_words(head.first("subject"))
    if is_first and not text and (line := as_command(subject)) is not None:
        return line
    lead = f"Subject: {subject}\n" if is_first and subject else ""
    return "\n".join(filter(None, [lead, text, *content.notes])).strip()


async def _content_of(raw: bytes) -> Content:
    try:
        return await asyncio.to_thread(read_content, raw)
    except Exception as error:
        # Whatever stands in it: whoever wrote it is told, and others' mails go on.
        log.exception("A mail cannot be read")
        return Content(notes=[f"[This mail cannot be read: {type(error).__name__}]"])


async def _bytes_of(attachment: Attachment) -> AsyncGenerator[bytes, None]:
    yield await asyncio.to_thread(attachment.read)


def _remember(known: OrderedDict[str, T], name: str, value: T) -> None:
    known[name] = value
    known.move_to_end(name)
    while len(known) > REMEMBERED:
        known.popitem(last=False)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _day_of(date: datetime) -> str:
    """A day as IMAP writes it, whatever language is spoken here."""
    return f"{date.day}-{_MONTHS[date.month - 1]}-{date.year}"


def _day_before(day: str) -> str:
    """The day before the last mail's: servers reckon days in their own zones."""
    return _day_of(_date_of(day) - timedelta(days=1))


def _date_of(day: str) -> datetime:
    """When a day begins, by our reckoning; a week ago if it is none."""
    try:
        number, month, year = day.split("-")
        return datetime(int(year), _MONTHS.index(month.title()) + 1, int(number), tzinfo=UTC)
    except ValueError:
        return datetime.now(UTC) - timedelta(days=7)
