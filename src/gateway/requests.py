"""Turns for somebody who waits for the answer, such as an API client: asked, answered, not sent.

One turn at a time per conversation; what comes meanwhile waits in line. A message that waits, or
that could be sent twice, is in the store's inbox, so a restart goes on with it; one that begins at
once is stored by its turn before the model is asked. Whoever asked may leave: the turn goes on, and
its answer is in the history.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.events import Event, Noticed, Watcher, tell
from agent.outcome import NotStarted, Superseded, TurnOutcome
from agent.request import Question, TurnRequest
from conversation.busy import BusyMode, offer
from conversation.door import Abandoned, Door, Origin
from conversation.offering import Offers
from conversation.stored_turns import stored_outcome
from conversation.watching import LOGS
from hermes_state import LEASE_SECONDS, StoreError

from .config import Platform
from .platforms.base import MessageEvent
from .session import SessionEntry, SessionSource, build_session_key

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from conversation.room import Share
    from hermes_state import AsyncSessionDB, Person
    from tools.base import Mode

    from .agent_source import AgentSource
    from .asking import Questions
    from .authorization import Authorization
    from .chat_turns import ChatTurns

log = logging.getLogger(__name__)

NO_ANSWER = "Another turn has read this message, and its answer is not known."

MOST_WAITING = 16
"""Messages that may wait in one conversation."""


class RequestError(Exception):
    """A message that was not taken."""


class TooManyWaitingError(RequestError):
    """The conversation has a long queue already."""

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


def _source(
    owner: str,
    conversation_id: str,
    person: Person | None = None,
    doors: tuple[str, ...] = (),
) -> SessionSource:
    return SessionSource(
        Platform.API_SERVER, owner, user_id=owner, user_name=owner,
        thread_id=conversation_id, role_authorized=True, person=person, doors=doors,
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
    """The name of the key it was asked with."""
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
    busy_mode: BusyMode = "queue"
    """What becomes of it while a turn of an earlier request runs in its conversation."""
    mode: Mode | None = None
    """What the agent may do from this message on; as it is with the conversation if None."""
    person: Person | None = None
    """Whose key it is."""
    doors: tuple[str, ...] = ()
    """Theirs, where what they may use depends on that."""

    @property
    def interrupts(self) -> bool:
        """Whether a turn that another process runs is to make way for it."""
        return self.busy_mode == "interrupt"

    @property
    def steers(self) -> bool:
        """Whether a turn that runs, here or in another process, is to read it."""
        return self.busy_mode == "steer" and isinstance(self.content, str)

    @property
    def source(self) -> SessionSource:
        """Where it comes from."""
        return _source(self.owner, self.conversation_id, self.person, self.doors)

    @property
    def key(self) -> str:
        """The key of its conversation."""
        return conversation_key(self.owner, self.conversation_id)


@dataclass(slots=True, eq=False)
class _Asked:
    request: Request
    outcome: asyncio.Future[TurnOutcome]
    watchers: list[Watcher]
    session_id: str = ""
    """The session its turn began in."""
    is_offered: bool = False
    """Whether the running turn was given it to read."""

    def watch(self, event: Event) -> None:
        tell(self.watchers, event)


@dataclass(frozen=True, slots=True)
class RequestParts:
    """What the turns of requests need."""

    db: AsyncSessionDB
    agents: AgentSource
    questions: Questions
    turns: ChatTurns
    """Those of the chats; a request may find one abandoned in its conversation."""
    is_running: Callable[[], bool]
    """False once the gateway is being stopped."""
    authorization: Authorization


class RequestDoor(Door[_Asked]):
    """The side of a conversation that an API client sees: answers are handed to who waits."""

    def __init__(self, parts: RequestParts, requests: Requests, key: str) -> None:
        self._parts, self._requests = parts, requests
        self.key = key
        self._conversations = parts.turns.conversations

    def session_id(self) -> str:
        """The session of the request that comes first."""
        queue = self._conversations.queue(self.key)
        return str(queue[0].request.session_id) if queue else self.key

    async def next(self) -> _Asked | None:
        """The request behind; while the gateway stops, only one that no restart would find."""
        first: _Asked | None = next(iter(self._conversations.queue(self.key)), None)
        if first is None or self._parts.is_running() or not first.request.stored:
            return first
        return None

    def release(self) -> None:
        """Who still waits here is told to come back."""
        self._requests.close(self.key)

    def share(self, asked: _Asked) -> Share | None:
        """How many turns of the client's person may run at once."""
        return self._parts.agents.share(asked.request.source)

    async def prepare(self, asked: _Asked) -> AIAgent:
        """The conversation's agent. One that is kept looks by itself whether others wrote."""
        parts, request, key = self._parts, asked.request, self.key
        source, session_id = request.source, request.session_id
        if request.stored:  # it waited; the conversation may have moved on
            session_id = await parts.db.at_hand(parts.db.sync.get_compression_tip, session_id)
        asked.session_id = session_id
        now = datetime.now()
        entry = SessionEntry(key, session_id, now, now, platform=source.platform, origin=source)
        agent = parts.agents.kept_agent(key, entry, source)
        if agent is None:
            agent = await parts.agents.agent_for(key, entry, source)
            parts.agents.keep_uncounted(key, agent)
        return agent

    def request(self, asked: _Asked) -> TurnRequest:
        """What the client asks."""
        request = asked.request
        return Question(
            request.content,
            (request.id,) if request.stored else (),
            tuple(request.history) or None,
            instructions=request.instructions,
            mode=request.mode,
        )

    def origin(self, asked: _Asked) -> Origin:
        """The client."""
        source = asked.request.source
        return Origin(
            platform=source.platform.value,
            session_id=asked.session_id,
            session_key=self.key,
            chat_id=source.chat_id,
            chat_type=source.chat_type,
            thread_id=source.thread_id,
            user_id=source.user_id,
            user_name=source.user_name,
            message_id=asked.request.message_id,
        )

    def asked(self, asked: _Asked) -> str:
        """The question's text."""
        return event_of(asked.request).text

    def name(self, asked: _Asked) -> str:
        """The request's."""
        return asked.request.id

    async def begin(self, asked: _Asked, agent: Any) -> None:
        """Its agent is in use."""
        self._parts.agents.cache.touch(self.key)

    def watch(self, asked: _Asked, agent: Any) -> Watcher | None:
        """The client's watcher sees the events."""
        return asked.watch

    def keeps(self, asked: _Asked, outcome: NotStarted) -> bool:
        """A request that a stop of the gateway kept from beginning waits for the next start."""
        return not outcome.failed and not self._parts.is_running()

    async def settle(self, asked: _Asked, outcome: TurnOutcome, agent: Any | None) -> None:
        """Follow where the conversation has moved to."""
        agents = self._parts.agents
        if agent is not None:
            agents.cache.note_weight(self.key, agent)
            agents.keep_uncounted(self.key, agent)

    async def deliver(self, asked: _Asked, outcome: TurnOutcome) -> None:
        """Hand the outcome to the waiting client, and to those whose message the turn read."""
        self._conversations.dequeue(self.key, asked)
        self._requests.answer(asked, outcome)
        await self._answer_offered(outcome)

    async def _answer_offered(self, outcome: TurnOutcome | None) -> None:
        """Answer those whose message a turn has read; None: a turn of another process, whose
        outcome is in the store."""
        offered = [other for other in self._conversations.queue(self.key) if other.is_offered]
        if not offered:
            return
        rows = await self._parts.db.list_waiting(session_key=self.key)
        waiting = {row["id"] for row in rows}
        for other in offered:
            other.is_offered = False
            if other.request.id not in waiting:
                read_by = outcome or await self._find_outcome(other.request)
                self._conversations.dequeue(self.key, other)
                self._requests.answer(other, read_by)

    async def _find_outcome(self, request: Request) -> TurnOutcome:
        db, name = self._parts.db, str(request.message_id)
        outcome = await db.at_hand(stored_outcome, db.sync, request.session_id, name)
        return outcome or Superseded(session_id=request.session_id, error=NO_ANSWER)

    async def say(self, asked: _Asked, text: str) -> None:
        """Tell whoever watches, here and elsewhere."""
        asked.watch(Noticed(text))
        LOGS.publish(asked.request.conversation_id, Noticed(text))

    def is_asking(self) -> bool:
        """Whether the client is asked something."""
        return self._parts.questions.is_asking(self.key)

    def waits_for(self, turn: Mapping[str, Any]) -> bool:
        """A gateway's turns are waited for, and those that are to read the message; the engine
        waits for any other of a program."""
        queue = self._conversations.queue(self.key)
        return bool(turn["deliver_to"]) or (bool(queue) and queue[0].request.steers)

    async def offer(self, asked: _Asked, turn: Mapping[str, Any]) -> None:
        """Let the turn read the messages that are to steer it, in their order, or have it make way
        for the next one."""
        offers = self._requests.offers_of(self.key)
        for waiting in list(self._conversations.queue(self.key)):
            request = waiting.request
            if request.interrupts:
                await offers.make_way(self.session_id(), turn, request.id)
            if not request.steers or not await offers.offer(
                self.session_id(), turn, request.content, request.id
            ):
                return
            waiting.is_offered = True

    async def confirm(self, asked: _Asked) -> _Asked | None:
        """Those that the other turn has read are answered with its answer."""
        await self._answer_offered(None)
        return next(iter(self._conversations.queue(self.key)), None)

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """The chat that an abandoned turn belongs to; an API client asks again itself."""
        return self._parts.turns.door_of(turn)


class Requests:
    """The requests of every conversation, and who waits for their answers."""

    def __init__(self, parts: RequestParts) -> None:
        self._parts = parts
        self._conversations = parts.turns.conversations
        self._asked: dict[str, _Asked] = {}
        self._lining_up: dict[str, int] = {}
        self._offers: dict[str, Offers] = {}

    def is_busy(self, key: str) -> bool:
        """Whether a turn runs in a conversation."""
        return bool(self._conversations.queue(key))

    def offers_of(self, key: str) -> Offers:
        """What was offered to turns of other processes in a conversation, as long as any waits."""
        return self._offers.setdefault(key, Offers(self._parts.db.sync))

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

    async def watch(self) -> None:
        """Where several gateways share the store: go on with what those had accepted that are
        gone."""
        db = self._parts.db
        while db.sync.is_on_server and self._parts.is_running():
            await asyncio.sleep(LEASE_SECONDS / 4)
            try:
                await self.resume(with_own=False)
            except StoreError as error:
                log.warning("What others had accepted is looked for again: %s", error)

    async def resume(self, *, with_own: bool = True) -> None:
        """Go on with what was accepted and not begun, by this gateway before it was started or by
        others that are gone.

        Without `with_own` only by others.
        """
        db = self._parts.db
        rows = await db.list_waiting(source=Platform.API_SERVER.value)
        others = await db.list_live_owners(with_own) if rows else set()
        for row in rows:
            facts = row["facts"].get("request")
            if not facts or row["id"] in self._asked or row["owner"] in others:
                continue
            if not await db.claim_message(row["id"], row["owner"]):
                continue
            request = Request(
                row["id"], facts["owner"], row["session_id"], facts["conversation_id"],
                row["content"], facts.get("history") or [], facts.get("instructions") or "",
                row["platform_message_id"], stored=True, mode=facts.get("mode"),
            )  # fmt: skip
            source = request.source
            await self._parts.authorization.identify(source)
            request.person, request.doors = source.person, source.doors
            self._append(self._new(request))

    async def _line_up(self, request: Request) -> _Asked:
        if not self._parts.is_running():
            raise StoppingError(False)
        key = request.key
        ahead = len(self._conversations.queue(key)) + self._lining_up.get(key, 0)
        if ahead > MOST_WAITING:
            raise TooManyWaitingError(ahead - 1)
        asked = self._new(request)
        if (request.steers or request.interrupts) and request.message_id is None:
            # Another process's turn may read it, or make way for it: it is found by this name.
            request.message_id = request.id.rpartition(":")[2]
        is_kept = request.durable or request.message_id is not None
        if ahead or is_kept:
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
        if ahead and request.busy_mode != "queue":
            self._offer(asked)
        return asked

    def _offer(self, asked: _Asked) -> None:
        """Let the running turn of an earlier request read a message, or make way for it."""
        running, request = self._conversations.queue(asked.request.key)[0], asked.request
        agent = self._conversations.agents.get(request.key)
        if running is asked or agent is None:
            return
        taken = offer(agent, request.busy_mode, request.content, request.id)
        if taken == "steered":
            asked.is_offered = True
            running.watchers.append(asked.watch)

    def _new(self, request: Request) -> _Asked:
        outcome = asyncio.get_running_loop().create_future()
        # The client may be gone; then the exception is never retrieved.
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
            await self._parts.db.accept_message(
                request.id,
                request.session_id,
                request.content,
                source=Platform.API_SERVER.value,
                session_key=request.key,
                user_id=request.source.door,
                platform_message_id=request.message_id,
                facts={"request": facts},
            )
        )

    def _append(self, asked: _Asked) -> None:
        door = RequestDoor(self._parts, self, asked.request.key)
        self._conversations.accept(door, asked)

    def answer(self, asked: _Asked, outcome: TurnOutcome) -> None:
        """Hand an outcome to the client that waits for it."""
        self._asked.pop(asked.request.id, None)
        if not asked.outcome.done():
            asked.outcome.set_result(outcome)

    def close(self, key: str) -> None:
        """Nothing is to be run in a conversation; who still waits there is told to come back."""
        self._offers.pop(key, None)
        for asked in self._conversations.clear_queue(key):
            self._asked.pop(asked.request.id, None)
            if not asked.outcome.done():
                asked.outcome.set_exception(StoppingError(asked.request.stored))


def event_of(request: Request) -> MessageEvent:
    """The message as plugins are shown it."""
    content = request.content
    text = content if isinstance(content, str) else " ".join(
        str(part.get("text", "")) for part in content if isinstance(part, dict)
    )  # fmt: skip
    return MessageEvent(text, request.source, request.message_id)
