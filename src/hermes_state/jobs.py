"""Jobs: work that begins by itself, and each occurrence of it, exactly once.

An occurrence is a row of the inbox that is named after its job and its time (`occurrence_id`). One
transaction moves the job on to its next time and inserts the row; of any number of processes that
try, one finds the job as it read it, and the others nothing. From then on it is like any accepted
message: whoever accepted it runs it, and if that process is gone, another does.

`job_runs` has one row for each occurrence, and one for each stretch of occurrences that were left
out. A run is waiting, then running, then settled, once: delivered, silent, done, failed or skipped.
What its owner is to be told of that is put into the outbox with it.

When a job is due is reckoned above (`agent.jobs.schedule`); here are only its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_base.process import this_process

from .codec import decode_json, encode_json, encode_text
from .dialect import Connection, at_most, row, rows, value
from .errors import JobError
from .inbox import accept_message
from .lineage import get_compression_tip
from .outbox import add_delivery
from .owners import Owner, owned, person_of
from .persons import current_owner
from .sessions import end_session
from .webhooks import JOB_FAILED, enqueue_event

SOURCE = "job"
"""`source` of the inbox's rows that are occurrences of jobs."""

ACTIVE, PAUSED, DONE = "active", "paused", "done"
OPEN_RUN = "('waiting', 'running')"
SETTLED = ("delivered", "silent", "done", "failed", "skipped")
ENDED = "cron_complete"
"""Why a session has ended that was for one run."""
KEPT_RUNS = 500
"""Runs of a job that are remembered."""


class Notice(NamedTuple):
    """What the owner of a job is told, once under its name."""

    name: str
    text: str
    to: Mapping[str, Any]
    """The chat: session_key, platform, chat_id, thread_id."""


class Skip(NamedTuple):
    """Occurrences that are left out by a rule."""

    first: int
    last: int
    times: int
    why: str


class Claim(NamedTuple):
    """What becomes of a job that is due."""

    next_due: int | None
    """Its next time; None if there is none."""
    next_at: float | None
    """When that is begun: later, if the job has jitter."""
    due: tuple[int, ...] = ()
    """The occurrences that are run now."""
    skips: tuple[Skip, ...] = ()
    notices: tuple[Notice, ...] = ()


def occurrence_id(job_id: str, due: float) -> str:
    """The name of an occurrence in the inbox."""
    return f"{SOURCE}:{job_id}:{int(due)}"


# Jobs


def add_job(
    conn: Connection,
    job_id: str,
    *,
    user_id: str | None,
    name: str,
    schedule: str,
    timezone: str,
    settings: Mapping[str, Any],
    next_due: int,
    next_at: float,
    most: int | None = None,
) -> dict[str, Any]:
    """Insert a job; JobError if its owner has one of that name, or as many as they may have."""
    owner = current_owner(conn, user_id)  # a turn may outlive the person whose it began
    condition, values = owned("user_id", person_of(owner))
    if value(conn, f"SELECT 1 FROM jobs WHERE name = ?{condition}", (name, *values)):
        raise JobError(f"There is a job {name!r} already.")
    kept = value(conn, f"SELECT COUNT(*) FROM jobs WHERE state <> '{DONE}'{condition}", values)
    if most is not None and kept >= most:
        raise JobError(f"There are {kept} jobs, and {most} is the limit. Remove one first.")
    now = conn.now()
    conn.execute(
        "INSERT INTO jobs (id, user_id, name, schedule, timezone, settings, state, next_due,"
        " next_at, runs, failures, version, created_at, updated_at)"
        f" VALUES (?, ?, ?, ?, ?, ?, '{ACTIVE}', ?, ?, 0, 0, 1, ?, ?)",
        (
            encode_text(job_id, "job_id"),
            encode_text(owner, "user_id"),
            encode_text(name, "name"),
            encode_text(schedule, "schedule"),
            encode_text(timezone, "timezone"),
            encode_json(dict(settings), "settings"),
            float(next_due),
            float(next_at),
            now,
            now,
        ),
    )
    job = get_job(conn, job_id)
    assert job is not None
    return job


def get_job(conn: Connection, job_id: str) -> dict[str, Any] | None:
    """A job by its id, whoever's it is."""
    job = row(conn, "SELECT * FROM jobs WHERE id = ?", (job_id,))
    return None if job is None else _decoded(job)


def list_jobs(
    conn: Connection, owner: Owner, *, name: str | None = None, limit: int = -1
) -> list[dict[str, Any]]:
    """The jobs of somebody, those that are due next first; with `name` those of that name or id."""
    condition, values = owned("user_id", owner)
    where, given = "1 = 1", tuple[str, ...]()
    if name is not None:
        where, given = "(id = ? OR name = ?)", (name, name)
    jobs = rows(
        conn,
        f"SELECT * FROM jobs WHERE {where}{condition}"
        " ORDER BY CASE WHEN next_at IS NULL THEN 1 ELSE 0 END, next_at, name, id LIMIT ?",
        (*given, *values, at_most(limit)),
    )
    return [_decoded(job) for job in jobs]


_CHANGED = ("name", "schedule", "timezone", "state", "next_due", "next_at")


def change_job(conn: Connection, job_id: str, version: int, **fields: Any) -> bool:
    """Change a job as it was read under `version`; False if it was changed or removed since."""
    settings = fields.pop("settings", None)
    unknown = set(fields) - set(_CHANGED)
    if unknown:
        raise ValueError(f"A job has no {', '.join(sorted(unknown))}.")
    if fields.get("name") is not None:
        job = get_job(conn, job_id)
        taken = job and [
            other
            for other in list_jobs(conn, job["user_id"] or "operator", name=fields["name"])
            if other["id"] != job_id
        ]
        if taken:
            raise JobError(f"There is a job {fields['name']!r} already.")
    changes = {**fields, "updated_at": conn.now()}
    if settings is not None:
        changes["settings"] = encode_json(dict(settings), "settings")
    if changes.get("state") == ACTIVE:
        changes["failures"] = 0
    assignments = ", ".join(f"{name} = ?" for name in changes)
    conn.execute(
        f"UPDATE jobs SET {assignments}, version = version + 1 WHERE id = ? AND version = ?",
        (*changes.values(), job_id, version),
    )
    return conn.changes() > 0


def remove_job(conn: Connection, job_id: str) -> bool:
    """Delete a job with its history, and what of it waits; False if there is none.

    A run that has begun goes on: its answer is delivered like any other.
    """
    conn.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
    if not conn.changes():
        return False
    conn.execute(
        "UPDATE inbox SET state = 'dropped', content = NULL, facts = NULL, updated_at = ?"
        " WHERE source = ? AND session_key = ? AND state = 'waiting'",
        (conn.now(), SOURCE, f"{SOURCE}:{job_id}"),
    )
    conn.execute("DELETE FROM job_runs WHERE job_id = ?", (job_id,))
    return True


def write_notepad(conn: Connection, job_id: str, text: str | None) -> bool:
    """Replace what a job has noted for its next runs; False if there is no such job."""
    conn.execute("UPDATE jobs SET notepad = ? WHERE id = ?", (encode_text(text, "notepad"), job_id))
    return conn.changes() > 0


# Occurrences


def next_job_at(conn: Connection) -> float | None:
    """When the next job is to begin, in seconds since 1970."""
    moment: float | None = value(
        conn,
        f"SELECT next_at FROM jobs WHERE state = '{ACTIVE}' AND next_at IS NOT NULL"
        " ORDER BY next_at LIMIT 1",
    )
    return moment


def list_due_jobs(conn: Connection, until: float, limit: int = 100) -> list[dict[str, Any]]:
    """The jobs that are to begin until a moment, oldest first."""
    due = rows(
        conn,
        f"SELECT * FROM jobs WHERE state = '{ACTIVE}' AND next_at <= ? ORDER BY next_at, id"
        " LIMIT ?",
        (until, limit),
    )
    return [_decoded(job) for job in due]


def claim_job(
    conn: Connection,
    job_id: str,
    version: int,
    due: float,
    claim: Claim,
    *,
    content: str,
    session_id: str,
    overlaps: bool = False,
) -> list[int] | None:
    """Move a job on from an occurrence, and accept what is to be run; None if another was first.

    Returns the occurrences that are to be run: none if an earlier one has not ended, unless the job
    `overlaps`, that is, lets them queue. What is left out is noted.
    """
    state = DONE if claim.next_due is None else ACTIVE
    conn.execute(
        "UPDATE jobs SET next_due = ?, next_at = ?, state = ?, updated_at = ?"
        f" WHERE id = ? AND version = ? AND state = '{ACTIVE}' AND next_due = ?",
        (claim.next_due, claim.next_at, state, conn.now(), job_id, version, float(due)),
    )
    if not conn.changes():
        return None
    for skip in claim.skips:
        _note_skip(conn, job_id, skip)
    accepted = [
        moment
        for moment in claim.due
        if _accept(conn, job_id, moment, content, session_id, overlaps)
    ]
    if accepted:
        conn.execute("UPDATE jobs SET runs = runs + ? WHERE id = ?", (len(accepted), job_id))
    for notice in claim.notices:
        add_delivery(conn, notice.name, notice.text, **notice.to)
    return accepted


def start_run(
    conn: Connection,
    job_id: str,
    due: int,
    content: str,
    session_id: str,
    *,
    owned: bool = True,
) -> bool:
    """Accept an occurrence that somebody wants now; False if one of that second is there.

    Unless it is `owned`, another process is to run it.
    """
    if get_job(conn, job_id) is None:
        return False
    is_new = _accept(conn, job_id, due, content, session_id, overlaps=True)
    if is_new and not owned:
        conn.execute("UPDATE inbox SET owner = NULL WHERE id = ?", (occurrence_id(job_id, due),))
        conn.execute(
            "UPDATE job_runs SET owner = NULL WHERE job_id = ? AND due_at = ?", (job_id, float(due))
        )
    return is_new


def _accept(
    conn: Connection, job_id: str, due: int, content: str, session_id: str, overlaps: bool
) -> bool:
    if not overlaps and _open_before(conn, job_id, due):
        _note_skip(conn, job_id, Skip(due, due, 1, "the run before it had not ended"))
        return False
    conn.execute(
        "INSERT INTO job_runs (id, job_id, due_at, until, state, skipped, session_id, owner)"
        " VALUES (?1, ?2, ?3, ?3, 'waiting', 0, ?4, ?5) ON CONFLICT DO NOTHING",
        (occurrence_id(job_id, due), job_id, float(due), session_id, this_process()),
    )
    if not conn.changes():
        return False
    name = occurrence_id(job_id, due)
    owner: str | None = value(conn, "SELECT user_id FROM jobs WHERE id = ?", (job_id,))
    return accept_message(
        conn,
        name,
        session_id,
        content,
        source=SOURCE,
        session_key=f"{SOURCE}:{job_id}",
        user_id=owner,
        platform_message_id=name,
        facts={"job": {"id": job_id, "due": int(due)}},
    )


def _open_before(conn: Connection, job_id: str, due: float) -> bool:
    return bool(
        value(
            conn,
            f"SELECT EXISTS (SELECT 1 FROM job_runs WHERE state IN {OPEN_RUN} AND job_id = ?"
            " AND due_at < ?)",
            (job_id, float(due)),
        )
    )


def _note_skip(conn: Connection, job_id: str, skip: Skip) -> None:
    conn.execute(
        "INSERT INTO job_runs (id, job_id, due_at, until, state, skipped, error, ended_at)"
        " VALUES (?, ?, ?, ?, 'skipped', ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            occurrence_id(job_id, skip.first),
            job_id,
            float(skip.first),
            float(skip.last),
            skip.times,
            skip.why,
            conn.now(),
        ),
    )


def begin_run(conn: Connection, job_id: str, due: float, session_id: str) -> bool:
    """Note that an occurrence is being run, in a session; False if it is not to be: it is settled,
    or an earlier one of its job has not ended."""
    if _open_before(conn, job_id, due):
        return False
    conn.execute(
        "UPDATE job_runs SET state = 'running', session_id = ?, owner = ?,"
        " started_at = COALESCE(started_at, ?)"
        f" WHERE job_id = ? AND due_at = ? AND state IN {OPEN_RUN}",
        (session_id, this_process(), conn.now(), job_id, float(due)),
    )
    return conn.changes() > 0


class Settled(NamedTuple):
    """How a run has ended."""

    state: str
    error: str | None = None
    answer: str | None = None
    session_id: str | None = None
    result: str | None = None
    """What a monitor has seen, to compare the next with."""


def settle_run(
    conn: Connection,
    job_id: str,
    due: float,
    settled: Settled,
    notice: Notice | None = None,
    *,
    ends_session: bool = False,
) -> bool:
    """Settle a run; False if it was before. With `ends_session` the session it was in is over.

    `notice` is for a failure: it is sent for the first in a row, then for the second, the fourth,
    the eighth: with growing distance.
    """
    if settled.state not in SETTLED:
        raise ValueError(f"a run cannot become {settled.state!r}")
    now = conn.now()
    conn.execute(
        "UPDATE job_runs SET state = ?, error = ?, answer = ?, ended_at = ?,"
        " session_id = COALESCE(?, session_id), started_at = COALESCE(started_at, ?)"
        f" WHERE job_id = ? AND due_at = ? AND state IN {OPEN_RUN}",
        (
            settled.state,
            encode_text(settled.error, "error"),
            encode_text(settled.answer, "answer"),
            now,
            settled.session_id,
            now,
            job_id,
            float(due),
        ),
    )
    if not conn.changes():
        return False
    _note_cost(conn, job_id, due)
    if ends_session:
        session_id: str | None = value(
            conn,
            "SELECT session_id FROM job_runs WHERE job_id = ? AND due_at = ?",
            (job_id, float(due)),
        )
        if session_id is not None:
            end_session(conn, get_compression_tip(conn, session_id), ENDED)
    has_failed = settled.state == "failed"
    conn.execute(
        "UPDATE jobs SET failures = CASE WHEN ?1 = 1 THEN failures + 1 ELSE 0 END,"
        " last_result = COALESCE(?2, last_result) WHERE id = ?3",
        (int(has_failed), encode_text(settled.result, "result"), job_id),
    )
    if has_failed:
        _note_failed(conn, job_id, due, settled)
    if notice is not None and has_failed:
        failures = value(conn, "SELECT failures FROM jobs WHERE id = ?", (job_id,)) or 1
        if failures & (failures - 1) == 0:
            again = f" It has failed {failures} times in a row." if failures > 1 else ""
            add_delivery(conn, notice.name, notice.text + again, **notice.to)
    conn.execute(
        "DELETE FROM job_runs WHERE job_id = ?1 AND due_at < (SELECT due_at FROM job_runs"
        " WHERE job_id = ?1 ORDER BY due_at DESC LIMIT 1 OFFSET ?2)"
        f" AND state NOT IN {OPEN_RUN}",
        (job_id, KEPT_RUNS),
    )
    return True


def _note_failed(conn: Connection, job_id: str, due: float, settled: Settled) -> None:
    """The event of a failed run."""
    job = get_job(conn, job_id)
    if job is not None:
        facts = {
            "job_id": job_id, "name": job["name"], "due_at": float(due), "error": settled.error,
            "session_id": settled.session_id, "failures": job["failures"],
        }  # fmt: skip
        enqueue_event(conn, JOB_FAILED, occurrence_id(job_id, due), job["user_id"], facts)


def _note_cost(conn: Connection, job_id: str, due: float) -> None:
    """Add up what the model calls of a run have cost, with the run."""
    conn.execute(
        "UPDATE job_runs SET (cost_usd, tokens) = (SELECT SUM(COALESCE(c.cost_usd,"
        " c.assumed_cost_usd)), SUM(c.input_tokens + c.output_tokens) FROM model_calls c"
        " WHERE c.job = job_runs.job_id AND c.made_at >= job_runs.started_at)"
        " WHERE job_id = ? AND due_at = ?",
        (job_id, float(due)),
    )


def list_open_runs(conn: Connection) -> list[dict[str, Any]]:
    """The runs that are not settled, oldest first, each with the `inbox_state` and `inbox_owner` of
    its row in the inbox."""
    return rows(
        conn,
        "SELECT r.*, i.state AS inbox_state, i.owner AS inbox_owner, i.content"
        " FROM job_runs r LEFT JOIN inbox i ON i.id = r.id"
        f" WHERE r.state IN {OPEN_RUN} ORDER BY r.due_at, r.job_id",
    )


def list_job_runs(
    conn: Connection, job_id: str, limit: int = 20, states: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """What became of a job's occurrences, newest first."""
    wanted = list(states)
    condition = f" AND state IN ({', '.join('?' * len(wanted))})" if wanted else ""
    return rows(
        conn,
        f"SELECT * FROM job_runs WHERE job_id = ?{condition} ORDER BY due_at DESC LIMIT ?",
        (job_id, *wanted, at_most(limit)),
    )


def _decoded(job: dict[str, Any]) -> dict[str, Any]:
    job["settings"] = decode_json(job["settings"]) or {}
    return job
