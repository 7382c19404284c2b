"""The way of an inbound message: stored once → authorised → hooks → command or turn.

A message is in the store's inbox before its platform is told that it was received; one that came
before does nothing. The messages of a chat take every step in the order they came, however many a
platform hands in at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversation.places import Places
from hermes_base import plugins
from hermes_base.process import this_process
from hermes_state import LeaseLostError
from tools.objects import are_shared

from .commands import Commands, command_line, is_answer
from .config import GatewayConfig, Platform
from .dispatch_hook import HOOK
from .media import bring_files, list_unreadable
from .platforms.base import MessageEvent
from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from agent.access import Access
    from hermes_state import AsyncSessionDB, PlatformLease, TakenTurn

    from .asking import Questions
    from .authorization import Authorization
    from .chat_turns import ChatTurns
    from .delivery import Delivery
    from .dispatch_hook import DispatchHook
    from .session_store import SessionStore
    from .streaming import Stream

log = logging.getLogger(__name__)

COMMAND_SECONDS = 1.0
"""How long what comes behind a command waits for its end: "/new", and then a question."""


@dataclass(slots=True)
class Inbound:
    """A message on its way through the stages."""

    event: MessageEvent
    session_key: str
    inbox_id: str
    entry: SessionEntry | None = None
    waited: bool = False
    """It was accepted by an earlier run, or is to wait: it is queued, and interrupts no turn."""
    steers: bool = False
    """It is for the turn that runs, here or in another process, whatever other messages do."""
    taken: TakenTurn | None = None
    """The turn it belongs to was begun by a process that died; `inbox_id` is its new name."""
    is_noted: bool = False
    """Nobody sent it: the turn begins with the waiting notes of its conversation."""
    further_ids: tuple[str, ...] = ()
    """The other inbox rows of a message that came in several parts."""
    stream: Stream | None = None
    """What the chat sees of its turn, once that is prepared."""
    began_in: str = ""
    """The session its turn began in."""
    is_kept: bool = False
    """Its turn could not begin, and the chat could not be told: it waits on in the inbox."""
    under: PlatformLease | None = None
    """Where several gateways share the store: the lease under which it was taken up. Its turn is
    not begun under another: so messages of a chat stay in order when it changes hands."""

    @property
    def inbox_ids(self) -> tuple[str, ...]:
        """Every inbox row that is taken with it."""
        return (self.inbox_id, *self.further_ids)


class Pipeline:
    """Takes messages in."""

    def __init__(
        self,
        config: GatewayConfig,
        db: AsyncSessionDB,
        store: SessionStore,
        authorization: Authorization,
        delivery: Delivery,
        questions: Questions,
        turns: ChatTurns,
        hook: DispatchHook,
        commands: Commands,
        serves: Callable[[Platform], bool] = lambda platform: True,
        lease_of: Callable[[Platform], PlatformLease | None] = lambda platform: None,
        still_holds: Callable[[PlatformLease | None], bool] = lambda lease: True,
        home: Path | None = None,
    ) -> None:
        """`serves` says whether a platform's chats are this gateway's, `lease_of` under which
        lease, and `still_holds` whether they are still under that one; what others' chats send is
        stored, and theirs to go on with. Files that another gateway took in are brought to
        `home`."""
        self._config = config
        self._db, self._store = db, store
        self._authorization = authorization
        self._delivery = delivery
        self._questions = questions
        self._turns = turns
        self._conversations = turns.conversations
        self.hook = hook
        self._commands = commands
        self._serves = serves
        self._lease_of = lease_of
        self._still_holds = still_holds
        self._home = home
        self._under_way: dict[str, Platform] = {}
        """What was taken up here and may still wait in the inbox, by its id."""
        self._left: dict[str, str] = {}
        """What was accepted here while its chat was not certainly ours, and its chat."""
        self._held: set[str] = set()
        """Chats in which what only a newer release understands waits for one that runs."""
        self._stored = Places()
        self._taken = Places()

    async def accept(self, event: MessageEvent) -> None:
        """Store a message, then let it take its way; returns when it is stored or refused."""
        key = self._store.key_of(event.source)
        inbound = Inbound(event, key, inbox_id(event, key))
        async with self._stored.place(key):
            if await self._store_once(inbound):
                if self._may_go_on(inbound):
                    self.take_up(inbound)
                else:
                    self._put_back(inbound)
            else:
                log.info("Ignoring duplicate delivery of %s", inbound.inbox_id)
                await self._look_for(inbound)

    async def _look_for(self, inbound: Inbound) -> None:
        """Process a message that another gateway stored and cannot run, before its chat's next."""
        platform = inbound.event.source.platform
        is_known = inbound.inbox_id in self._under_way or inbound.inbox_id in self._left
        if self._db.sync.is_on_server and not is_known and self._serves(platform):
            await self.resume({platform}, with_own=False)

    def take_up(self, inbound: Inbound) -> None:
        """Let a message that is stored take its way, behind those of its chat before it."""
        if self._db.sync.is_on_server:  # a file's inbox is looked through once
            platform = inbound.event.source.platform
            try:
                inbound.under = self._lease_of(platform)
            except LeaseLostError:
                self._put_back(inbound)
                return
            self._under_way[inbound.inbox_id] = platform
        self._left.pop(inbound.inbox_id, None)
        self._turns.parts.note(inbound.event)
        self._conversations.spawn(self._go_on(inbound))

    def forget(self, platform: Platform) -> None:
        """A platform's chats are another gateway's now: drop what waits there."""
        self._under_way = {
            inbox_id: of for inbox_id, of in self._under_way.items() if of is not platform
        }
        self._turns.forget_waiting(platform)

    def _may_go_on(self, inbound: Inbound) -> bool:
        """Whether a message's chat is ours, and none before it was left in the inbox."""
        key = inbound.session_key
        is_first = key not in self._left.values() and key not in self._held
        return is_first and self._serves(inbound.event.source.platform)

    def _put_back(self, inbound: Inbound) -> None:
        """Leave a message in the inbox for the gateway that has its chat now, or soon."""
        self._under_way.pop(inbound.inbox_id, None)
        self._left[inbound.inbox_id] = inbound.session_key

    async def resume(self, platforms: Collection[Platform], *, with_own: bool) -> None:
        """Process messages of these platforms' chats that were accepted by others, or here while
        the chats were not certainly ours, and were not begun.

        `with_own`: with everything that this process has accepted.
        """
        holders: dict[str, set[str]] = {}
        known = {*self._under_way, *self._left}
        waiting = await self._db.list_waiting(with_held=True)
        if waiting and self._db.sync.is_on_server:
            holders = await self._list_holders()
            known = {*self._under_way, *self._left}
            waiting = await self._db.list_waiting(with_held=True)
        # No await from here on: two rounds at once must not take up the same message, nor may a
        # round that began when the platform was ours take what is another's by now.
        for settled in known - {row["id"] for row in waiting}:
            self._under_way.pop(settled, None)
            self._left.pop(settled, None)
        self._held = {row["session_key"] for row in waiting if row["is_held"]}
        for row in waiting:
            if row["is_held"] or not row["session_key"] or not row["facts"].get("source"):
                continue  # a newer release's, or another front end's
            is_own = row["owner"] == this_process() and row["id"] not in self._left
            if (is_own and not with_own) or row["id"] in self._under_way:
                continue
            try:
                event = event_of(row)
            except (KeyError, ValueError, TypeError):
                log.warning("%s is of a platform that is not known here", row["id"])
                continue
            platform = event.source.platform
            # It may have been accepted by a gateway that has its chat by another account.
            is_others = row["owner"] in holders.get(platform.value, ())
            if platform in platforms and self._serves(platform) and not is_others:
                self.take_up(Inbound(event, row["session_key"], row["id"], waited=True))

    async def _list_holders(self) -> dict[str, set[str]]:
        """By platform: the other gateways that live and hold an account of it."""
        live = await self._db.list_live_owners()
        holders: dict[str, set[str]] = {}
        for lease in await self._db.list_platform_leases():
            if lease["owner"] in live and lease["owner"] != this_process():
                holders.setdefault(lease["name"].partition(":")[0], set()).add(lease["owner"])
        return holders

    async def _store_once(self, inbound: Inbound) -> bool:
        event = inbound.event
        return await store_inbound(self._db, self._store, inbound, event.text, event.message_id)

    async def _go_on(self, inbound: Inbound) -> None:
        async with self._taken.place(inbound.session_key):
            try:
                line = await self._admit(inbound)
            except Exception as error:  # noqa: BLE001 - nobody is left without a word
                await self._report_failure(inbound, error)
                return
            if line is not None:
                command = self._conversations.spawn(self._run_command(inbound, line))
                await asyncio.wait([command], timeout=COMMAND_SECONDS)

    async def _admit(self, inbound: Inbound) -> str | None:
        """Hand a message to the turns; a slash command is returned instead, for its own time.

        Who is stopped in here has not begun: it waits in the inbox for the next start.
        """
        admitted = await self._authorise(inbound) and await self._run_hooks(inbound)
        if not self._still_holds(inbound.under):
            # It was forgotten with its lease. If the chat is ours again, it was taken up again, and
            # waits behind this; what came after it must not find one of the two gone.
            return None
        if not self._may_go_on(inbound):
            self._put_back(inbound)
            return None
        if not admitted or is_answer(self._questions, inbound, lambda: self._access(inbound)):
            await self._conversations.drop(inbound.inbox_id)
        elif (line := command_line(self._config.reset_triggers, inbound)) is not None:
            return line
        else:
            if inbound.event.media or inbound.event.unread:
                await self._bring_files(inbound.event)
                await self._tell_unread(inbound)
            await self._turns.take(inbound)
        return None

    def _access(self, inbound: Inbound) -> Access:
        return self._authorization.access(inbound.event.source, inbound.session_key)

    async def _bring_files(self, event: MessageEvent) -> None:
        """Have the files of a message here, also those that another gateway took in."""
        if self._home is None or not are_shared(self._db.sync):
            return
        brought = asyncio.to_thread(bring_files, self._db.sync, self._home, event.media)
        event.media, notes = await brought
        _note_unread(event, notes)

    async def _tell_unread(self, inbound: Inbound) -> None:
        """Tell the sender, once, which of their files cannot be read."""
        event = inbound.event
        gone = await asyncio.to_thread(list_unreadable, event.media)
        if gone:
            event.media = [path for path in event.media if path not in gone]
            _note_unread(event, [f"{Path(path).name} {why}" for path, why in gone.items()])
        if event.unread:
            await self._delivery.say(
                event.source,
                inbound.session_key,
                "\n".join(f"📎 {note}" for note in event.unread),
                name=f"unread:{inbound.inbox_id}",
            )

    async def _run_command(self, inbound: Inbound, line: str) -> None:
        try:
            await self._commands.run(inbound, line)
            await self._conversations.drop(inbound.inbox_id)
        except Exception as error:  # noqa: BLE001 - nobody is left without a word
            await self._report_failure(inbound, error)

    async def _report_failure(self, inbound: Inbound, error: Exception) -> None:
        log.error("%s could not be dealt with", inbound.inbox_id, exc_info=error)
        await self._delivery.say(
            inbound.event.source, inbound.session_key, f"⚠️ That failed: {error}"
        )
        # The error was reported: the message is not processed later.
        await self._conversations.drop(inbound.inbox_id)

    async def _authorise(self, inbound: Inbound) -> bool:
        """Whether its sender may talk; a stranger in a direct chat is told how to be let in."""
        source = inbound.event.source
        if await self._authorization.admits(source):
            return True
        offer = await self._authorization.offer_pairing(source)
        if offer is not None:
            await self._delivery.say(source, inbound.session_key, offer)
        return False

    async def _run_hooks(self, inbound: Inbound) -> bool:
        """Plugins may leave a message out or rewrite it."""
        is_wanted = plugins.has_hook(HOOK)
        return not is_wanted or await self.hook.passes(inbound.event, inbound.inbox_id)


def inbox_id(event: MessageEvent, session_key: str) -> str:
    """One name for one message, however often it is delivered."""
    import os

    message_id = event.message_id or os.urandom(8).hex()
    edited = ""
    if event.is_edit:
        # Each version is a message; the same version delivered again is not.
        version = hashlib.sha256(event.text.encode("utf-8", "replace")).hexdigest()[:12]
        edited = f":edited:{event.timestamp.timestamp() if event.timestamp else 0:.0f}:{version}"
    return f"{event.source.platform.value}:{event.source.chat_id}:{message_id}{edited}"


async def store_inbound(
    db: AsyncSessionDB,
    store: SessionStore,
    inbound: Inbound,
    content: Any,
    message_id: str | None = None,
) -> bool:
    """Store a message in the inbox; False if it is there already.

    `message_id` is what the platform calls it.
    """
    source, key = inbound.event.source, inbound.session_key
    return bool(
        await db.accept_message(
            inbound.inbox_id,
            store.peek_session_id(key) or key,
            content,
            source=source.platform.value,
            session_key=key,
            user_id=source.door,
            platform_message_id=message_id,
            facts=facts_of(inbound.event),
        )
    )


def _note_unread(event: MessageEvent, notes: list[str]) -> None:
    """Have the sender told of files that cannot be read, and the model."""
    event.unread = [*event.unread, *notes]
    event.text = "\n".join([event.text, *(f"[The file {note}]" for note in notes)]).strip()


def facts_of(event: MessageEvent) -> dict[str, Any]:
    """What is needed to process a message after a restart, besides its text."""
    facts = {
        "source": event.source.to_dict(),
        "media": event.media,
        "unread": event.unread or None,
        "album": event.album,
        "split_with": event.split_with,
        "order": event.order,
        "sent_at": event.timestamp.timestamp() if event.timestamp else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def event_of(row: Mapping[str, Any]) -> MessageEvent:
    """The message of an inbox row; KeyError, ValueError or TypeError if it is none of a chat."""
    facts = row["facts"]
    sent_at = facts.get("sent_at")
    return MessageEvent(
        str(row["content"] or ""),
        SessionSource.from_dict(facts["source"]),
        row["platform_message_id"],
        list(facts.get("media") or ()),
        list(facts.get("unread") or ()),
        timestamp=datetime.fromtimestamp(sent_at, UTC) if sent_at is not None else None,
        album=facts.get("album"),
        split_with=facts.get("split_with"),
        order=facts.get("order"),
    )


def content_of(text: str, media: list[str]) -> Any:
    """What a model is sent: the text, with pictures as parts and other files by name."""
    if not media:
        return text
    from agent.file_parts import file_parts

    return file_parts(text, media)
