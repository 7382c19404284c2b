"""A chat's side of its conversation: what waits in it, and how its turns are shown and answered.

It does not matter whether a turn begins here or was begun by a process that died: it counts as the
chat's running turn, is shown while it runs, and its answer is put into the outbox with the step
that stores it. A turn that another process has taken over is left to it silently.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.events import Noticed
from agent.outcome import NotStarted, TurnOutcome
from agent.request import DeliverTo, Question, TakenOver, TurnRequest, WaitingNotes
from conversation.door import Abandoned, Door, Origin
from conversation.offering import Offers
from conversation.patience import retry_until_stored
from hermes_state import NOBODY, StoreError, is_owned

from .config import GatewayConfig, Platform
from .message_parts import merge_parts
from .pipeline import Inbound, content_of
from .platforms.registry import find_manifest
from .replies import normalize_empty_response
from .session import SessionEntry, SessionSource
from .streaming import Stream

if TYPE_CHECKING:
    from agent.events import Event, Watcher
    from conversation.room import Share
    from hermes_state import AsyncSessionDB, PlatformLease

    from .abandoned_in_chats import AbandonedTurns
    from .agent_source import AgentSource
    from .asking import Questions
    from .chat_turns import ChatTurns
    from .delivery import Delivery
    from .platforms.base import PlatformAdapter
    from .session_store import SessionStore

log = logging.getLogger(__name__)

LOOK_AHEAD = 32
"""Waiting messages of a chat that are looked at for the next turn."""


@dataclass(frozen=True, slots=True)
class ChatParts:
    """What the chats' turns need."""

    config: GatewayConfig
    db: AsyncSessionDB
    store: SessionStore
    agents: AgentSource
    adapters: Mapping[Platform, PlatformAdapter]
    delivery: Delivery
    questions: Questions
    abandoned: AbandonedTurns
    is_running: Callable[[], bool]
    """False once the gateway is being stopped."""
    follow: Callable[[SessionEntry, str], object]
    """Binds a chat to the session that a compression moved to."""
    recount: Callable[[str, str], Awaitable[None]]
    """Notes how many messages the session of a chat's agent has now."""
    serves: Callable[[Platform], bool] = lambda platform: True
    """Whether the chats of a platform are this gateway's at this moment."""
    still_holds: Callable[[PlatformLease | None], bool] = lambda lease: True
    """Whether what was taken up under a lease is still this gateway's to go on with."""


class ChatDoor(Door[Inbound]):
    """One chat."""

    def __init__(self, parts: ChatParts, turns: ChatTurns, key: str) -> None:
        self._parts, self._turns = parts, turns
        self.key = key
        self.admitted: dict[str, Inbound] = {}
        """By inbox id: messages that passed the stages and wait; others in the inbox are still in
        them."""
        self.steered: set[tuple[str, str]] = set()
        """Messages that were steered into the running turn, each with its chat's key."""
        self.asker: SessionSource | None = None
        """The person whose message is being answered."""
        self.resumed: float | None = None
        """Since when a turn that another process began is seen to run."""
        self._offers = Offers(parts.db.sync)

    # What is to be run

    def session_id(self) -> str:
        """The session the chat is in; its key before the first."""
        return self._parts.store.peek_session_id(self.key) or self.key

    async def next(self) -> Inbound | None:
        """The oldest message that waits; None while the gateway stops, or if the chat is another
        gateway's by now, which finds it in the inbox."""
        if not self._parts.is_running():
            return None
        oldest = next(iter(await self._waiting()), None)
        return None if oldest is None or not self._is_ours(oldest) else oldest

    def _is_ours(self, inbound: Inbound) -> bool:
        """Whether a message's chat is this gateway's. One that was taken up under a lease that was
        lost meanwhile was forgotten with it; if the chat is ours again, it was taken up again."""
        is_known = inbound.under is None or inbound.inbox_id in self.admitted
        if is_known and self._parts.serves(inbound.event.source.platform):
            return True
        self.remove(inbound.inbox_ids)
        return False

    async def _waiting(self) -> list[Inbound]:
        """The next messages that passed the stages, oldest first."""
        if not self.admitted:
            return []
        db = self._parts.db
        waiting = await db.list_waiting(session_key=self.key, limit=LOOK_AHEAD)
        return [self.admitted[row["id"]] for row in waiting if row["id"] in self.admitted]

    async def gather(self, inbound: Inbound) -> bool:
        """Wait for a message's further parts, and give the chat a session."""
        store = self._parts.store
        await self._turns.parts.complete(inbound, self.admitted.values())
        if not self._parts.is_running():
            return False  # it waits in the inbox, and its further parts with the platform
        if not self._is_ours(inbound):
            return False
        with contextlib.suppress(StoreError):  # the turn meets it too, and tells it
            if inbound.is_noted:  # what is told to a conversation does not begin another
                inbound.entry = store.entry(self.key)
            else:
                inbound.entry = await self._parts.db.at_hand(
                    store.get_or_create_session, inbound.event.source
                )
        return True

    async def confirm(self, inbound: Inbound) -> Inbound | None:
        """The turn of another chat may have read it, or the gateway is being stopped."""
        if not self._parts.is_running():
            return None
        if self._offers.has_offered(inbound.inbox_id):
            await retry_until_stored(self._answer_read, "Looking what was read")
        waiting = await retry_until_stored(self.next, "Looking what waits")
        if waiting is not None:  # the same message, perhaps taken up anew, or one before it
            waiting.entry = inbound.entry
        return waiting

    async def collect(self, inbound: Inbound) -> Inbound:
        """The message with its parts, in the session the chat is in now."""
        waiting = await retry_until_stored(self._waiting, "Looking what waits")
        entry = inbound.entry
        if inbound.under is not None:
            inbound = self.admitted.get(inbound.inbox_id, inbound)
        inbound = merge_parts(self._turns.parts.of(inbound, waiting))
        self._turns.parts.forget(self.key)
        self.remove(inbound.inbox_ids)
        self.asker = inbound.event.source
        inbound.entry = entry and self._parts.store.entry(self.key)
        return inbound

    def is_waiting(self, inbound: Inbound) -> bool:
        """Whether no turn of its own has begun for a message: while the store was asked, what ran
        may have ended, and the turn that runs now may be the message's."""
        return inbound.inbox_id in self.admitted

    def remove(self, inbox_ids: Iterable[str]) -> None:
        """They wait no more."""
        for inbox_id in inbox_ids:
            self.admitted.pop(inbox_id, None)

    def release(self) -> None:
        """An idle chat is forgotten."""
        self._turns.forget(self)

    async def ended(self) -> None:
        """A message that came between the last check and the end would wait for the next one."""
        late = await self.next()
        if late is not None and not self._turns.is_busy(self.key):
            await self._turns.take(late)

    # One turn

    def share(self, inbound: Inbound) -> Share | None:
        """How many turns of whoever wrote may run at once."""
        return self._parts.agents.share(inbound.event.source)

    async def prepare(self, inbound: Inbound) -> Any:
        """The chat's agent, with a stream that shows what it says."""
        parts, source, turn = self._parts, inbound.event.source, turn_name(inbound)
        inbound.stream = stream = Stream(
            parts.adapters.get(source.platform),
            parts.config.streaming,
            source,
            lambda shown: parts.delivery.note_preview(turn, shown),
        )
        parts.delivery.follow(inbound.inbox_id, stream)
        entry = inbound.entry
        if inbound.taken is not None:
            stream.go_on_in(await parts.delivery.preview_of(turn))
            entry = await parts.db.at_hand(parts.abandoned.entry_of, inbound, inbound.taken)
        if entry is None:
            entry = await parts.db.at_hand(parts.store.get_or_create_session, source)
        inbound.entry = entry
        inbound.began_in = entry.session_id
        if inbound.taken is None and not inbound.is_noted:
            await self._tell_reset(entry, source)
        return await parts.agents.agent_for(self.key, entry, source)

    def request(self, inbound: Inbound) -> TurnRequest:
        """The turn that a message asks for."""
        platform = inbound.event.source.platform
        adapter = self._parts.adapters.get(platform)
        manifest = adapter.manifest if adapter is not None else find_manifest(platform.value)
        return request_of(inbound, manifest is None or manifest.capabilities.pushes)

    def origin(self, inbound: Inbound) -> Origin:
        """The chat, and who wrote."""
        source = inbound.event.source
        return Origin(
            platform=source.platform.value,
            session_id=inbound.began_in,
            session_key=self.key,
            chat_id=source.chat_id,
            chat_name=source.chat_name,
            chat_type=source.chat_type,
            thread_id=source.thread_id,
            user_id=source.user_id,
            user_name=source.user_name,
            message_id=inbound.event.message_id,
        )

    def asked(self, inbound: Inbound) -> str:
        """The message's text."""
        return inbound.event.text

    def name(self, inbound: Inbound) -> str:
        """The message's name in the inbox."""
        return inbound.inbox_id

    async def begin(self, inbound: Inbound, agent: Any) -> None:
        """Show that something happens."""
        assert inbound.stream is not None
        inbound.stream.start()
        self._parts.agents.cache.touch(self.key)
        if inbound.taken is not None:
            await self._parts.abandoned.tell_unknown(inbound)
            self.resumed = time.time()

    def begun(self, inbound: Inbound) -> None:
        """As soon as the turn has the agent: what came since its beginning joins it."""
        if self.admitted and inbound.taken is None and not inbound.is_noted:
            self._turns.conversations.spawn(self._turns.join_waiting(self, self.key))

    def watch(self, inbound: Inbound, agent: Any) -> Watcher | None:
        """The answer's text goes into the chat as it comes, and what it should be told at once."""
        assert inbound.stream is not None
        show = inbound.stream.watch

        def watch(event: Event) -> None:
            if type(event) is Noticed:
                if event.to_chat:
                    self._turns.conversations.spawn(self.say(inbound, event.text))
            else:
                show(event)

        return watch

    def keeps(self, inbound: Inbound, outcome: NotStarted) -> bool:
        """A message that a stop of the gateway kept from beginning waits for the next start, and
        one whose chat is not ours at this moment for whoever has it: we could not tell it why."""
        inbound.is_kept = not self._parts.serves(inbound.event.source.platform)
        return inbound.is_kept or (not outcome.failed and not self._parts.is_running())

    async def close(self, inbound: Inbound) -> None:
        """Show no more."""
        self.asker = self.resumed = None
        if inbound.stream is not None:
            await inbound.stream.stop()

    async def settle(self, inbound: Inbound, outcome: TurnOutcome, agent: Any | None) -> None:
        """Before anybody is answered: the chat follows its session, and what was read is over."""
        parts, key = self._parts, self.key
        if agent is not None:
            parts.agents.cache.note_weight(key, agent)
            await self._set_title(inbound.event.source, outcome.session_id)
        entry = inbound.entry
        try:
            in_turn = (inbound.began_in, outcome.session_id)
            if entry and not outcome.is_silent and entry.session_id in in_turn:
                if entry.session_id != outcome.session_id:
                    await parts.db.at_hand(parts.follow, entry, outcome.session_id)
                await parts.recount(key, entry.session_id)
        finally:
            await self._settle_steered()

    async def _settle_steered(self) -> None:
        """Drop steered messages that the turn has read from the queue."""
        steered, self.steered = self.steered, set()
        for key in {chat for chat, _ in steered}:
            waiting = await self._parts.db.list_waiting(session_key=key)
            read = {name for chat, name in steered if chat == key}
            self._turns.door(key).remove(read - {row["id"] for row in waiting})

    async def deliver(self, inbound: Inbound, outcome: TurnOutcome) -> None:
        """See the answer out, or say why there is none."""
        parts, source, stream = self._parts, inbound.event.source, inbound.stream
        stored, history = outcome.text, len(outcome.messages)
        if outcome.is_silent or inbound.is_kept:
            log.info("The turn in %s is answered by another process", self.key)
        elif stored:
            answer_id = f"{inbound.inbox_id}:{outcome.api_calls}"
            await retry_until_stored(
                lambda: parts.db.revise_delivery(answer_id, stored), "An answer", is_repeatable=True
            )
        elif text := normalize_empty_response(outcome, "", history_len=history):
            await parts.delivery.say(source, self.key, text, stream)
        await parts.delivery.flush(self.key, inbound.inbox_id)
        if stream is not None and stream.message_id is not None:
            await parts.delivery.forget_preview(turn_name(inbound))

    async def mirror_question(self, inbound: Inbound) -> None:
        """Show the linked chats a message that the running turn reads."""
        session_id = self._parts.store.peek_session_id(self.key) or ""
        await self._turns.conversations.mirror.question(
            self.key, session_id, self.origin(inbound), inbound.inbox_id, inbound.event.text
        )

    async def say(self, inbound: Inbound, text: str) -> None:
        """Tell the chat."""
        await self._parts.delivery.say(inbound.event.source, self.key, text)

    def is_asking(self) -> bool:
        """Whether the chat is asked something."""
        return self._parts.questions.is_asking(self.key)

    async def _set_title(self, source: SessionSource, session_id: str) -> None:
        """Give a new conversation the title it was begun with, now that it has a row."""
        parts = self._parts
        entry = parts.store.entry(self.key)
        if entry is None or entry.wished_title is None:
            return
        try:
            await parts.db.set_session_title(session_id, entry.wished_title)
        except ValueError as error:
            await parts.delivery.say(source, self.key, f"⚠️ The title was not set: {error}")
        # Last, so that a gateway that takes the turn over would set it again.
        await parts.db.at_hand(parts.store.set_wished_title, self.key, None)

    async def _tell_reset(self, entry: SessionEntry, source: SessionSource) -> None:
        """Say that a policy has begun a new session, once."""
        if not entry.was_auto_reset or not entry.reset_had_activity:
            return
        policy = self._parts.config.policy_for(source.platform.value, entry.chat_type)
        if policy.notify and source.platform.value not in policy.notify_exclude_platforms:
            await self._parts.delivery.say(
                source,
                entry.session_key,
                "🌅 A new conversation begins; /resume goes on with the last.",
            )

    # Turns of other processes

    def waits_for(self, turn: Mapping[str, Any]) -> bool:
        """Another gateway's are waited for, and those that are to read a message; any other of a
        program that is no chat, the engine waits for, so that /stop and the silence watch work
        meanwhile."""
        waiting = list(self.admitted.values())
        return bool(turn["deliver_to"]) or any(map(self._turns.steers, waiting))

    async def offer(self, inbound: Inbound, turn: Mapping[str, Any]) -> None:
        """Let the turn read what waits here, in its order, if messages are to steer; have it make
        way if they are to interrupt."""
        for waiting in await self._waiting():
            name = waiting.inbox_id
            if not await self._parts.db.at_hand(self._turns.steers, waiting):
                if await self._parts.db.at_hand(self._turns.interrupts, waiting):
                    await self._offers.make_way(self.session_id(), turn, name)
                return
            if not await self._parts.db.at_hand(self._may_steer, waiting):
                return
            is_new = not self._offers.has_offered(name)
            text = waiting.event.text
            if not await self._offers.offer(self.session_id(), turn, text, name):
                return
            self.steered.add((self.key, name))
            if is_new:
                await self.mirror_question(waiting)

    def _may_steer(self, inbound: Inbound) -> bool:
        """Whether whoever wrote may have a turn read it that another process runs: for whom that is
        cannot be told, but whose conversation it is."""
        source, agents = inbound.event.source, self._parts.agents
        if agents.access(source, self.key).role == "operator":
            return True
        row = self._parts.db.sync.get_session(self.session_id())
        return row is None or is_owned(row, source.owner or NOBODY)

    async def _answer_read(self) -> None:
        """The other turn has ended. Tell a chat that is not shown such turns what was answered to
        what that has read."""
        parts, entry = self._parts, self._parts.store.entry(self.key)
        rows = await parts.db.list_waiting(session_key=self.key)
        unread = {row["id"] for row in rows}
        names = [name for key, name in self.steered if key == self.key and name not in unread]
        read = [self.admitted[name] for name in names if name in self.admitted]
        text = ""
        if read and entry is not None and not (entry.linked or entry.follows):
            tip = await parts.db.at_hand(parts.db.sync.get_compression_tip, entry.session_id)
            messages = await parts.db.get_messages_as_conversation(tip)
            last = messages[-1] if messages else {}
            text = str(last.get("content") or "") if last.get("role") == "assistant" else ""
        await self._settle_steered()
        if text:
            await parts.delivery.say(read[-1].event.source, self.key, text)

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """The chat or the job that an abandoned turn belongs to."""
        return self._turns.door_of(turn)

    async def take_over(self, turn: Abandoned) -> Inbound | None:
        """Make it this chat's turn, or close it."""
        return await self._parts.abandoned.take(turn)


def turn_name(inbound: Inbound) -> str:
    """The name of a turn, the same for every process that works on it."""
    taken = inbound.taken
    return str(taken.deliver_to["id"]) if taken and taken.deliver_to else inbound.inbox_id


def request_of(inbound: Inbound, pushes: bool) -> TurnRequest:
    """The turn that a message asks for; `pushes` is whether its platform can be written to."""
    if inbound.taken is not None:
        return TakenOver(inbound.taken)
    source = inbound.event.source
    deliver_to = None
    if pushes:
        address = {
            "session_key": inbound.session_key,
            "platform": source.platform.value,
            "chat_id": source.chat_id,
            "thread_id": source.thread_id,
        }
        deliver_to = DeliverTo(inbound.inbox_id, address, inbound.under)
    if inbound.is_noted:
        return WaitingNotes(deliver_to)
    content = content_of(inbound.event.text, inbound.event.media)
    return Question(content, inbound.inbox_ids, deliver_to=deliver_to)
