"""From chat messages to turns.

A message that comes while a turn runs interrupts it, is read by it, or waits, as configured. While
a turn has not said anything, a further message of the same person joins it instead of interrupting
it, so that both are answered. What waits is in the store's inbox, so a restart finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from conversation import busy
from conversation.door import Abandoned, Door
from conversation.service import Conversations

from .abandoned_in_chats import AbandonedTurn
from .chat_door import LOOK_AHEAD, ChatDoor, ChatParts
from .chat_options import ChatOptions
from .config import Platform
from .message_parts import PartsExpected
from .pipeline import Inbound, content_of, store_inbound
from .platforms.base import MessageEvent, SendError
from .session import SessionEntry

log = logging.getLogger(__name__)

SEEN = "👀"


class ChatTurns:
    """The doors of every chat, and what a message does to the turn that runs there."""

    def __init__(
        self, conversations: Conversations, options: ChatOptions, parts: ChatParts
    ) -> None:
        self.conversations = conversations
        self._options = options
        self._chat_parts = parts
        self._db, self._store, self._config = parts.db, parts.store, parts.config
        self._doors: dict[str, ChatDoor] = {}
        self.parts = PartsExpected(parts.config.message_parts_wait)
        self.job_door: Callable[[Abandoned], Door[Any] | None] = lambda turn: None
        """The door of an abandoned turn that is a job's."""

    def door(self, key: str) -> ChatDoor:
        """The door of a chat."""
        door = self._doors.get(key)
        if door is None:
            door = self._doors[key] = ChatDoor(self._chat_parts, self, key)
        return door

    def forget(self, door: ChatDoor) -> None:
        """Drop the door of a chat in which nothing waits or runs."""
        if not door.admitted and door.key not in self.conversations.agents:
            self._doors.pop(door.key, None)

    def forget_waiting(self, platform: Platform) -> None:
        """What waits in the chats of a platform is another gateway's to begin with."""
        for door in self._doors.values():
            door.remove(
                [
                    name
                    for name, waiting in door.admitted.items()
                    if waiting.event.source.platform is platform
                ]
            )

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """The door of the chat or the job that an abandoned turn belongs to; None if it is neither
        here."""
        if (job := self.job_door(turn)) is not None:
            return job
        chat_turn = self._chat_parts.abandoned.chat_of(turn.row)
        return None if chat_turn is None else self.door(chat_turn.key)

    @property
    def waiting(self) -> int:
        """Messages that wait for the turn before them."""
        admitted = sum(len(door.admitted) for door in self._doors.values())
        return admitted + self.conversations.queued

    async def take(self, inbound: Inbound, mode: str | None = None) -> None:
        """Begin with a message, or do with the running turn of its chat as configured.

        `mode` is what is done instead: "steer", "queue" or "interrupt".
        """
        key = inbound.session_key
        holder = await self._find_running(key)
        if not self._chat_parts.still_holds(inbound.under):
            return  # it was forgotten with its lease; who has the chat now takes it up anew
        door = self.door(key)
        inbound.steers = mode == "steer"
        door.admitted[inbound.inbox_id] = inbound
        self.parts.arrived(key)
        platform = self._config.platforms.get(inbound.event.source.platform)
        if platform is not None and platform.extra.get("reactions"):
            self.conversations.spawn(self._acknowledge(inbound.event))
        if self.conversations.begin(door, inbound) and holder is None:
            return
        running = self.door(holder or key)
        if inbound.waited or _was_waiting(inbound.event, running):
            return
        mode = mode or await self._find_busy_mode(key)
        agent = self.conversations.agents.get(running.key)
        if mode == "steer" and not self._may_steer(inbound, running):
            return  # what one may read and have done, another must not ask for in their turn
        if mode == "steer" and hasattr(agent, "steer") and not inbound.event.media:
            waiting = await self._db.list_waiting(session_key=key, limit=LOOK_AHEAD)
            if not door.is_waiting(inbound):
                return
            if waiting and (key, waiting[0]["id"]) in ((key, inbound.inbox_id), *running.steered):
                # In the order they came. What is not read in this turn waits for the next.
                running.steered.add((key, inbound.inbox_id))
                busy.steer(agent, inbound.event.text, inbound.inbox_id)
                await door.mirror_question(inbound)
        elif mode == "interrupt" and hasattr(agent, "make_way"):
            await self.join_waiting(door, running.key)
            if door.is_waiting(inbound) and (key, inbound.inbox_id) not in running.steered:
                busy.make_way(agent)

    def _may_steer(self, inbound: Inbound, running: ChatDoor) -> bool:
        """Whether a turn may be told what somebody wrote while it runs: it has the tools, the past
        conversations and the memory of whoever asked, so only by them or by an operator."""
        source, asker, access = inbound.event.source, running.asker, self._chat_parts.agents.access
        if asker is None or asker.owner == source.owner:
            return True
        return access(source, inbound.session_key).role == "operator"

    async def join_waiting(self, door: ChatDoor, holder: str) -> None:
        """Let what waits in a chat join the turn that runs there, where that has not said anything.

        Only messages of the person who is being answered, in the order they came, and not those
        that an earlier run accepted.
        """
        key = door.key
        if await self._find_busy_mode(key) != "interrupt":
            return
        agent = self.conversations.agents.get(holder)
        if key != holder or door.asker is None:
            return
        joined = []
        for inbound in door.admitted.values():
            if (key, inbound.inbox_id) in door.steered:
                continue
            event = inbound.event
            if inbound.waited or event.source.user_id != door.asker.user_id:
                break
            if not busy.join(agent, content_of(event.text, event.media), inbound.inbox_id):
                break
            door.steered.add((key, inbound.inbox_id))
            joined.append(inbound)
        for inbound in joined:
            await door.mirror_question(inbound)

    def begin_with(self, turn: AbandonedTurn) -> bool:
        """Begin a chat's queue with an abandoned turn; False if its worker runs already.

        That worker then finishes the turn, before the conversation's next message.
        """
        return self.conversations.begin(self.door(turn.key), Abandoned(turn.row))

    async def tell(self, key: str, inbound: Inbound) -> bool:
        """Begin a turn with the notes of a chat's conversation; False if one runs already."""
        if self.is_busy(key) or await self._find_running(key) is not None:
            return False
        return self.conversations.begin(self.door(key), inbound)

    async def _acknowledge(self, event: MessageEvent) -> None:
        """Show that a message was seen, where the platform can."""
        adapter = self._chat_parts.adapters.get(event.source.platform)
        if adapter is not None and adapter.capabilities.reactions and event.message_id:
            try:
                await adapter.react(event.source.chat_id, event.message_id, SEEN)
            except (SendError, OSError) as error:
                log.info("No reaction in %s: %s", event.source.chat_id, error)

    def running_key(self, key: str) -> str | None:
        """The key whose turn runs in a chat's conversation: its own, or that of another chat."""
        return self.conversations.holder(self._store.peek_session_id(key))

    async def _find_running(self, key: str) -> str | None:
        """The same, for coroutines; where nothing runs the store is not asked."""
        if self.conversations.places.is_empty:
            return None
        return await self._db.at_hand(self.running_key, key)

    def runs_in(self, platform: Platform) -> bool:
        """Whether a turn runs in a chat of a platform."""
        return any(platform.value in key.split(":") for key in self.conversations.agents)

    def is_busy(self, key: str) -> bool:
        """Whether a turn of a chat runs or waits."""
        return self.conversations.is_busy(key)

    def _busy_mode(self, key: str) -> str:
        """What a message does that comes while a turn runs, in this chat."""
        configured = self._config.busy_input_mode
        return str(self._options.of(key).get("busy") or configured)

    async def _find_busy_mode(self, key: str) -> str:
        """The same, for coroutines; where nobody set anything it is known at once, so that what
        waits joins a turn before that has an answer."""
        if not self._options.are_set(key):
            return self._config.busy_input_mode
        return await self._db.at_hand(self._busy_mode, key)

    def steers(self, inbound: Inbound) -> bool:
        """Whether a message is to be read by a turn that another process runs; for threads too."""
        if inbound.waited or inbound.is_noted or inbound.event.media:
            return False
        return inbound.steers or self._busy_mode(inbound.session_key) == "steer"

    def interrupts(self, inbound: Inbound) -> bool:
        """Whether a turn that another process runs is to make way for a message; for threads
        too."""
        if inbound.waited or inbound.is_noted or inbound.steers:
            return False
        return self._busy_mode(inbound.session_key) == "interrupt"

    async def queue(self, inbound: Inbound, message: str) -> int:
        """Let a message wait for the end of the running turn, whatever others of its chat do;
        returns how many wait in the chat."""
        await self.send(inbound, message, waits=True)
        return len(self.door(inbound.session_key).admitted)

    async def send(
        self, inbound: Inbound, message: Any, *, waits: bool = False, mode: str | None = None
    ) -> None:
        """Begin with a message that a command made of the person's; `mode` as for `take`."""
        event, name = inbound.event, f"{inbound.inbox_id}:command"
        further = Inbound(event, inbound.session_key, name, waited=waits, under=inbound.under)
        await store_inbound(self._db, self._store, further, message)
        event.text = message if isinstance(message, str) else str(message[0].get("text", ""))
        await self.take(further, mode)

    async def tell_expired(self, entry: SessionEntry) -> None:
        """Tell the chat that its session has expired, where the policy wants that."""
        if entry.platform is None or entry.origin is None:
            return
        policy = self._config.policy_for(entry.platform.value, entry.chat_type)
        if not policy.notify or entry.platform.value in policy.notify_exclude_platforms:
            return
        await self._chat_parts.delivery.say(
            entry.origin,
            entry.session_key,
            "🌙 This conversation has ended. Your next message begins a new one; /resume goes on.",
        )


def _was_waiting(event: MessageEvent, running: ChatDoor) -> bool:
    """Whether a message was sent before anybody could see that its chat's turn goes on."""
    seen = running.resumed
    return seen is not None and event.timestamp is not None and event.timestamp.timestamp() < seen
