"""One turn of a chat, from its agent to its answer on the way out.

It does not matter whether the turn begins here or was begun by a process that died: it counts as
the chat's running turn, is shown while it goes, and its answer is owed with the step that stores
it. A turn that another process has taken over is left to it without a word.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from hermes_base import session_context
from hermes_state import StoreError

from . import take_over
from .agent_source import agent_for
from .config import Platform
from .links import mirror_answer, mirror_question
from .pace import heard
from .patience import patiently
from .pipeline import Inbound, content_of
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
        self.unbegun: set[str] = set()
        """Chats whose message was not begun with when the gateway was stopped; it waits on."""

    async def run(
        self, key: str, inbound: Inbound, entry: SessionEntry | None = None
    ) -> tuple[dict[str, Any], Stream]:
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
            result = await self._answer(key, inbound, entry, stream)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # No silent turn: whatever failed, the chat reads it.
            log.exception("The turn in %s failed", key)
            if inbound.taken is None:
                await runner.turns.drop(*inbound.inbox_ids)
            result = {"failed": True, "error": f"{type(error).__name__}: {error}", "api_calls": 0}
            if inbound.is_noted:
                result["superseded"] = True  # nobody waits for an answer, and the notes are kept
        finally:
            runner._running_agents.pop(key, None)
            self.resumed.pop(key, None)
            await stream.stop()
        ours = not result.get("superseded")
        runner.turns.failed += bool(result.get("failed") and ours)
        session_id = str(result.get("session_id") or began)
        if result.get("failed") and ours:
            taken = inbound.taken
            take_over.end_stuck(runner, taken.session_id if taken else session_id)
        followed = entry if ours and entry and entry.session_id == began else None
        try:
            await self._settle(key, followed, result)
            answer = result.get("final_response") or ""
            await mirror_answer(runner, key, session_id, inbound.inbox_id, answer)
        except StoreError as error:
            # What is remembered holds meanwhile, and after a start the key heals itself.
            log.error("What became of the turn in %s could not be stored: %s", key, error)
        return result, stream

    async def mirror_question(self, inbound: Inbound) -> None:
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
        try:
            if entry is not None:
                runner._follow_rotation(entry, result)
                await runner._refresh_agent_cache_message_count(key, entry.session_id)
        finally:
            await runner.turns.settle_steered(key)

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
        from_inbox = inbound.taken is None and not inbound.is_noted
        session_context.set_inbox_id(inbound.inbox_ids if from_inbox else None)
        if source.platform is not Platform.API_SERVER:
            agent.deliver_to = delivery_target(inbound)
        events = TurnEvents(runner, source, entry, inbound.event.text)
        await events.start(agent)
        stream.start()
        runner._agent_used[key] = time.monotonic()
        result: dict[str, Any]
        if inbound.taken is not None:
            await take_over.tell_unknown(runner, inbound)
            self.resumed[key] = time.time()
            with heard(agent, inbound.alive):
                async with watched(runner, key, source, agent):
                    result = await agent.go_on(inbound.taken, stream_callback=stream.feed)
        elif inbound.is_noted:
            async with watched(runner, key, source, agent):
                told = await agent.run_notes(stream_callback=stream.feed)
            result = told or {"superseded": True, "session_id": agent.session_id}
        else:
            content = content_of(inbound.event.text, inbound.event.media)
            async with watched(runner, key, source, agent):
                # It runs as soon as the turn has the agent: what came since its beginning joins it.
                runner.spawn(runner.turns.join_waiting(key, key))
                result = await agent.run(content, stream_callback=stream.feed)
            await self._settle_inbox(key, inbound, result)
        runner.note_weight(key, agent)
        await events.end(result.get("final_response") or "")
        await self._set_title(key, source, str(result.get("session_id") or entry.session_id))
        return result

    async def _settle_inbox(self, key: str, inbound: Inbound, result: dict[str, Any]) -> None:
        """What becomes of a message that may not have been begun with."""
        if result.get("superseded") or result.get("api_calls"):
            return
        if result.get("failed") or (result.get("interrupted") and self._runner._running):
            await self._runner.turns.drop(*inbound.inbox_ids)
        elif result.get("interrupted"):
            waiting = await self._runner._session_db.list_waiting(session_key=key)
            if inbound.inbox_id in {row["id"] for row in waiting}:
                self.unbegun.add(key)

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
        self, key: str, inbound: Inbound, result: dict[str, Any], stream: Stream
    ) -> None:
        """See the answer out, or say why there is none."""
        from .run import _normalize_empty_agent_response

        runner = self._runner
        source = inbound.event.source
        stored = result.get("final_response") or ""
        history = len(result.get("messages") or ())
        text = _normalize_empty_agent_response(result, stored, history_len=history)
        if result.get("superseded"):
            log.info("The turn in %s is answered by another process", key)
        elif stored:
            answer_id = f"{inbound.inbox_id}:{result.get('api_calls')}"
            await patiently(
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
