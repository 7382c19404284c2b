"""Turns of chats: one at a time per conversation, any number beside each other.

A message that comes while a turn runs interrupts it, is read by it, or waits, as configured. While
a turn has not said anything, a further message of the same person joins it instead of interrupting
it, so that both are answered. What waits is in the store's inbox, so a restart finds it. A turn
that another process left comes before what waits. However a turn ends, the chat is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sized
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from . import take_over
from .accepted import event_of, facts_of
from .answering import Answering
from .config import Platform
from .message_parts import PartsExpected, merge_parts, select_parts
from .one_turn import Conversations
from .pace import Pace
from .patience import retry_until_stored
from .pipeline import Inbound, content_of
from .platforms.base import MessageEvent, SendError
from .session import SessionEntry

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

LOOK_AHEAD = 32
"""Waiting messages of a chat that are looked at for the next turn."""

WAITING_SECONDS = 1.0
"""After which it is looked whether another gateway is gone; the end of its turn is a write."""

LAST_SECONDS = 5.0
"""How long a turn that was interrupted by a stop may take to end."""

SEEN = "👀"


class Turns:
    """Runs the turns of every chat."""

    def __init__(self, runner: GatewayRunner) -> None:
        self._runner = runner
        limit = runner.config.max_concurrent_sessions
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._chats: dict[str, asyncio.Task[None]] = {}
        self.conversations = Conversations(runner._session_db.sync)
        self._pace = Pace()
        self.answering = Answering(runner)
        self._steered: dict[str, set[tuple[str, str]]] = {}
        """By the key whose turn it is: what it was given to read, each with its chat's key."""
        self._admitted: dict[str, dict[str, Inbound]] = {}
        """By chat and by inbox id: messages that passed the stages and wait here; others in the
        inbox are still in them."""
        self._askers: dict[str, str | None] = {}
        """By the key whose turn it is: the person whose message is being answered."""
        self.parts = PartsExpected(runner.config.message_parts_wait)
        self.told: dict[str, float] = {}
        """By key: until when no further turn is begun that nobody asked for."""
        self._lines: dict[str, Sized] = {}
        """Messages of others' conversations: the one that runs, and those behind it."""
        self.in_flight = 0
        self.finished = 0
        self.failed = 0
        self.seconds = 0.0
        """What the finished ones have taken, all together."""

    @property
    def waiting(self) -> int:
        """Messages that wait for the turn before them."""
        admitted = sum(map(len, self._admitted.values()))
        return admitted + sum(max(0, len(line) - 1) for line in self._lines.values())

    async def take(self, inbound: Inbound, mode: str | None = None) -> None:
        """Begin with a message, or do with the running turn of its chat as configured.

        `mode` is what is done instead: "steer", "queue" or "interrupt".
        """
        key = inbound.session_key
        self._admitted.setdefault(key, {})[inbound.inbox_id] = inbound
        self.parts.arrived(key)
        self._runner.spawn(self._acknowledge(inbound.event))
        holder = self.running_key(key)
        if key not in self._chats:
            self._chats[key] = self._runner.spawn(self._run_chat(key, inbound))
            if holder is None:
                return
        holder = holder or key
        if inbound.waited or self._was_waiting(inbound.event, holder):
            return
        agent = self._runner._running_agents.get(holder)
        mode = mode or self._busy_mode(key)
        steer, make_way = getattr(agent, "steer", None), getattr(agent, "make_way", None)
        if mode == "steer" and steer is not None and not inbound.event.media:
            waiting = await self._runner._session_db.list_waiting(session_key=key, limit=LOOK_AHEAD)
            steered = self._steered.get(holder, set())
            if waiting and (key, waiting[0]["id"]) in ((key, inbound.inbox_id), *steered):
                # In the order they came. What is not read in this turn waits for the next.
                self._steered.setdefault(holder, set()).add((key, inbound.inbox_id))
                await self.answering.mirror_question(inbound)
                steer(inbound.event.text, inbound.inbox_id)
        elif mode == "interrupt" and make_way is not None:
            await self.join_waiting(key, holder)
            if (key, inbound.inbox_id) not in self._steered.get(holder, ()):
                make_way()

    async def join_waiting(self, key: str, holder: str) -> None:
        """Let what waits in a chat join the turn that runs there, where that has not said anything.

        Only messages of the person who is being answered, in the order they came, and not those
        that an earlier run accepted.
        """
        join = getattr(self._runner._running_agents.get(holder), "join", None)
        if self._busy_mode(key) != "interrupt" or join is None:
            return
        if key != holder or key not in self._askers:
            return
        steered = self._steered.setdefault(holder, set())
        joined = []
        for inbound in self._admitted.get(key, {}).values():
            if (key, inbound.inbox_id) in steered:
                continue
            event = inbound.event
            if inbound.waited or event.source.user_id != self._askers[key]:
                break
            if not join(content_of(event.text, event.media), inbound.inbox_id):
                break
            steered.add((key, inbound.inbox_id))
            joined.append(inbound)
        for inbound in joined:
            await self.answering.mirror_question(inbound)

    def _was_waiting(self, event: MessageEvent, holder: str) -> bool:
        """Whether a message was sent before anybody could see that its chat's turn goes on."""
        seen = self.answering.resumed.get(holder)
        return (
            seen is not None and event.timestamp is not None and event.timestamp.timestamp() < seen
        )

    def begin_with(self, left: take_over.AbandonedTurn) -> bool:
        """Begin a chat's line with the turn that another process left; False if it runs already.

        Then that sees to it, before the next message of the conversation.
        """
        if left.key in self._chats:
            return False
        self._chats[left.key] = self._runner.spawn(self._run_chat(left.key, left))
        return True

    def tell(self, key: str, inbound: Inbound) -> bool:
        """Begin a turn with the notes of a chat's conversation; False if one runs already."""
        if key in self._chats or self.running_key(key) is not None:
            return False
        self._chats[key] = self._runner.spawn(self._run_chat(key, inbound))
        return True

    async def _acknowledge(self, event: MessageEvent) -> None:
        """Show that a message was seen, where the platform can and its section wants that."""
        platform = event.source.platform
        adapter = self._runner.adapters.get(platform)
        config = self._runner.config.platforms.get(platform)
        if adapter is None or config is None or not config.extra.get("reactions"):
            return
        if adapter.capabilities.reactions and event.message_id:
            try:
                await adapter.react(event.source.chat_id, event.message_id, SEEN)
            except (SendError, OSError) as error:
                log.info("No reaction in %s: %s", event.source.chat_id, error)

    def running_key(self, key: str) -> str | None:
        """The key whose turn runs in a chat's conversation: its own, or that of another chat."""
        return self.conversations.holder(self._runner.session_store.peek_session_id(key))

    def is_busy(self, key: str) -> bool:
        """Whether a turn of a chat runs or waits."""
        return key in self._chats

    def occupy(self, key: str, task: asyncio.Task[None], line: Sized = ()) -> None:
        """Somebody else runs turns under a key; they are drained with the others."""
        self._chats[key] = task
        self._lines[key] = line

    def leave(self, key: str) -> None:
        """They have ended."""
        self._chats.pop(key, None)
        self._lines.pop(key, None)

    @contextlib.asynccontextmanager
    async def place(self, key: str, session_id: Callable[[], str]) -> AsyncIterator[bool]:
        """Have the turn in a conversation, also before other gateways; yields whether it took a
        wait. What another process left in it is gone on with first."""
        waited = False
        wake = self._runner._session_db.wake
        while True:
            seen = wake.number
            async with self.conversations.turn(key, session_id) as late:
                blocking = take_over.blocking_turn(self._runner, session_id())
                if blocking is None or not self._runner._running:
                    yield late or waited
                    return
            waited = True
            if isinstance(blocking, take_over.RunningElsewhere):
                await wake.wait_async(seen, WAITING_SECONDS)
            else:
                await self._finish(blocking)

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Room for one turn among those that may run at once."""
        async with self._slots or contextlib.nullcontext():
            self.in_flight += 1
            begun = time.monotonic()
            try:
                yield
            finally:
                self.in_flight -= 1
                self.finished += 1
                self.seconds += time.monotonic() - begun

    def _busy_mode(self, key: str) -> str:
        """What a message does that comes while a turn runs, in this chat."""
        configured = self._runner.config.busy_input_mode
        return str(self._runner.chat_options.of(key).get("busy") or configured)

    async def queue(self, inbound: Inbound, message: str) -> int:
        """Let a message wait for the end of the running turn, whatever others of its chat do;
        returns how many wait in the chat."""
        await self.send(inbound, message, waits=True)
        return len(self._admitted.get(inbound.session_key, ()))

    async def send(
        self, inbound: Inbound, message: Any, *, waits: bool = False, mode: str | None = None
    ) -> None:
        """Begin with a message that a command made of the person's; `mode` as for `take`."""
        event = inbound.event
        inbox_id = f"{inbound.inbox_id}:command"
        await self._runner._session_db.accept_message(
            inbox_id,
            self._runner.session_store.peek_session_id(inbound.session_key) or inbound.session_key,
            message,
            source=event.source.platform.value,
            session_key=inbound.session_key,
            user_id=event.source.owner,
            facts=facts_of(event),
        )
        event.text = message if isinstance(message, str) else str(message[0].get("text", ""))
        await self.take(Inbound(event, inbound.session_key, inbox_id, waited=waits), mode)

    async def resume(self, platform: Platform) -> None:
        """After a start: go on with what a platform's chats had sent and was not begun."""
        for row in await self._runner._session_db.list_waiting():
            if not row["session_key"] or not row["facts"].get("source"):
                continue  # another front end's
            try:
                event = event_of(row)
            except (KeyError, ValueError, TypeError):
                log.warning("%s is of a platform that is not known here", row["id"])
                continue
            if event.source.platform is platform:
                inbound = Inbound(event, row["session_key"], row["id"], waited=True)
                self._runner.pipeline.take_up(inbound)

    async def drop(self, *inbox_ids: str) -> None:
        """Take messages from the inbox; if the store cannot do that now, as soon as it can."""
        for inbox_id in inbox_ids:
            try:
                await self._runner._session_db.drop_message(inbox_id)
            except StoreError as error:
                log.warning("%s stays in the inbox for now: %s", inbox_id, error)
                self._runner.spawn(self._drop_when_possible(inbox_id))

    async def _drop_when_possible(self, inbox_id: str) -> None:
        db = self._runner._session_db
        await retry_until_stored(lambda: db.drop_message(inbox_id), f"Dropping {inbox_id}")

    async def drain(self, seconds: float) -> list[str]:
        """Let running turns end; those that take longer are interrupted. Returns their keys."""
        running = list(self._chats.values())
        if not running:
            return []
        _, late = await asyncio.wait(running, timeout=seconds)
        begun = [key for key in self._runner._running_agents if self._chats.get(key) in late]
        for _, agent in self._agents():
            interrupt = getattr(agent, "interrupt", None)
            if interrupt is not None:
                interrupt()
        if late:
            _, late = await asyncio.wait(late, timeout=LAST_SECONDS)
            ending = [
                take_over.end_stuck(self._runner, agent.session_id)
                for key, agent in self._agents()
                if self._chats.get(key) in late and hasattr(agent, "session_id")
            ]
            if found := [task for task in ending if task is not None]:
                await asyncio.wait(found, timeout=LAST_SECONDS)
        return [key for key in begun if key not in self.answering.not_started]

    def _agents(self) -> list[tuple[str, Any]]:
        return list(self._runner._running_agents.items())

    async def tell_expired(self, entry: SessionEntry) -> None:
        """Say in the chat that its session has ended, where the policy wants that."""
        if entry.platform is None or entry.origin is None:
            return
        policy = self._runner.config.policy_for(entry.platform.value, entry.chat_type)
        if not policy.notify or entry.platform.value in policy.notify_exclude_platforms:
            return
        await self._runner.delivery.say(
            entry.origin,
            entry.session_key,
            "🌙 This conversation has ended. Your next message begins a new one; /resume goes on.",
        )

    async def _run_chat(self, key: str, first: Inbound | take_over.AbandonedTurn) -> None:
        """Run a message or what was left, then what has come to the chat meanwhile."""
        inbound: Inbound | take_over.AbandonedTurn | None = first
        try:
            while inbound is not None:
                if isinstance(inbound, Inbound):
                    await self._take_turn(key, inbound)
                else:
                    await self._finish(inbound)
                inbound = await self._next(key) if self._runner._running else None
        finally:
            del self._chats[key]
        # One that came between the last look and the end would wait for the next message.
        if self._runner._running and (late := await self._next(key)) and key not in self._chats:
            await self.take(late)

    async def _next(self, key: str) -> Inbound | None:
        return next(iter(await self._waiting(key)), None)

    async def _waiting(self, key: str) -> list[Inbound]:
        """The next messages of a chat that passed the stages, oldest first."""
        admitted = self._admitted.get(key)
        if not admitted:
            return []
        waiting = await self._runner._session_db.list_waiting(session_key=key, limit=LOOK_AHEAD)
        return [admitted[row["id"]] for row in waiting if row["id"] in admitted]

    def _parts_of(self, inbound: Inbound, waiting: Iterable[Inbound]) -> list[Inbound]:
        """A message with those of the waiting ones that are parts of it."""
        seconds = 0 if inbound.is_noted else self._runner.config.message_parts_wait
        return select_parts(inbound, list(waiting), seconds) if seconds else [inbound]

    def _remove_admitted(self, key: str, inbox_ids: Iterable[str]) -> None:
        admitted = self._admitted.get(key, {})
        for inbox_id in inbox_ids:
            admitted.pop(inbox_id, None)
        if not admitted:
            self._admitted.pop(key, None)

    async def _take_turn(self, key: str, inbound: Inbound) -> None:
        """Run a message with all its parts when no other chat has its conversation's turn."""
        store = self._runner.session_store
        waited = await self.parts.complete(
            key, lambda: self._parts_of(inbound, self._admitted.get(key, {}).values())
        )
        if waited and not self._runner._running:
            return  # it waits in the inbox, and its further parts with the platform
        entry: SessionEntry | None = None
        with contextlib.suppress(StoreError):  # the turn meets it too, and tells it
            if inbound.is_noted:  # what is told to a conversation does not begin another
                entry = store.entry(key)
            else:
                entry = store.get_or_create_session(inbound.event.source)
        place = self.place(key, lambda: store.peek_session_id(key) or key)
        async with contextlib.AsyncExitStack() as room:
            async with place as late:
                if late:
                    # The turn of another chat may have read it, or the gateway is being stopped.
                    if not self._runner._running:
                        return
                    found = await retry_until_stored(lambda: self._next(key), "Looking what waits")
                    if found is None:
                        return
                    inbound = inbound if found.inbox_id == inbound.inbox_id else found
                await room.enter_async_context(self.slot())
                waiting = await retry_until_stored(lambda: self._waiting(key), "Looking what waits")
                inbound = merge_parts(self._parts_of(inbound, waiting))
                self.parts.forget(key)
                self._remove_admitted(key, inbound.inbox_ids)
                self._askers[key] = inbound.event.source.user_id
                try:
                    entry = entry and store.entry(key)
                    outcome, stream = await self.answering.run(key, inbound, entry)
                finally:
                    del self._askers[key]
            # Where a platform makes us wait, the other chats of the conversation do not.
            await self.answering.deliver(key, inbound, outcome, stream)

    async def _finish(self, left: take_over.AbandonedTurn) -> None:
        """Bring a turn to its end that another process left; nothing if that was seen to."""
        place = self.conversations.turn(left.key, lambda: left.session_id)
        async with contextlib.AsyncExitStack() as room:
            async with place, self._pace.place() as alive:
                if not self._runner._running:
                    return
                await room.enter_async_context(self.slot())
                inbound = await retry_until_stored(
                    lambda: take_over.take(self._runner, left), "A take-over"
                )
                if inbound is None or inbound.taken is None:
                    return
                inbound.alive = alive
                try:
                    outcome, stream = await self.answering.run(left.key, inbound)
                finally:
                    take_over.let_go(self._runner, inbound.taken)
            await self.answering.deliver(left.key, inbound, outcome, stream)

    async def settle_steered(self, key: str) -> None:
        """After a turn: what it was given to read and has read waits no longer."""
        steered = self._steered.pop(key, set())
        for chat in {one for one, _ in steered}:
            waiting = await self._runner._session_db.list_waiting(session_key=chat)
            read = {name for one, name in steered if one == chat}
            self._remove_admitted(chat, read - {row["id"] for row in waiting})
