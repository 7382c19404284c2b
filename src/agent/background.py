"""Sub-agents that go on after the turn that started them, in threads of this process.

What is under way is a fact of the store; the table here only knows how to stop it. Abandoned work,
whose process is gone, is ended like an abandoned turn, by the next process that looks
(`end_abandoned`): the sub-agents' turns are closed in their histories, and the conversation is
notified once. Whoever ends the program calls `stop_all` first, so that what runs stores where it
came to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_base.process import has_ended, machine, start_time, this_process
from hermes_base.redaction import redact
from hermes_state import SessionDB, StoreError
from tools.delegate import Task, joined
from tools.objects.in_texts import put_output
from tools.output import shortened
from tools.own_folders import output_folder_of

from .notes import count_stored
from .threads import run_to_end

if TYPE_CHECKING:
    from .agent import AIAgent

log = logging.getLogger(__name__)

MOST_AT_ONCE = 8
"""Delegations of one conversation at the same time."""
MOST_IN_PROCESS = 64
"""Delegations of everybody: each is a thread."""
LONGEST_REPORT = 100_000
GIVEN_UP_AFTER = 86_400.0
"""Seconds after which work on another machine counts as abandoned."""

Runner = Callable[["AIAgent", Task], Awaitable[str]]
"""Runs a sub-agent to its end and returns its report."""
OnEnd = Callable[[str, str, str], None]
"""Called with id, state and report when work has ended and this is stored."""


@dataclass(slots=True)
class Run:
    """One delegation under way."""

    id: str
    conversation: str
    db: SessionDB
    tasks: list[Task]
    children: list[AIAgent]
    on_end: OnEnd
    stopping: bool = False
    done: threading.Event = field(default_factory=threading.Event)


_runs: dict[str, Run] = {}
_lock = threading.Lock()


class TooManyError(RuntimeError):
    """As many delegations as allowed are running."""


def _here() -> list[str]:
    return list(machine())


def begin(run: Run, session_id: str, run_child: Runner) -> None:
    """Store the work and start it; raises TooManyError or StoreError with nothing begun."""
    with _lock:
        own = sum(other.conversation == run.conversation for other in _runs.values())
        if own >= MOST_AT_ONCE or len(_runs) >= MOST_IN_PROCESS:
            raise TooManyError(f"{len(_runs)} background tasks are running already.")
        _runs[run.id] = run
    try:
        run.db.create_delegation(
            run.id,
            session_id,
            {
                "goals": [task["goal"] for task in run.tasks],
                "sessions": [child.session_id for child in run.children],
                "machine": _here(),
            },
            owner_pid=os.getpid(),
            owner_started_at=start_time(os.getpid()),
        )
    except BaseException:
        _forget(run)
        raise
    threading.Thread(
        target=_work, args=(run, run_child), name=f"hermes-{run.id}", daemon=True
    ).start()


def _forget(run: Run) -> None:
    with _lock:
        _runs.pop(run.id, None)
    run.done.set()


def _work(run: Run, run_child: Runner) -> None:
    state = "failed"
    try:
        outcomes = run_to_end(_run_children(run, run_child))
        if run.stopping:
            state = "interrupted"
        elif not all(isinstance(outcome, Exception) for outcome in outcomes):
            state = "completed"
        report = joined(run.tasks, outcomes)
    except Exception as error:
        # The conversation must be notified, whatever went wrong here.
        log.exception("The background task %s failed", run.id)
        report = f"Failed: {type(error).__name__}: {error}"
    try:
        home = run.children[0].workspace.home
        folder = output_folder_of(home, run.conversation)
        report = shortened(redact(report), LONGEST_REPORT, folder, run.id)
        report = put_output(run.db, home, report, run.conversation)
        stored = run.db.finish_delegation(run.id, state, report)
    except (StoreError, OSError) as error:
        # It stays "running" in the store, and counts as abandoned once this process has ended.
        log.error("The outcome of the background task %s could not be stored: %s", run.id, error)
        stored = False
    finally:
        _forget(run)
    if stored:
        run.on_end(run.id, state, report)


async def _run_children(run: Run, run_child: Runner) -> list[str | BaseException]:
    return await asyncio.gather(
        *(run_child(child, task) for child, task in zip(run.children, run.tasks, strict=True)),
        return_exceptions=True,
    )


def stop(delegation_id: str) -> bool:
    """Stop one delegation; what it did is stored. False if it does not run in this process."""
    with _lock:
        run = _runs.get(delegation_id)
    if run is None:
        return False
    run.stopping = True
    for child in run.children:
        child.interrupt()
    return True


def stop_all(db: SessionDB, seconds: float = 5.0) -> list[str]:
    """Stop all that runs on this store; returns the ids of what did not end in time."""
    deadline = time.monotonic() + seconds
    while True:
        with _lock:
            left = [run for run in _runs.values() if run.db is db]
        if not left or time.monotonic() >= deadline:
            return [run.id for run in left]
        for run in left:
            # Again each time: a child that has not begun yet cannot be interrupted.
            stop(run.id)
        left[0].done.wait(0.05)


def running_here() -> list[str]:
    """The ids of what runs in this process."""
    with _lock:
        return list(_runs)


def end_abandoned(db: SessionDB, running: Iterable[Mapping[str, Any]]) -> int:
    """End those of `running` that were abandoned by their process; returns how many.

    What the sub-agents had done is kept in their sessions, which the conversation is told of.
    """
    ended = 0
    living: dict[str, bool] = {}
    """By gateway that shares the store: whether its heartbeat is current."""
    if db.is_on_server:
        living = {replica["owner"]: replica["is_alive"] for replica in db.list_replicas()}
    for delegation in running:
        owner = delegation["owner"]
        is_elsewhere = owner in living and owner != this_process()
        if living[owner] if is_elsewhere else not is_abandoned(delegation, db.clock):
            continue
        for session_id in delegation["sessions"]:
            _close_turn(db, session_id)
        ended += db.lose_delegation(delegation["delegation_id"])
    if ended:
        count_stored()
        log.warning("%d background tasks were lost with their process", ended)
    return ended


def _close_turn(db: SessionDB, session_id: str) -> None:
    """Close the abandoned turn of a sub-agent."""
    session = db.get_session(session_id)
    for turn in db.list_abandoned_turns(session["conversation_id"]) if session else ():
        db.close_abandoned_turn(turn["conversation_id"], turn["fence"])


def is_abandoned(delegation: Mapping[str, Any], now: float) -> bool:
    """Whether running work was abandoned: its process is gone; `now` by the store's clock."""
    pid, start = delegation["owner_pid"], delegation["owner_started_at"]
    if pid == os.getpid() and start == start_time(pid):
        with _lock:
            return delegation["delegation_id"] not in _runs
    owner = delegation["machine"]
    if not isinstance(pid, int) or not isinstance(owner, list) or len(owner) != len(_here()):
        return True
    if has_ended(owner, pid, start):
        return True
    if owner == _here():
        return False
    return bool(now - delegation["dispatched_at"] > GIVEN_UP_AFTER)
