"""Running turns: one queue and one worker per conversation, for every front end of a process.

A worker does one thing after the other: it waits for whoever has the conversation, in this process
or another; finishes an abandoned turn; runs the oldest waiting message; settles it in the inbox;
lets the front end follow the conversation's tip, and answer. However a turn ends, the person who
asked is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agent.events import Event, QuestionAsked, Watcher, watch_all
from agent.heartbeat import heart
from agent.outcome import NotStarted, Superseded, TurnOutcome
from agent.request import Question, TakenOver, TurnRequest, WaitingNotes
from agent.running import WAITING
from hermes_base import session_context
from hermes_base.process import this_process
from hermes_state import TURN_RUNNING, Lease, StoreError, is_abandoned

from .abandoned import is_unsure
from .door import Abandoned, Door, NotNowError
from .listening import listener_of
from .mirror import Linked, LinkedChats, Mirror
from .pace import Pace, watch_progress
from .patience import retry_until_stored
from .places import TurnPlaces
from .room import HasRoom, Room, Shares
from .silence import watched
from .tasks import Spawn, Tasks
from .turn_events import TurnEvents
from .watching import PUBLISHED, publish_agent

if TYPE_CHECKING:
    from agent.config.schema import AgentSettings
    from hermes_state import AsyncSessionDB

    from .event_hooks import EventHooks

log = logging.getLogger(__name__)

W = TypeVar("W")

LOOK_SECONDS = 1.0
"""How often to check that another process still lives; its turn's end, a write, wakes us."""

LAST_SECONDS = 5.0
"""How long a turn that was interrupted by a stop may take to end."""


@dataclass(frozen=True, slots=True)
class _WaitedForByAgent:
    """A turn of another process that the door leaves to its agent to wait for."""

    turn: Mapping[str, Any]


class Conversations:
    """The turns of a process; for use on one event loop."""

    def __init__(
        self,
        db: AsyncSessionDB,
        settings: Callable[[], AgentSettings],
        hooks: Callable[[], EventHooks],
        *,
        is_running: Callable[[], bool] = lambda: True,
        limit: int | None = None,
        spawn: Spawn | None = None,
        agents: dict[str, Any] | None = None,
        pace: Pace | None = None,
        linked: Linked | None = None,
        send: Callable[[str], object] = lambda key: None,
        has_room: HasRoom | None = None,
    ) -> None:
        """Nothing further is begun once `is_running` says no. `limit` is how many turns may run at
        once, None for any number. `agents` gets the agent of every running turn, by the key of its
        door. `pace` and `linked` are shared by those of one process, where it has several; `send`
        has what a chat is owed sent now; `has_room` counts turns over several processes."""
        self._db = db
        self._settings = settings
        self._hooks = hooks
        self._is_running = is_running
        self._pace = pace or Pace()
        self._tasks = Tasks("the conversations")
        self.spawn = spawn or self._tasks.spawn
        self._room = Room(limit, db, self.spawn, has_room)
        self._shares = Shares()
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._queues: dict[str, deque[Any]] = {}
        self.agents: dict[str, Any] = {} if agents is None else agents
        self.places = TurnPlaces(db.sync)
        self.mirror = Mirror(db, linked or LinkedChats(db.sync), self.spawn, send)
        self.since = db.sync.clock
        """Older turns of this process belong to an earlier run (it executed itself again)."""
        self.not_started: set[str] = set()
        """Keys whose message was not begun with when the process was stopped; it waits on."""
        self.in_flight = 0
        self.finished = 0
        self.failed = 0
        self.seconds = 0.0
        """What the finished ones have taken, all together."""

    # The workers

    def is_busy(self, key: str) -> bool:
        """Whether a worker runs under a key."""
        return key in self._workers

    def holder(self, session_id: str | None) -> str | None:
        """The key whose turn runs in a session's conversation, in this process."""
        return self.places.holder(session_id)

    def begin(self, door: Door[W], first: W | Abandoned) -> bool:
        """Begin with a message or an abandoned turn; False if a worker runs under the key: then
        that finds what waits by itself."""
        if door.key in self._workers:
            return False
        self._workers[door.key] = self.spawn(self.work(door, first))
        return True

    def accept(self, door: Door[W], work: W) -> None:
        """Queue a message behind those of its key, and see that a worker runs them in order; for
        messages of which the inbox need not know."""
        self._queues.setdefault(door.key, deque()).append(work)
        self.begin(door, work)

    def queue(self, key: str) -> Sequence[Any]:
        """What was accepted under a key, that which runs first."""
        return self._queues.get(key, ())

    def dequeue(self, key: str, work: Any) -> None:
        """A message of a key is settled."""
        self._queues[key].remove(work)

    def clear_queue(self, key: str) -> Sequence[Any]:
        """Nothing further is run under a key; what was left."""
        return self._queues.pop(key, ())

    @property
    def queued(self) -> int:
        """Messages that wait behind the one that runs."""
        return sum(max(0, len(queue) - 1) for queue in self._queues.values())

    async def run(self, door: Door[W], first: W | Abandoned) -> None:
        """Do one thing, then what waits, and what is done beside it; for a front end whose event
        loop runs only as long."""
        try:
            await self.work(door, first)
        finally:
            if self._tasks.running:
                await asyncio.wait(self._tasks.running, timeout=LAST_SECONDS)

    async def work(self, door: Door[W], first: W | Abandoned) -> None:
        """Do one thing, then what waits."""
        item: W | Abandoned | None = first
        try:
            while item is not None:
                try:
                    if isinstance(item, Abandoned):
                        await self._finish(door, item)
                    else:
                        await self._take(door, item)
                except Exception as error:
                    if not await door.fault(item, error):
                        raise
                item = await door.next()
        finally:
            self._workers.pop(door.key, None)
            door.release()
        await door.ended()

    async def _take(self, door: Door[W], work: W) -> None:
        """Run a message when nobody else has its conversation."""
        if not await door.gather(work):
            return
        async with contextlib.AsyncExitStack() as room:
            async with self._free(door, work) as waited:
                if waited is None:
                    return
                confirmed = await door.confirm(work) if waited else work
                if confirmed is None:
                    return
                await room.enter_async_context(self._shares.place(door.share(confirmed)))
                await room.enter_async_context(self._slot())
                whole = await door.collect(confirmed)
                outcome = await self._run(door, whole, door.request(whole))
            # Where a platform makes us wait, the others in the conversation do not.
            await door.deliver(whole, outcome)

    @contextlib.asynccontextmanager
    async def _free(self, door: Door[W], work: W) -> AsyncIterator[bool | None]:
        """Have the conversation for a turn; yields whether others had it meanwhile, None if it is
        not to be waited for. What another process abandoned in it is brought to its end first."""
        waited = is_told = False
        while True:
            seen = self._db.wake.number
            async with self.places.turn(door.key, door.session_id) as late:
                other = await self._find_other(door)
                if isinstance(other, _WaitedForByAgent):
                    await self._offer(door, work, other.turn)
                if other is None or isinstance(other, _WaitedForByAgent):
                    if is_told:
                        await door.wait_ends(work, True)
                    # Who is being stopped asks again too: it may not begin anything now.
                    yield late or waited or not self._is_running()
                    return
            waited = True
            if isinstance(other, tuple):
                await self._finish(*other)
                continue
            if not is_told:
                is_told = True
                door.wait_begins(work, WAITING)
            if door.gives_up(work):
                await door.wait_ends(work, False)
                yield None
                return
            await self._offer(door, work, other)
            await self._db.wake.wait_async(seen, LOOK_SECONDS)

    async def _offer(self, door: Door[W], work: W, turn: Mapping[str, Any]) -> None:
        try:
            await door.offer(work, turn)
        except StoreError as error:
            # It is tried again at the next look; what is not read there is answered here.
            log.info("The turn in %s is not told what waits now: %s", door.key, error)

    async def _find_other(
        self, door: Door[Any]
    ) -> Mapping[str, Any] | _WaitedForByAgent | tuple[Door[Any], Abandoned] | None:
        return await self._db.at_hand(self._other_turn, door) if self._is_running() else None

    def _other_turn(
        self, door: Door[Any]
    ) -> Mapping[str, Any] | _WaitedForByAgent | tuple[Door[Any], Abandoned] | None:
        """The turn of another process that has to end before one of this door begins: one that
        runs, or one that is abandoned with the door that brings it to its end."""
        name = self.places.name(door.session_id())
        try:
            turn = self._db.sync.get_turn(name)
            if turn is None or turn["state"] != TURN_RUNNING or self.is_ours(turn):
                return None
            if not is_abandoned(turn, self._db.sync.now()):
                return turn if door.waits_for(turn) else _WaitedForByAgent(turn)
            for row in self._db.sync.list_abandoned_turns(name):
                abandoned = Abandoned(row)
                if (other := door.door_of(abandoned)) is not None:
                    return other, abandoned
        except StoreError as error:
            # The turn of the message meets it too, and tells.
            log.warning("What runs in %s is not known now: %s", name, error)
        return None

    def is_ours(self, turn: Mapping[str, Any]) -> bool:
        """Whether this process began a turn itself.

        One that executed itself again goes by the same name as before, but what it left is older.
        """
        is_own = turn["owner"] == this_process() and turn["started_at"] >= self.since
        lease = Lease(str(turn["conversation_id"]), turn["fence"], str(turn["owner"]))
        return bool(is_own and not heart.has_given_up(lease) and not is_unsure(lease))

    async def _finish(self, door: Door[W], turn: Abandoned) -> None:
        """Bring an abandoned turn to its end; nothing if another process has seen to it."""
        self.places.learn(turn.session_id, str(turn.row["conversation_id"]))
        async with contextlib.AsyncExitStack() as room:
            place = self.places.turn(door.key, lambda: turn.session_id)
            async with place, self._pace.place() as alive:
                if not self._is_running():
                    return
                await room.enter_async_context(self._slot())
                work = await retry_until_stored(
                    lambda: door.take_over(turn), "A take-over", is_repeatable=True
                )
                if work is None:
                    return
                request = door.request(work)
                assert isinstance(request, TakenOver)
                # The engine beats too, once it has begun.
                heart.begin(self._db.sync, request.taken.lease, lambda: None)
                try:
                    outcome = await self._run(door, work, request, alive)
                finally:
                    # If it has not ended, the next process takes it.
                    heart.end(self._db.sync, request.taken.lease)
            await door.deliver(work, outcome)

    # One turn

    async def _run(
        self,
        door: Door[W],
        work: W,
        request: TurnRequest,
        alive: Callable[[], None] | None = None,
    ) -> TurnOutcome:
        """Run a turn to its end; its outcome, whatever happens."""
        taken = request.taken if isinstance(request, TakenOver) else None
        began = taken.session_id if taken is not None else door.session_id()
        agent = None
        try:
            agent = self.agents[door.key] = await door.prepare(work)
            outcome = await self._watched(door, work, request, agent, alive)
        except asyncio.CancelledError:
            raise
        except NotNowError:
            outcome = NotStarted(session_id=began, reason="stopped")
        except Exception as error:
            # No silent turn: whatever failed, the person who asked is told.
            log.exception("The turn in %s failed", door.key)
            outcome = _broken(request, began, error)
        finally:
            self.agents.pop(door.key, None)
            await door.close(work)
        if isinstance(outcome, NotStarted) and isinstance(request, Question):
            await self._settle_inbox(door, work, request, outcome)
        if outcome.conversation_id:
            self.places.learn(outcome.session_id, outcome.conversation_id)
        if outcome.failed and not outcome.is_silent:
            self.failed += 1
            await self.end_reported_turn(began if taken is not None else outcome.session_id)
        try:
            await door.settle(work, outcome, agent)
        except StoreError as error:
            # The cached session is used meanwhile, and after a start the key is resolved to the
            # tip.
            log.error("What became of the turn in %s could not be stored: %s", door.key, error)
        await self.mirror.answer(door.key, outcome.session_id, door.name(work), outcome.text)
        return outcome

    async def _watched(
        self,
        door: Door[W],
        work: W,
        request: TurnRequest,
        agent: Any,
        alive: Callable[[], None] | None,
    ) -> TurnOutcome:
        origin = door.origin(work)
        session_context.set_session_vars(**origin.context())
        hooks = self._hooks()
        events = None
        if not getattr(hooks, "is_empty", False):
            events = TurnEvents(hooks, self._db, self.spawn, origin, door.asked(work))
        if isinstance(request, Question):
            await self.mirror.question(
                door.key, origin.session_id, origin, door.name(work), door.asked(work)
            )
        if events is not None:
            await events.start()
        await door.begin(work, agent)
        async with watched(
            self._settings(), door.key, agent, spawn=self.spawn,
            say=lambda text: door.say(work, text), is_asking=door.is_asking,
            stopped_by=door.stopped_by,
        ) as silence:  # fmt: skip
            door.begun(work)
            if PUBLISHED not in getattr(agent, "watchers", (PUBLISHED,)):
                await self._db.at_hand(publish_agent, agent)
            watch = watch_all(
                door.watch(work, agent),
                watch_progress(alive) if alive is not None else None,
                silence,
                events.watch if events is not None else None,
                self._mirror_questions(door.key, agent),
            )
            with self._reachable(agent):
                outcome = await door.run(agent, request, watch)
        if events is not None:
            await events.end(outcome)
        return outcome

    def _mirror_questions(self, key: str, agent: Any) -> Watcher:
        """Have the linked chats shown what the turn asks, from the thread of the tool that asks."""
        loop = asyncio.get_running_loop()

        def watch(event: Event) -> None:
            if type(event) is QuestionAsked:
                asked = self.mirror.asked(key, agent.session_id, event)
                loop.call_soon_threadsafe(self.spawn, asked)

        return watch

    def _reachable(self, agent: Any) -> AbstractContextManager[None]:
        """Let other processes stop, tell and watch an agent's turn."""
        db = self._db.sync
        if getattr(agent, "db", None) is not db:  # it stands in for one, or has no store
            return contextlib.nullcontext()
        return listener_of(db).hearing(agent, lambda: self.places.name(agent.session_id))

    async def _settle_inbox(
        self, door: Door[W], work: W, question: Question, outcome: NotStarted
    ) -> None:
        """Drop a message that was not begun with, unless it is to wait on."""
        if door.keeps(work, outcome):
            self.not_started.add(door.key)
        else:
            await self.drop(*question.inbox_ids)

    async def drop(self, *inbox_ids: str) -> None:
        """Take messages from the inbox; if the store cannot do that now, as soon as it can."""
        for inbox_id in inbox_ids:
            try:
                await self._db.drop_message(inbox_id)
            except StoreError as error:
                log.warning("%s stays in the inbox for now: %s", inbox_id, error)
                self.spawn(self._drop_when_possible(inbox_id))

    async def _drop_when_possible(self, inbox_id: str) -> None:
        await retry_until_stored(
            lambda: self._db.drop_message(inbox_id), f"Dropping {inbox_id}", is_repeatable=True
        )

    async def end_reported_turn(self, session_id: str) -> asyncio.Task[None] | None:
        """End a turn of this process whose end was reported to its front end but not stored; None
        if it was.

        It writes nothing more, and no process resumes it unasked. If the store cannot note that
        now, it is tried until it can, so that the conversation's next turn need not wait for its
        lease.
        """
        before = self._db.clock
        name = await self.places.find_name(session_id)
        try:
            lease = await self._find_own(name)
        except StoreError as error:
            log.warning("Whether the turn in %s has ended is not known: %s", name, error)
            return self.spawn(self._end_older(name, before))
        return None if lease is None else self.spawn(self._end(lease))

    async def _find_own(self, name: str, before: float = math.inf) -> Lease | None:
        """The lease of the conversation's turn if it is this process's, and begun `before`."""
        turn = await self._db.at_hand(self._db.sync.get_turn, name)
        if turn is None or turn["state"] != TURN_RUNNING or turn["owner"] != this_process():
            return None
        return Lease(name, turn["fence"], turn["owner"]) if turn["started_at"] < before else None

    async def _end_older(self, name: str, before: float) -> None:
        """End a turn that was told to have failed, once the store can say whether it began."""
        lease = await retry_until_stored(
            lambda: self._find_own(name, before), f"Looking at the turn in {name}"
        )
        if lease is not None and not heart.beats_for(lease):
            await self._end(lease)

    async def _end(self, lease: Lease) -> None:
        what = f"Ending the turn in {lease.conversation_id}"
        await retry_until_stored(lambda: self._db.end_turn(lease), what, is_repeatable=True)

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Room for one turn among those that may run at once."""
        async with self._room.place():
            self.in_flight += 1
            begun = time.monotonic()
            try:
                yield
            finally:
                self.in_flight -= 1
                self.finished += 1
                self.seconds += time.monotonic() - begun

    # The end

    async def finish(self) -> None:
        """Wait until everything that was begun here has ended, with what is done beside it."""
        while running := {task for task in self._workers.values() if not task.done()}:
            await asyncio.wait(running)
        if self._tasks.running:
            await asyncio.wait(self._tasks.running, timeout=LAST_SECONDS)

    async def drain(self, seconds: float) -> list[str]:
        """Let running turns end; those that take longer are interrupted. Returns their keys."""
        deadline = time.monotonic() + seconds
        late: set[asyncio.Task[None]] = set()
        # Repeatedly: a turn may have been starting when this was first checked.
        while running := {task for task in self._workers.values() if not task.done()}:
            left = deadline - time.monotonic()
            _, late = await asyncio.wait(running, timeout=max(0.0, left))
            if late:
                break
        begun = [key for key in self.agents if self._workers.get(key) in late]
        for agent in list(self.agents.values()):
            interrupt = getattr(agent, "interrupt", None)
            if interrupt is not None:
                interrupt()
        if late:
            _, late = await asyncio.wait(late, timeout=LAST_SECONDS)
            ending = [
                await self.end_reported_turn(agent.session_id)
                for key, agent in list(self.agents.items())
                if self._workers.get(key) in late and hasattr(agent, "session_id")
            ]
            if stuck := [task for task in ending if task is not None]:
                await asyncio.wait(stuck, timeout=LAST_SECONDS)
        return [key for key in begun if key not in self.not_started]


def _broken(request: TurnRequest, session_id: str, error: Exception) -> TurnOutcome:
    """The outcome of a turn that could not be run."""
    problem = f"{type(error).__name__}: {error}"
    if isinstance(request, WaitingNotes):
        # Nobody waits for an answer to notes, and they are kept.
        return Superseded(session_id=session_id, error=problem)
    return NotStarted(session_id=session_id, reason="refused", error=problem)
