"""The turns of jobs: each occurrence in its conversation, answered where its job says.

A job is a front end without a person. Its occurrences wait in the inbox like any message; the
worker of `service` runs them, one after the other for each job. Whatever becomes of one is settled
with its run, once, and a failure is told in the same transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.jobs.job import SILENT, Job
from agent.outcome import NotStarted, TurnOutcome
from agent.request import DeliverTo, Question, TakenOver, TurnRequest
from hermes_state.jobs import Notice, Settled, occurrence_id

from . import abandoned
from .door import Abandoned, Door, Origin
from .patience import retry_until_stored

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import AsyncSessionDB, TakenTurn

    from .service import Conversations

log = logging.getLogger(__name__)

CRON = "cron"
"""`source` of the sessions that jobs begin."""
LONGEST_ANSWER = 2_000
"""How much of an answer its run remembers; all of it is in the conversation."""


@dataclass(slots=True, eq=False)
class Occurrence:
    """One occurrence of a job, on its way to its answer."""

    job: Job
    due: int
    content: str
    session_id: str
    taken: TakenTurn | None = None
    """The turn that another process had begun for it."""
    agent: Any = None
    model: Any = None
    """What has answered in its turn."""

    @property
    def id(self) -> str:
        """Its name in the inbox."""
        return occurrence_id(self.job.id, self.due)


@dataclass(frozen=True, slots=True)
class JobParts:
    """What the turns of jobs need of the process that runs them."""

    db: AsyncSessionDB
    settings: Config
    conversations: Conversations
    build: Callable[[Job, str, Mapping[str, Any] | None], Awaitable[Any]]
    """The agent of a job, in a session; the last is the chat that may be asked."""
    address: Callable[[Job], Mapping[str, Any] | None]
    """The chat that a job's answer goes to; None for none. Reads the store."""
    home: Callable[[Job], Mapping[str, Any] | None]
    """The chat of its owner that hears of failures. Reads the store."""
    chat_session: Callable[[Job], str | None]
    """The session that the chat of a job is in; None if it is in none. Reads the store."""
    send: Callable[[str], object] = lambda session_key: None
    """Has what a chat is owed sent now."""
    other_door: Callable[[Abandoned], Door[Any] | None] = lambda turn: None
    """The door that brings a turn to its end which is no job's."""
    is_running: Callable[[], bool] = lambda: True


class JobDoor(Door[Occurrence]):
    """The occurrences of one job."""

    def __init__(self, parts: JobParts, job_id: str) -> None:
        self._parts = parts
        self.job_id = job_id
        self.key = f"job:{job_id}"
        self._current: Occurrence | None = None

    def session_id(self) -> str:
        """The session of the occurrence that comes first."""
        queue = self._parts.conversations.queue(self.key)
        current = self._current or (queue[0] if queue else None)
        return current.session_id if current is not None else self.key

    async def next(self) -> Occurrence | None:
        """The occurrence behind; none while the process stops: the inbox has it."""
        if not self._parts.is_running():
            return None
        queue = self._parts.conversations.queue(self.key)
        return queue[0] if queue else None

    def release(self) -> None:
        """What still waits is in the inbox."""
        self._parts.conversations.clear_queue(self.key)

    def _dequeue(self, occurrence: Occurrence) -> None:
        conversations = self._parts.conversations
        if occurrence in conversations.queue(self.key):
            conversations.dequeue(self.key, occurrence)

    async def gather(self, occurrence: Occurrence) -> bool:
        """Note that it is being run, and where; not if an earlier one has not ended."""
        db, job = self._parts.db, occurrence.job
        if job.settings.where == "chat":
            session_id = await db.at_hand(self._parts.chat_session, job)
            occurrence.session_id = session_id or occurrence.session_id
        tip = await db.at_hand(db.sync.get_compression_tip, occurrence.session_id)
        occurrence.session_id = tip or occurrence.session_id
        if await db.begin_run(job.id, occurrence.due, occurrence.session_id):
            return True
        self._dequeue(occurrence)
        return False

    async def confirm(self, occurrence: Occurrence) -> Occurrence | None:
        """After a wait the conversation may have moved on."""
        if not self._parts.is_running():
            return None
        db = self._parts.db
        tip = await db.at_hand(db.sync.get_compression_tip, occurrence.session_id)
        occurrence.session_id = tip or occurrence.session_id
        return occurrence

    async def prepare(self, occurrence: Occurrence) -> Any:
        """The job's agent, for this run only."""
        self._current = occurrence
        home = await self._parts.db.at_hand(self._parts.home, occurrence.job)
        agent = await self._parts.build(occurrence.job, occurrence.session_id, home)
        occurrence.agent, occurrence.model = agent, getattr(agent, "llm", None)
        return agent

    def request(self, occurrence: Occurrence) -> TurnRequest:
        """What the job asks."""
        if occurrence.taken is not None:
            return TakenOver(occurrence.taken)
        job = occurrence.job
        to = self._parts.address(job)
        deliver_to = None if to is None else DeliverTo(occurrence.id, to)
        is_own = job.settings.where in ("fresh", "own")
        return Question(
            occurrence.content,
            (occurrence.id,),
            deliver_to=deliver_to,
            mode=job.settings.mode if is_own else None,  # type: ignore[arg-type]
        )

    def origin(self, occurrence: Occurrence) -> Origin:
        """The job."""
        job = occurrence.job
        return Origin(CRON, occurrence.session_id, self.key, user_id=job.user_id)

    def asked(self, occurrence: Occurrence) -> str:
        """What it is asked."""
        return occurrence.content

    def name(self, occurrence: Occurrence) -> str:
        """The occurrence's."""
        return occurrence.id

    def keeps(self, occurrence: Occurrence, outcome: NotStarted) -> bool:
        """What a stop kept from beginning waits for the next start."""
        return not outcome.failed and not self._parts.is_running()

    async def close(self, occurrence: Occurrence) -> None:
        """The agent was for this run only."""
        agent, occurrence.agent = occurrence.agent, None
        close = getattr(agent, "close", None)
        if close is not None:
            await asyncio.to_thread(close)

    async def deliver(self, occurrence: Occurrence, outcome: TurnOutcome) -> None:
        """Settle the run, and have its answer sent."""
        self._current = None
        self._dequeue(occurrence)
        if isinstance(outcome, NotStarted) and self.keeps(occurrence, outcome):
            return
        if outcome.is_silent:
            log.info("%s is answered by another process", occurrence.id)
            return
        seen = getattr(occurrence.model, "seen", None)
        await settle(self._parts, occurrence.job, occurrence.due, outcome, seen)

    async def fault(self, item: Occurrence | Abandoned, error: Exception) -> bool:
        """The run stays open; the next look goes on with it."""
        log.error("A run of %s could not be seen to its end", self.key, exc_info=error)
        if isinstance(item, Occurrence):
            self._current = None
            self._dequeue(item)
        return True

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """This one for a turn of this job; else whose it is."""
        return self if job_of(turn.row) == self.job_id else self._parts.other_door(turn)

    async def take_over(self, turn: Abandoned) -> Occurrence | None:
        """Go on with an occurrence that another process had begun; closed if its job is gone."""
        parts, row = self._parts, turn.row
        db = parts.db
        named = await db.at_hand(find_occurrence, db.sync, row)
        kept = None if named is None else await db.get_job(named[0])
        if named is None or kept is None:
            await asyncio.to_thread(abandoned.close_turn, db.sync, row)
            return None
        settings, workspace = parts.settings.agent, parts.settings.replicas.workspace
        taken = await asyncio.to_thread(abandoned.take_over_turn, db.sync, row, settings, workspace)
        if taken is None:
            return None  # closed, and told; the run is settled by what is stored of it
        self._current = occurrence = Occurrence(
            Job.read(kept), named[1], "", taken.session_id, taken
        )
        return occurrence


def job_of(row: Mapping[str, Any]) -> str | None:
    """The job whose occurrence an abandoned turn answers, as far as its address says."""
    target = row["deliver_to"]
    named = str(target["id"]) if target else str(row.get("session_key") or "")
    parts = named.split("~")[0].split(":")
    return parts[1] if parts[0] == "job" and len(parts) > 1 else None


def find_occurrence(db: Any, row: Mapping[str, Any]) -> tuple[str, int] | None:
    """The occurrence that an abandoned turn answers; None if it is no job's."""
    target = row["deliver_to"]
    named = str(target["id"]).split("~")[0] if target else ""
    if not named.startswith("job:"):
        tip = db.get_compression_tip(row["session_id"])
        named = str(db.get_last_question(tip)[1] or "")
    parts = named.split(":")
    if len(parts) != 3 or parts[0] != "job" or not parts[2].isdecimal():
        return None
    return parts[1], int(parts[2])


def settled_by(job: Job, outcome: TurnOutcome, is_sent: bool) -> Settled:
    """How a run has ended, by the outcome of its turn."""
    text = outcome.text
    if outcome.failed or outcome.interrupted or not text:
        error = outcome.error or ("It was stopped." if outcome.interrupted else "No answer came.")
        return Settled("failed", error, session_id=outcome.session_id)
    state = "silent" if is_silent(text) else "delivered" if is_sent else "done"
    return Settled(state, None, text[:LONGEST_ANSWER], outcome.session_id)


def is_silent(text: str) -> bool:
    """Whether an answer says that nothing is to be sent."""
    return text.lstrip().startswith(SILENT)


async def settle(
    parts: JobParts, job: Job, due: int, outcome: TurnOutcome, seen: str | None = None
) -> None:
    """Settle a run by its outcome; a failure is told. `seen` is what a monitor has seen."""
    db = parts.db
    to = await db.at_hand(parts.address, job)
    settled = settled_by(job, outcome, to is not None)
    if settled.state != "failed":
        settled = settled._replace(result=seen)
    tell = to or await db.at_hand(parts.home, job)
    notice = None
    if settled.state == "failed" and tell is not None:
        text = f"⚠️ The job {job.name}, due {job.shown(due)}, failed: {settled.error}"
        notice = Notice(f"say:{occurrence_id(job.id, due)}:failed", text, tell)
    await retry_until_stored(
        lambda: db.settle_run(
            job.id, due, settled, notice, ends_session=job.settings.where == "fresh"
        ),
        "The end of a run",
        is_repeatable=True,
    )
    if tell is not None:
        parts.send(str(tell["session_key"]))
