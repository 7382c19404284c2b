"""Turns for somebody who waits for the answer, such as an API client: asked, answered, not sent.

One turn at a time per conversation; what comes meanwhile waits in line. A message that waits, or
that could be sent twice, is in the store's inbox, so a restart goes on with it; one that begins at
once is stored by its turn before the model is asked. Whoever asked may leave: the turn goes on, and
its answer is in the history.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.events import Event, Noticed, Watcher, watch_all
from agent.outcome import Failed, NotStarted, TurnOutcome
from agent.request import Question
from conversation.watching import publish_turn
from hermes_base import session_context

from . import agent_cache, take_over
from .agent_source import agent_for, keep_agent, kept_agent
from .config import Platform
from .platforms.base import MessageEvent
from .session import SessionEntry, SessionSource, build_session_key
from .silence import watched
from .turn_events import TurnEvents

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from tools.base import Mode

    from .run import GatewayRunner

log = logging.getLogger(__name__)

MOST_WAITING = 16
"""Messages that may wait in one conversation."""


class RequestError(Exception):
    """A message that was not taken."""


class TooManyWaitingError(RequestError):
    """The conversation has a long line already."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} messages wait in this conversation. Send it again later.")


class AlreadyAskedError(RequestError):
    """This message was accepted before, and nobody waits for it here."""


class StoppingError(RequestError):
    """The gateway is being stopped."""

    def __init__(self, accepted: bool) -> None:
        kept = "It is kept and answered after the restart." if accepted else "Send it again."
        super().__init__(f"The gateway is being stopped. {kept}")
        self.accepted = accepted


def _source(owner: str, conversation_id: str) -> SessionSource:
    return SessionSource(
        Platform.API_SERVER, owner, user_id=owner, user_name=owner,
        thread_id=conversation_id, role_authorized=True,
    )  # fmt: skip


def conversation_key(owner: str, conversation_id: str) -> str:
    """The key under which an owner's conversation is reached."""
    return build_session_key(_source(owner, conversation_id))


@dataclass(slots=True)
class Request:
    """A message with everything its turn needs."""

    id: str
    """Its name in the inbox; asked again under the same name, it is not run again."""
    owner: str
    """The name of whoever asks, on this platform."""
    session_id: str
    conversation_id: str
    content: Any
    history: list[dict[str, Any]] = field(default_factory=list)
    """What was said before, for a conversation that begins with it."""
    instructions: str = ""
    message_id: str | None = None
    """The client's own name for it."""
    durable: bool = False
    """Whether the client is told that it is accepted before it is answered."""
    stored: bool = False
    mode: Mode | None = None
    """What the agent may do from this message on; as it is with the conversation if None."""

    @property
    def source(self) -> SessionSource:
        """Where it comes from."""
        return _source(self.owner, self.conversation_id)

    @property
    def key(self) -> str:
        """The key of its conversation."""
        return conversation_key(self.owner, self.conversation_id)


@dataclass(slots=True, eq=False)
class _Asked:
    request: Request
    outcome: asyncio.Future[TurnOutcome]
    watchers: list[Watcher]

    def watch(self, event: Event) -> None:
        watch_all(*self.watchers)(event)


class Requests:
    """The lines of every conversation that is asked in."""

    def __init__(self, runner: GatewayRunner) -> None:
        self._runner = runner
        self._lines: dict[str, deque[_Asked]] = {}
        self._asked: dict[str, _Asked] = {}
        self._lining_up: dict[str, int] = {}

    def is_busy(self, key: str) -> bool:
        """Whether a turn runs in a conversation."""
        return key in self._lines

    def is_open(self, request_id: str) -> bool:
        """Whether a message is waiting or being answered here."""
        return request_id in self._asked

    async def ask(
        self,
        request: Request,
        watch: Watcher | None = None,
        *,
        on_accepted: Callable[[], None] | None = None,
    ) -> TurnOutcome:
        """The outcome of the message's turn, as `AIAgent.run` returns it.

        A message that is open here already is not asked twice: its outcome is waited for. Raises
        AlreadyAskedError for one that was accepted earlier, TooManyWaitingError, StoppingError.
        """
        asked = self._asked.get(request.id)
        if asked is None:
            asked = await self._line_up(request)
        if watch is not None:
            asked.watchers.append(watch)
        if on_accepted is not None:
            on_accepted()
        return await asyncio.shield(asked.outcome)

    async def resume(self) -> None:
        """After a start: go on with what was accepted and not begun."""
        rows = await self._runner._session_db.list_waiting(source=Platform.API_SERVER.value)
        for row in rows:
            facts = row["facts"].get("request")
            if not facts or row["id"] in self._asked:
                continue
            request = Request(
                row["id"], facts["owner"], row["session_id"], facts["conversation_id"],
                row["content"], facts.get("history") or [], facts.get("instructions") or "",
                row["platform_message_id"], stored=True, mode=facts.get("mode"),
            )  # fmt: skip
            self._append(self._new(request))

    async def _line_up(self, request: Request) -> _Asked:
        if not self._runner._running:
            raise StoppingError(False)
        key = request.key
        ahead = len(self._lines.get(key, ())) + self._lining_up.get(key, 0)
        if ahead > MOST_WAITING:
            raise TooManyWaitingError(ahead - 1)
        asked = self._new(request)
        if ahead or request.durable or request.message_id is not None:
            self._lining_up[key] = self._lining_up.get(key, 0) + 1
            try:
                request.stored = await self._store(request)
                if not request.stored:
                    raise AlreadyAskedError(request.id)
            except BaseException as error:
                del self._asked[request.id]
                asked.outcome.set_exception(error)  # whoever joined is told the same
                raise
            finally:
                self._lining_up[key] -= 1
                if not self._lining_up[key]:
                    del self._lining_up[key]
        self._append(asked)
        return asked

    def _new(self, request: Request) -> _Asked:
        outcome = asyncio.get_running_loop().create_future()
        # Whoever asked may be gone; then nobody looks at what went wrong.
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        asked = self._asked[request.id] = _Asked(request, outcome, [])
        return asked

    async def _store(self, request: Request) -> bool:
        facts: dict[str, Any] = {
            "owner": request.owner,
            "conversation_id": request.conversation_id,
        }
        if request.history:
            facts["history"] = request.history
        if request.instructions:
            facts["instructions"] = request.instructions
        if request.mode:
            facts["mode"] = request.mode
        return bool(
            await self._runner._session_db.accept_message(
                request.id,
                request.session_id,
                request.content,
                source=Platform.API_SERVER.value,
                session_key=request.key,
                user_id=request.source.owner,
                platform_message_id=request.message_id,
                facts={"request": facts},
            )
        )

    def _append(self, asked: _Asked) -> None:
        key = asked.request.key
        line = self._lines.get(key)
        if line is not None:
            line.append(asked)
            return
        self._lines[key] = deque([asked])
        task = self._runner.spawn(self._run_line(key))
        self._runner.turns.occupy(key, task, self._lines[key])

    async def _run_line(self, key: str) -> None:
        line = self._lines[key]
        turns = self._runner.turns
        try:
            while line and (self._runner._running or not line[0].request.stored):
                asked = line[0]
                place = turns.place(key, partial(getattr, asked.request, "session_id"))
                async with place, turns.slot():
                    outcome = await self._run(key, asked)
                turns.failed += outcome.failed
                line.popleft()
                self._asked.pop(asked.request.id, None)
                if not asked.outcome.done():
                    asked.outcome.set_result(outcome)
        finally:
            turns.leave(key)
            del self._lines[key]
            for asked in line:
                self._asked.pop(asked.request.id, None)
                if not asked.outcome.done():
                    asked.outcome.set_exception(StoppingError(asked.request.stored))

    async def _run(self, key: str, asked: _Asked) -> TurnOutcome:
        runner, request = self._runner, asked.request
        try:
            return await self._answer(key, asked)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # No silent turn: whatever failed, whoever asked is told.
            log.exception("The turn in %s failed", key)
            if request.stored:
                await runner.turns.drop(request.id)
            problem = f"{type(error).__name__}: {error}"
            return Failed(session_id=request.session_id, error=problem)
        finally:
            runner._running_agents.pop(key, None)

    async def _answer(self, key: str, asked: _Asked) -> TurnOutcome:
        runner, request = self._runner, asked.request
        source = request.source
        session_id = request.session_id
        if request.stored:  # it waited; the conversation may have moved on
            session_id = runner._session_db.sync.get_compression_tip(session_id)
        now = datetime.now()
        entry = SessionEntry(key, session_id, now, now, platform=source.platform, origin=source)
        agent = await self._agent(entry, source)
        runner._running_agents[key] = agent
        session_context.set_session_vars(
            platform=source.platform.value, source=source.platform.value, chat_id=source.chat_id,
            thread_id=source.thread_id, user_id=source.user_id, user_name=source.user_name,
            session_key=key, session_id=session_id, message_id=request.message_id,
        )  # fmt: skip
        runner._agent_used[key] = time.monotonic()
        text = event_of(request).text
        await runner.links.mirror_question(key, session_id, source, request.id, text)
        question = Question(
            request.content,
            (request.id,) if request.stored else (),
            tuple(request.history) or None,
            instructions=request.instructions,
            mode=request.mode,
        )
        events = TurnEvents(
            runner.hooks, runner._session_db, runner.spawn, source, entry, text
        )  # fmt: skip
        await events.start()

        async def tell(text: str) -> None:
            if asked.watch is not None:
                asked.watch(Noticed(text))

        async with watched(
            runner.settings.agent, key, agent, spawn=runner.spawn, say=tell,
            is_asking=lambda: runner.questions.is_asking(key),
        ) as silence:  # fmt: skip
            watch = watch_all(publish_turn(agent), asked.watch, silence, events.watch)
            outcome = await agent.run(question, watch=watch)
        await events.end(outcome.text)
        is_kept = not runner._running and not outcome.failed  # it waits for the next start
        if isinstance(outcome, NotStarted) and request.stored and not is_kept:
            await runner.turns.drop(request.id)
        if outcome.failed and not outcome.is_silent:
            take_over.end_stuck(runner, outcome.session_id)
        runner.note_weight(key, agent)
        self._keep_uncounted(key, agent)
        if outcome.session_id != session_id:
            runner.session_store.follow(session_id, outcome.session_id)
        await runner.links.mirror_answer(key, outcome.session_id, request.id, outcome.text)
        return outcome

    async def _agent(self, entry: SessionEntry, source: SessionSource) -> AIAgent:
        """The conversation's agent. One that is kept looks by itself whether others wrote."""
        runner, key = self._runner, entry.session_key
        kept = kept_agent(runner, key, entry, source)
        if kept is not None:
            return kept
        agent = await agent_for(runner, key, entry, source)
        self._keep_uncounted(key, agent)
        return agent

    def _keep_uncounted(self, key: str, agent: Any) -> None:
        """Keep an agent without a count of messages, which it looks after itself."""
        runner = self._runner
        with agent_cache.guarded(runner._agent_cache_lock):
            cached = runner._agent_cache.get(key)
        if cached is not None and cached[0] is agent and cached[2:] != (None, agent.session_id):
            keep_agent(runner, key, (agent, cached[1], None, agent.session_id))


def stored_answer(messages: list[dict[str, Any]], message_id: str) -> list[dict[str, Any]] | None:
    """The rows of the turn that answered the client's message; None if it is not among them."""
    start = next(
        (n for n, one in enumerate(messages) if one.get("platform_message_id") == message_id), None
    )
    return None if start is None else turn_at(messages, start)


def turn_at(messages: list[dict[str, Any]], start: int) -> list[dict[str, Any]]:
    """The rows from a user's message up to the next one of the user."""
    rest = messages[start + 1 :]
    end = next((n for n, one in enumerate(rest) if one["role"] == "user"), len(rest))
    return messages[start : start + 1 + end]


def event_of(request: Request) -> MessageEvent:
    """The message as plugins are shown it."""
    content = request.content
    text = content if isinstance(content, str) else " ".join(
        str(part.get("text", "")) for part in content if isinstance(part, dict)
    )  # fmt: skip
    return MessageEvent(text, request.source, request.message_id)
