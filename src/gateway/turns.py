"""Turns of chats: one at a time per conversation, any number beside each other.

A message that comes while a turn runs interrupts it, is read by it, or waits, as configured. What
waits is in the store's inbox, so a restart finds it. However a turn ends, the chat is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sized
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from . import session_context
from .agent_source import agent_for
from .config import Platform
from .links import mirror_answer, mirror_question
from .one_turn import Conversations
from .patience import patiently
from .pipeline import Inbound, content_of
from .platforms.base import MessageEvent, SendError
from .session import SessionEntry, SessionSource
from .streaming import Stream
from .turn_events import TurnEvents

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

LOOK_AHEAD = 32
"""Waiting messages of a chat that are looked at for the next turn."""

SEEN = "👀"


class Turns:
    """Runs the turns of every chat."""

    def __init__(self, runner: GatewayRunner) -> None:
        self._runner = runner
        limit = runner.config.max_concurrent_sessions
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._chats: dict[str, asyncio.Task[None]] = {}
        self.conversations = Conversations(runner._session_db._db)
        self._steered: dict[str, set[tuple[str, str]]] = {}
        """By the key whose turn it is: what it was given to read, each with its chat's key."""
        self._admitted: set[str] = set()
        """Messages that passed the stages and wait here; others in the inbox are still in them."""
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
        return len(self._admitted) + sum(max(0, len(line) - 1) for line in self._lines.values())

    async def take(self, inbound: Inbound) -> None:
        """Begin with a message, or do with the running turn of its chat as configured."""
        key = inbound.session_key
        self._admitted.add(inbound.inbox_id)
        self._runner.spawn(self._acknowledge(inbound.event))
        holder = self.running_key(key)
        if key not in self._chats:
            self._chats[key] = self._runner.spawn(self._run_chat(key, inbound))
            if holder is None:
                return
        holder = holder or key
        agent = self._runner._running_agents.get(holder)
        mode = self._runner.config.busy_input_mode
        steer, interrupt = getattr(agent, "steer", None), getattr(agent, "interrupt", None)
        if mode == "steer" and steer is not None and not inbound.event.media:
            waiting = await self._runner._session_db.list_waiting(session_key=key, limit=LOOK_AHEAD)
            steered = self._steered.get(holder, set())
            if waiting and (key, waiting[0]["id"]) in ((key, inbound.inbox_id), *steered):
                # In the order they came. What is not read in this turn waits for the next.
                self._steered.setdefault(holder, set()).add((key, inbound.inbox_id))
                await self._mirror_question(inbound)
                steer(inbound.event.text, inbound.inbox_id)
        elif mode == "interrupt" and interrupt is not None:
            interrupt()

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

    async def send(self, inbound: Inbound, message: Any) -> None:
        """Begin with a message that a command made of the person's."""
        event = inbound.event
        inbox_id = f"{inbound.inbox_id}:command"
        await self._runner._session_db.accept_message(
            inbox_id,
            self._runner.session_store.peek_session_id(inbound.session_key) or inbound.session_key,
            message,
            source=event.source.platform.value,
            session_key=inbound.session_key,
            user_id=event.source.owner,
            facts={"source": event.source.to_dict(), "media": event.media},
        )
        event.text = message if isinstance(message, str) else str(message[0].get("text", ""))
        await self.take(Inbound(event, inbound.session_key, inbox_id))

    async def resume(self, platform: Platform) -> None:
        """After a start: go on with what a platform's chats had sent and was not begun."""
        for row in await self._runner._session_db.list_waiting():
            source = row["facts"].get("source")
            if not row["session_key"] or not source:
                continue  # another front end's
            try:
                event = MessageEvent(
                    str(row["content"] or ""),
                    SessionSource.from_dict(source),
                    row["platform_message_id"],
                    list(row["facts"].get("media") or ()),
                )
            except (KeyError, ValueError, TypeError):
                log.warning("%s is of a platform that is not known here", row["id"])
                continue
            if event.source.platform is platform:
                self._runner.pipeline.take_up(Inbound(event, row["session_key"], row["id"]))

    async def drop(self, inbox_id: str) -> None:
        """Take a message from the inbox; if the store cannot do that now, as soon as it can."""
        db = self._runner._session_db
        try:
            await db.drop_message(inbox_id)
        except StoreError as error:
            log.warning("%s stays in the inbox for now: %s", inbox_id, error)
            self._runner.spawn(patiently(lambda: db.drop_message(inbox_id), f"Dropping {inbox_id}"))

    async def drain(self, seconds: float) -> list[str]:
        """Let running turns end; those that take longer are interrupted. Returns their keys."""
        running = list(self._chats.values())
        if not running:
            return []
        _, late = await asyncio.wait(running, timeout=seconds)
        begun = [key for key in self._runner._running_agents if self._chats.get(key) in late]
        for agent in list(self._runner._running_agents.values()):
            interrupt = getattr(agent, "interrupt", None)
            if interrupt is not None:
                interrupt()
        if late:
            await asyncio.wait(late, timeout=5)
        return begun

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

    async def _run_chat(self, key: str, first: Inbound) -> None:
        """Run a message, then what has come to the chat meanwhile."""
        inbound: Inbound | None = first
        try:
            while inbound is not None:
                await self._take_turn(key, inbound)
                inbound = await self._next(key) if self._runner._running else None
        finally:
            del self._chats[key]
        # One that came between the last look and the end would wait for the next message.
        if self._runner._running and (late := await self._next(key)) and key not in self._chats:
            await self.take(late)

    async def _next(self, key: str) -> Inbound | None:
        waiting = await self._runner._session_db.list_waiting(session_key=key, limit=LOOK_AHEAD)
        for row in waiting:
            if row["id"] not in self._admitted:
                continue
            source = SessionSource.from_dict(row["facts"]["source"])
            event = MessageEvent(
                str(row["content"] or ""),
                source,
                row["platform_message_id"],
                list(row["facts"].get("media") or ()),
            )
            return Inbound(event, key, row["id"])
        return None

    async def _take_turn(self, key: str, inbound: Inbound) -> None:
        """Run a message when no other chat has the turn in its conversation."""
        store = self._runner.session_store
        entry: SessionEntry | None = None
        with contextlib.suppress(StoreError):  # the turn meets it too, and tells it
            entry = store.get_or_create_session(inbound.event.source)
        place = self.conversations.turn(key, lambda: store.peek_session_id(key) or key)
        async with contextlib.AsyncExitStack() as room:
            async with place as late:
                if late:
                    # The turn of another chat may have read it, or the gateway is being stopped.
                    if not self._runner._running:
                        return
                    found = await patiently(lambda: self._next(key), "Looking what waits")
                    if found is None:
                        return
                    inbound = inbound if found.inbox_id == inbound.inbox_id else found
                await room.enter_async_context(self.slot())
                result, stream = await self._run(key, inbound, entry and store.entry(key))
            # Where a platform makes us wait, the other chats of the conversation do not.
            await self._deliver(key, inbound, result, stream)

    async def _run(
        self, key: str, inbound: Inbound, entry: SessionEntry | None
    ) -> tuple[dict[str, Any], Stream]:
        runner = self._runner
        source = inbound.event.source
        self._admitted.discard(inbound.inbox_id)
        began = ""
        stream = Stream(runner, source, key)
        runner.delivery.follow(inbound.inbox_id, stream)
        try:
            entry = inbound.entry = entry or runner.session_store.get_or_create_session(source)
            began = entry.session_id
            await self._tell_reset(entry, source)
            await self._mirror_question(inbound)
            result = await self._answer(key, inbound, entry, stream)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # No silent turn: whatever failed, the chat reads it.
            log.exception("The turn in %s failed", key)
            await self.drop(inbound.inbox_id)
            result = {"failed": True, "error": f"{type(error).__name__}: {error}", "api_calls": 0}
        finally:
            runner._running_agents.pop(key, None)
            await stream.stop()
        self.failed += bool(result.get("failed"))
        try:
            await self._settle(key, entry if entry and entry.session_id == began else None, result)
            answer = result.get("final_response") or ""
            session_id = str(result.get("session_id") or began)
            await mirror_answer(runner, key, session_id, inbound.inbox_id, answer)
        except StoreError as error:
            # What is remembered holds meanwhile, and after a start the key heals itself.
            log.error("What became of the turn in %s could not be stored: %s", key, error)
        return result, stream

    async def _mirror_question(self, inbound: Inbound) -> None:
        """Show the linked chats what is asked."""
        key = inbound.session_key
        session_id = self._runner.session_store.peek_session_id(key) or ""
        await mirror_question(
            self._runner, key, session_id, inbound.event.source, inbound.inbox_id,
            inbound.event.text,
        )  # fmt: skip

    async def _settle(self, key: str, entry: SessionEntry | None, result: dict[str, Any]) -> None:
        """Before anybody is answered: the chat follows its session, and what was read is over."""
        runner = self._runner
        steered = self._steered.pop(key, None)
        if entry is not None:
            runner._follow_rotation(entry, result)
            await runner._refresh_agent_cache_message_count(key, entry.session_id)
        if steered:
            for chat in {one for one, _ in steered}:
                waiting = await runner._session_db.list_waiting(session_key=chat)
                read = {name for one, name in steered if one == chat}
                self._admitted -= read - {row["id"] for row in waiting}

    async def _answer(
        self, key: str, inbound: Inbound, entry: SessionEntry, stream: Stream
    ) -> dict[str, Any]:
        runner = self._runner
        source = inbound.event.source
        runner._running_agents[key] = agent = await agent_for(runner, key, entry, source)
        session_context.set_session_vars(
            platform=source.platform.value, source=source.platform.value,
            chat_id=source.chat_id, chat_name=source.chat_name, thread_id=source.thread_id,
            user_id=source.user_id, user_name=source.user_name, session_key=key,
            session_id=entry.session_id, message_id=inbound.event.message_id,
        )  # fmt: skip
        session_context.set_inbox_id(inbound.inbox_id)
        if source.platform is not Platform.API_SERVER:
            agent.deliver_to = delivery_target(inbound)
        events = TurnEvents(runner, source, entry, inbound.event.text)
        await events.start(agent)
        stream.start()
        runner._agent_used[key] = time.monotonic()
        content = content_of(inbound.event.text, inbound.event.media)
        result: dict[str, Any] = await agent.run(content, stream_callback=stream.feed)
        runner.note_weight(key, agent)
        if result.get("failed") and not result.get("api_calls"):
            await self.drop(inbound.inbox_id)
        await events.end(result.get("final_response") or "")
        await self._set_title(key, source, str(result.get("session_id") or entry.session_id))
        return result

    async def _set_title(self, key: str, source: SessionSource, session_id: str) -> None:
        """Give a new conversation the title it was begun with, now that it has a row."""
        title = self._runner.chat_titles.pop(key, None)
        if title is None:
            return
        try:
            await self._runner._session_db.set_session_title(session_id, title)
        except ValueError as error:
            await self._runner.delivery.say(source, key, f"⚠️ The title was not set: {error}")

    async def _tell_reset(self, entry: SessionEntry, source: SessionSource) -> None:
        """Say that a policy has begun a new session, once."""
        if not entry.was_auto_reset or not entry.reset_had_activity:
            return
        policy = self._runner.config.policy_for(source.platform.value, entry.chat_type)
        if policy.notify and source.platform.value not in policy.notify_exclude_platforms:
            await self._runner.delivery.say(
                source,
                entry.session_key,
                "🌅 A new conversation begins; /resume goes on with the last.",
            )

    async def _deliver(
        self, key: str, inbound: Inbound, result: dict[str, Any], stream: Stream
    ) -> None:
        from .run import _normalize_empty_agent_response

        runner = self._runner
        source = inbound.event.source
        stored = result.get("final_response") or ""
        history = len(result.get("messages") or ())
        text = _normalize_empty_agent_response(result, stored, history_len=history)
        if stored:
            answer_id = f"{inbound.inbox_id}:{result.get('api_calls')}"
            await patiently(
                lambda: runner._session_db.revise_delivery(answer_id, stored), "An answer"
            )
        elif text:
            await runner.delivery.say(source, key, text, stream)
        await runner.delivery.flush(key, inbound.inbox_id)


def delivery_target(inbound: Inbound) -> dict[str, Any]:
    """Where the answer to a message goes, as the store keeps it."""
    source = inbound.event.source
    return {
        "id": inbound.inbox_id,
        "to": {
            "session_key": inbound.session_key,
            "platform": source.platform.value,
            "chat_id": source.chat_id,
            "thread_id": source.thread_id,
        },
    }
