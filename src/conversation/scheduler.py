"""The scheduler: claims what is due, and sees every occurrence to its end.

It sleeps until the next job is due, or until somebody has written to the store; then it asks for
the next time, which is one look into an index. Time is the store's. A sleep is cut into pieces, so
that a machine that was suspended, or whose clock was set, notices soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.jobs.job import Job
from agent.outcome import Failed, TurnOutcome
from hermes_base.process import is_gone, is_of_this_machine, this_process
from hermes_state import StoreError
from hermes_state.jobs import occurrence_id

from .abandoned import close_turn, list_to_resume
from .door import Abandoned
from .jobs import JobDoor, JobParts, Occurrence, find_occurrence, settle
from .stored_turns import stored_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

LONGEST_SLEEP = 30.0
"""After which the clock is looked at again, though not the store."""
PACE_SECONDS = 0.2
"""Between two looks in a store that is written to all the time."""
AT_ONCE = 100
"""Jobs that are claimed in one look."""
LOST = "Its turn was closed before it had an answer."


class Scheduler:
    """The jobs of a store, as one process runs them."""

    def __init__(self, parts: JobParts) -> None:
        self.parts = parts
        self._db = parts.db
        self._conversations = parts.conversations
        self._begun: set[str] = set()
        """Occurrences that this process has taken up."""
        self.claimed = 0
        self.looks = 0
        """How often the store was asked."""

    async def watch(self, is_running: Callable[[], bool]) -> None:
        """Claim and run what is due, until the process stops."""
        wake = self._db.wake
        while is_running():
            seen = wake.number
            try:
                pause = await self.look()
            except StoreError as error:
                log.warning("Could not look for jobs that are due; retrying: %s", error)
                pause = 1.0
            await self._sleep(seen, pause)

    async def _sleep(self, seen: int, pause: float | None) -> None:
        """Sleep until something was written, or for so long by the clock on the wall."""
        wake = self._db.wake
        at = None if pause is None else self._db.clock + pause
        while True:
            left = LONGEST_SLEEP if at is None else at - self._db.clock
            if (
                left <= 0
                or await wake.wait_async(seen, min(left, LONGEST_SLEEP), PACE_SECONDS) != seen
            ):
                return

    async def look(self) -> float | None:
        """Claim what is due; returns in how many seconds the next is, None if there is none."""
        self.looks += 1
        db = self._db
        while True:
            moment = await db.at_hand(db.sync.next_job_at)
            if moment is None:
                return None
            now = await db.at_hand(db.sync.now)
            if moment > now:
                return float(moment - now)
            await self.claim_due(now)

    async def claim_due(self, now: float) -> int:
        """Claim the jobs that were due by a moment, and begin with them; returns how many runs."""
        begun = 0
        for row in await self._db.list_due_jobs(now, AT_ONCE):
            begun += await self._claim(row, now)
        return begun

    async def _claim(self, row: Mapping[str, Any], now: float) -> int:
        from agent.jobs.claims import plan

        db, job = self._db, Job.read(row)
        tell = await db.at_hand(self._told, job)
        try:
            claim = await asyncio.to_thread(plan, job, now, tell)
        except (ValueError, KeyError, OverflowError) as error:
            log.error(
                "The schedule of the job %s cannot be read; it is paused: %s", job.name, error
            )
            await db.change_job(job.id, job.version, state="paused", next_due=None, next_at=None)
            return 0
        assert job.next_due is not None
        content = job.content()
        session_id = job.session_for(claim.due[-1] if claim.due else job.next_due)
        accepted = await db.claim_job(
            job.id, job.version, job.next_due, claim,
            content=content, session_id=session_id, overlaps=job.settings.overlap == "queue",
        )  # fmt: skip
        if accepted is None:
            return 0  # another process was first
        self.claimed += len(accepted)
        for notice in claim.notices:
            self.parts.send(str(notice.to["session_key"]))
        for due in accepted:
            self.begin(Occurrence(job, due, content, job.session_for(due)))
        return len(accepted)

    def _told(self, job: Job) -> Mapping[str, Any] | None:
        return self.parts.address(job) or self.parts.home(job)

    def begin(self, occurrence: Occurrence) -> None:
        """Run an occurrence that is in the inbox, behind those of its job before it."""
        if occurrence.id in self._begun:
            return
        self._begun.add(occurrence.id)
        self._conversations.accept(JobDoor(self.parts, occurrence.job.id), occurrence)

    async def start_now(self, job: Job) -> int | None:
        """Run a job now, whatever its schedule says; None if it was begun in this very second."""
        db = self._db
        due = int(await db.at_hand(db.sync.now))
        if not await db.start_run(job.id, due, job.content(), job.session_for(due)):
            return None
        self.begin(Occurrence(job, due, job.content(), job.session_for(due)))
        return due

    # What other processes have left

    async def recover(self, *, with_own: bool = False) -> None:
        """See to runs whose process is gone: begin, take over or settle them.

        `with_own`: also what an earlier life of this process has left.
        """
        db = self._db
        runs = await db.list_open_runs()
        if not runs:
            self._begun.clear()
            return
        alive = await self._alive(runs, with_own)
        abandoned = await self._abandoned()
        open_ids = set()
        for run in runs:
            name = occurrence_id(run["job_id"], run["due_at"])
            open_ids.add(name)
            kept = await db.get_job(run["job_id"])
            if kept is None:
                continue
            job, due = Job.read(kept), int(run["due_at"])
            if name in abandoned:
                door = JobDoor(self.parts, job.id)
                self._conversations.begin(door, Abandoned(abandoned[name]))
            elif run["inbox_state"] == "waiting":
                await self._resume(run, job, due, alive)
            elif not self._conversations.is_busy(f"job:{job.id}"):
                await self._settle_ended(run, job, due, alive)
        self._begun &= open_ids

    async def _alive(self, runs: list[dict[str, Any]], with_own: bool) -> set[str]:
        """Of the processes that have these runs, those that live."""
        replicas = await self._db.list_live_owners(with_own)
        owners = {str(run[column]) for run in runs for column in ("owner", "inbox_owner")}
        alive = {
            owner
            for owner in owners
            if owner in replicas
            or (is_of_this_machine(owner) and not is_gone(owner, this_boot=True))
        }
        return alive - {this_process()} if with_own else alive

    async def _abandoned(self) -> dict[str, Mapping[str, Any]]:
        """The abandoned turns of occurrences, by these."""
        db = self._db
        found: dict[str, Mapping[str, Any]] = {}
        for row in await asyncio.to_thread(list_to_resume, db.sync):
            if self._conversations.is_ours(row):
                continue
            if await db.at_hand(self._conversations.holder, str(row["session_id"])) is not None:
                continue
            occurrence = await db.at_hand(find_occurrence, db.sync, row)
            if occurrence is None:
                continue
            if await db.get_job(occurrence[0]) is None:
                await asyncio.to_thread(close_turn, db.sync, row)
            found[occurrence_id(*occurrence)] = row
        return found

    async def _resume(self, run: Mapping[str, Any], job: Job, due: int, alive: set[str]) -> None:
        """Begin an occurrence that was accepted by a process that is gone."""
        name = occurrence_id(job.id, due)
        if name in self._begun and self._conversations.is_busy(f"job:{job.id}"):
            return
        if run["inbox_owner"] in alive and name not in self._begun:
            return
        if name not in self._begun and not await self._db.claim_message(name, run["inbox_owner"]):
            return
        self._begun.discard(name)
        self.begin(Occurrence(job, due, str(run["content"]), str(run["session_id"])))

    async def _settle_ended(
        self, run: Mapping[str, Any], job: Job, due: int, alive: set[str]
    ) -> None:
        """Settle a run whose turn has ended, by what is stored of it."""
        if run["owner"] in alive:
            return
        db = self._db
        name, session_id = occurrence_id(job.id, due), str(run["session_id"])
        row = await db.get_session(session_id)
        turn = None if row is None else await db.at_hand(db.sync.get_turn, row["conversation_id"])
        if turn is not None and turn["state"] == "running":
            return  # another process goes on with it, or it is not abandoned yet
        outcome: TurnOutcome | None = await db.at_hand(stored_outcome, db.sync, session_id, name)
        await settle(self.parts, job, due, outcome or Failed(session_id=session_id, error=LOST))
