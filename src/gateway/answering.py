"""One turn of a chat, from its agent to its answer on the way out.

It does not matter whether the turn begins here or was begun by a process that died: it counts as
the chat's running turn, is shown while it goes, and its answer is owed with the step that stores
it. A turn that another process has taken over is left to it without a word.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from agent.events import watch_all, watch_text
from agent.outcome import Failed, NotStarted, Superseded, TurnOutcome, as_dict
from agent.request import DeliverTo, Question, TakenOver, TurnRequest, WaitingNotes
from conversation.watching import publish_turn
from hermes_base import session_context
from hermes_state import StoreError

from . import take_over
from .agent_source import agent_for
from .pace import watch_progress
from .patience import retry_until_stored
from .pipeline import Inbound, content_of
from .platforms.registry import capabilities_of
from .session import SessionEntry, SessionSource
from .silence import watched
from .streaming import Stream
from .turn_events import TurnEvents

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)


class Answering:
    """Runs the turns of every chat, one call each."""

    def __init__(self, runner: GatewayRunner) -> None:
        self._runner = runner
        self.resumed: dict[str, float] = {}
        """Since when a turn that another process began is seen to run, by its key."""
        self.not_started: set[str] = set()
        """Chats whose message was not begun with when the gateway was stopped; it waits on."""

    async def run(
        self, key: str, inbound: Inbound, entry: SessionEntry | None = None
    ) -> tuple[TurnOutcome, Stream]:
        """Run a turn to its end; its outcome, and what the chat has seen of it."""
        runner = self._runner
        source = inbound.event.source
        began = ""
        turn = turn_name(inbound)
        stream = Stream(
            runner.adapters.get(source.platform),
            runner.config.streaming,
            source,
            lambda shown: runner.delivery.note_preview(turn, shown),
        )
        runner.delivery.follow(inbound.inbox_id, stream)
        try:
            if inbound.taken is not None:
                stream.go_on_in(await runner.delivery.preview_of(turn))
                entry = take_over.entry_of(runner, inbound, inbound.taken)
            entry = inbound.entry = entry or runner.session_store.get_or_create_session(source)
            began = entry.session_id
            if inbound.taken is None and not inbound.is_noted:
                await self._tell_reset(entry, source)
                await self.mirror_question(inbound)
            outcome = await self._answer(key, inbound, entry, stream)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # No silent turn: whatever failed, the chat reads it.
            log.exception("The turn in %s failed", key)
            if inbound.taken is None:
                await runner.turns.drop(*inbound.inbox_ids)
            # Nobody waits for an answer to notes, and they are kept.
            kind = Superseded if inbound.is_noted else Failed
            outcome = kind(session_id=began, error=f"{type(error).__name__}: {error}")
        finally:
            runner._running_agents.pop(key, None)
            self.resumed.pop(key, None)
            await stream.stop()
        ours = not outcome.is_silent
        runner.turns.failed += outcome.failed and ours
        if outcome.failed and ours:
            taken = inbound.taken
            take_over.end_stuck(runner, taken.session_id if taken else outcome.session_id)
        followed = entry if ours and entry and entry.session_id == began else None
        try:
            await self._settle(key, followed, outcome)
            await runner.links.mirror_answer(
                key, outcome.session_id, inbound.inbox_id, outcome.text
            )
        except StoreError as error:
            # What is remembered holds meanwhile, and after a start the key heals itself.
            log.error("What became of the turn in %s could not be stored: %s", key, error)
        return outcome, stream

    async def mirror_question(self, inbound: Inbound) -> None:
        """Show the linked chats what is asked."""
        key = inbound.session_key
        session_id = self._runner.session_store.peek_session_id(key) or ""
        await self._runner.links.mirror_question(
            key, session_id, inbound.event.source, inbound.inbox_id,
            inbound.event.text,
        )  # fmt: skip

    async def _settle(self, key: str, entry: SessionEntry | None, outcome: TurnOutcome) -> None:
        """Before anybody is answered: the chat follows its session, and what was read is over."""
        runner = self._runner
        try:
            if entry is not None:
                runner._follow_rotation(entry, outcome.session_id)
                await runner._refresh_agent_cache_message_count(key, entry.session_id)
        finally:
            await runner.turns.settle_steered(key)

    async def _answer(
        self, key: str, inbound: Inbound, entry: SessionEntry, stream: Stream
    ) -> TurnOutcome:
        runner = self._runner
        source = inbound.event.source
        runner._running_agents[key] = agent = await agent_for(runner, key, entry, source)
        session_context.set_session_vars(
            platform=source.platform.value, source=source.platform.value,
            chat_id=source.chat_id, chat_name=source.chat_name, thread_id=source.thread_id,
            user_id=source.user_id, user_name=source.user_name, session_key=key,
            session_id=entry.session_id, message_id=inbound.event.message_id,
        )  # fmt: skip
        events = TurnEvents(
            runner.hooks, runner._session_db, runner.spawn, source, entry, inbound.event.text
        )
        await events.start()
        stream.start()
        runner._agent_used[key] = time.monotonic()
        request = request_of(inbound)
        if inbound.taken is not None:
            await take_over.tell_unknown(runner, inbound)
            self.resumed[key] = time.time()
        progress = watch_progress(inbound.alive)
        async with watched(
            runner.settings.agent, key, agent, spawn=runner.spawn,
            say=lambda text: runner.delivery.say(source, key, text),
            is_asking=lambda: runner.questions.is_asking(key),
        ) as silence:  # fmt: skip
            if isinstance(request, Question):
                # It runs as soon as the turn has the agent: what came since its beginning joins it.
                runner.spawn(runner.turns.join_waiting(key, key))
            watch = watch_all(
                publish_turn(agent), watch_text(stream.feed), progress, silence, events.watch
            )
            outcome = await agent.run(request, watch=watch)
        if isinstance(request, Question):
            await self._settle_inbox(key, inbound, outcome)
        runner.note_weight(key, agent)
        await events.end(outcome.text)
        await self._set_title(key, source, outcome.session_id)
        return outcome

    async def _settle_inbox(self, key: str, inbound: Inbound, outcome: TurnOutcome) -> None:
        """Drop a message that was not begun with, unless the gateway stops: then it waits on."""
        if not isinstance(outcome, NotStarted):
            return
        if outcome.failed or self._runner._running:
            await self._runner.turns.drop(*inbound.inbox_ids)
        else:
            self.not_started.add(key)

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

    async def deliver(
        self, key: str, inbound: Inbound, outcome: TurnOutcome, stream: Stream
    ) -> None:
        """See the answer out, or say why there is none."""
        from .run import _normalize_empty_agent_response

        runner = self._runner
        source = inbound.event.source
        stored, history = outcome.text, len(outcome.messages)
        text = _normalize_empty_agent_response(as_dict(outcome), stored, history_len=history)
        if outcome.is_silent:
            log.info("The turn in %s is answered by another process", key)
        elif stored:
            answer_id = f"{inbound.inbox_id}:{outcome.api_calls}"
            await retry_until_stored(
                lambda: runner._session_db.revise_delivery(answer_id, stored), "An answer"
            )
        elif text:
            await runner.delivery.say(source, key, text, stream)
        await runner.delivery.flush(key, inbound.inbox_id)
        if stream.message_id is not None:
            await runner.delivery.forget_preview(turn_name(inbound))


def turn_name(inbound: Inbound) -> str:
    """The name of a turn, the same for every process that works on it."""
    taken = inbound.taken
    return str(taken.deliver_to["id"]) if taken and taken.deliver_to else inbound.inbox_id


def request_of(inbound: Inbound) -> TurnRequest:
    """The turn that a message asks for."""
    if inbound.taken is not None:
        return TakenOver(inbound.taken)
    source = inbound.event.source
    deliver_to = None
    if capabilities_of(source.platform.value).pushes:
        address = {
            "session_key": inbound.session_key,
            "platform": source.platform.value,
            "chat_id": source.chat_id,
            "thread_id": source.thread_id,
        }
        deliver_to = DeliverTo(inbound.inbox_id, address)
    if inbound.is_noted:
        return WaitingNotes(deliver_to)
    content = content_of(inbound.event.text, inbound.event.media)
    return Question(content, inbound.inbox_ids, deliver_to=deliver_to)
