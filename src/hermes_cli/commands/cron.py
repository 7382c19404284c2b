"""`hermes cron`: work that begins by itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from agent.jobs import actions
from agent.jobs.actions import Jobs
from agent.jobs.job import (
    APPROVALS,
    KINDS,
    MISSED,
    MODES,
    OVERLAPS,
    SPENDING,
    Job,
    JobSettings,
)
from agent.jobs.schedule import ScheduleError, show
from agent.jobs.targets import parse_target
from hermes_cli.command_run import UserError
from hermes_state import JobError

from .home import store
from .output import confirm, print_json, print_table, when

EXAMPLES = """\
hermes cron add "daily 08:30" "What is in the news?" --deliver telegram
hermes cron add "tomorrow at nine" "Call Ada" --kind message --deliver home
hermes cron add "every 20m" "Tell me what changed" --url https://example.org --kind monitor
hermes cron add "0 3 * * *" --kind script --script "~/bin/tidy"
hermes cron list                     what there is, and when it is due
hermes cron history NAME             what became of it
hermes cron run-due                  run what is due, and exit; for a systemd timer
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "cron", help="work that begins by itself: jobs, reminders, monitors", examples=EXAMPLES
    )
    parser.set_defaults(act=list_all, json=False)
    actions_ = parser.add_subparsers(dest="action", metavar="action")
    action = actions_.add_parser("list", help="the jobs, those that are due next first")
    action.add_argument("--json", action="store_true", help="for scripts")
    action = actions_.add_parser("add", help="keep a new job")
    action.add_argument("schedule", metavar="WHEN", help='"daily 08:30", "every 20m", "0 9 * * 1"')
    action.add_argument("prompt", metavar="PROMPT", nargs="?", default="", help="what to do")
    _add_settings(action)
    action.add_argument("--dry-run", action="store_true", help="only show when it would be due")
    action.add_argument("--yes", action="store_true", help="keep it without asking")
    action.set_defaults(act=add)
    action = actions_.add_parser("edit", help="change a job")
    action.add_argument("job", metavar="JOB")
    action.add_argument("--schedule", metavar="WHEN", default="")
    action.add_argument("--prompt", metavar="PROMPT", default=None)
    _add_settings(action)
    action.set_defaults(act=edit)
    for name, help_ in (
        ("pause", "let nothing of a job begin"),
        ("resume", "let a job go on from now"),
        ("run", "have a job run now"),
        ("remove", "delete a job"),
    ):
        action = actions_.add_parser(name, help=help_)
        action.add_argument("job", metavar="JOB", help="its name, its id, or the beginning of that")
        action.set_defaults(act=change)
    action = actions_.add_parser("history", help="what became of a job's occurrences")
    action.add_argument("job", metavar="JOB")
    action.add_argument("--limit", type=int, default=20)
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=history)
    action = actions_.add_parser("run-due", help="run what is due, and exit")
    action.set_defaults(act=run_due)
    action = actions_.add_parser("import", help="take over the jobs of Hermes Agent")
    action.add_argument("file", metavar="FILE", nargs="?", help="cron/jobs.json of its home")
    action.set_defaults(act=import_jobs)


def _add_settings(parser: Any) -> None:
    add = parser.add_argument
    add("--name", default="", help="what it is called")
    add("--kind", choices=KINDS, help="ask a model, say a text, run a script, or watch something")
    add("--script", metavar="COMMAND", help="what a script or a monitor runs")
    add("--url", help="the page that a monitor looks at")
    add("--deliver", metavar="TO", help="none, home, telegram, or telegram:CHAT_ID")
    add("--where", choices=("fresh", "own"), help="a conversation for each run, or one that stays")
    add("--session", metavar="ID", help="run in this conversation")
    add("--model", help="ask this model")
    add("--toolsets", metavar="NAMES", help="only these tools, separated by commas")
    add("--mode", choices=MODES, help="what it may do")
    add("--approvals", choices=APPROVALS, help="what needs approval: ask in the chat, or refuse")
    add("--missed", choices=MISSED, help="what was due while nothing ran")
    add("--missed-most", type=int, metavar="N", help="of those, run so many with --missed all")
    add("--overlap", choices=OVERLAPS, help="what is due while the last run goes on")
    add("--jitter", type=int, metavar="SECONDS", help="begin up to so much later")
    add("--timezone", metavar="ZONE", default="", help="such as Europe/Berlin")
    add("--until", metavar="DATE", help="not after this day")
    add("--runs", type=int, metavar="N", help="so many times at most")
    add("--usd-per-day", type=float, metavar="DOLLARS", help="what it may spend in a day")
    add("--usd-per-month", type=float, metavar="DOLLARS", help="what it may spend in a month")
    add("--tokens-per-day", type=float, metavar="N", help="how many tokens it may use in a day")
    add("--tokens-per-month", type=float, metavar="N", help="and in a month")
    add("--notepad", action="store_true", default=None, help="let it keep notes for its next runs")


def _changes(args: argparse.Namespace, jobs: Jobs) -> dict[str, Any]:
    """The settings that were given."""
    named = {
        "kind": args.kind, "script": args.script, "url": args.url, "where": args.where,
        "model": args.model, "mode": args.mode, "approvals": args.approvals,
        "missed": args.missed, "missed_most": args.missed_most, "overlap": args.overlap,
        "jitter": args.jitter,
        "max_runs": args.runs, "notepad": args.notepad, "prompt": args.prompt,
        **{name: getattr(args, name) for name in SPENDING},
    }  # fmt: skip
    changes = {name: value for name, value in named.items() if value is not None}
    if args.session:
        from .home import find_tip

        changes |= {"where": "session", "session_id": find_tip(jobs.db, args.session)}
    if args.toolsets is not None:
        changes["toolsets"] = tuple(filter(None, args.toolsets.split(",")))
    if args.deliver is not None:
        changes["deliver"], changes["to"] = parse_target(jobs.config, jobs.db, args.deliver)
    if args.until is not None:
        changes["ends_at"] = _end_of(args.until, args.timezone or jobs.zone)
    return changes


def _end_of(day: str, zone: str) -> int:
    from datetime import datetime, time

    from agent.jobs.schedule import zone_named

    try:
        given = datetime.fromisoformat(day)
    except ValueError as error:
        raise UserError(f"{day!r} is no day; write 2026-12-24.") from error
    if len(day) == 10:
        given = datetime.combine(given.date(), time(23, 59, 59))
    return int(given.replace(tzinfo=zone_named(zone)).timestamp())


def _kind(changes: dict[str, Any]) -> dict[str, Any]:
    """The kind that a job is by what was given, where none is named."""
    if "kind" not in changes:
        if changes.get("url") or (changes.get("script") and changes.get("prompt")):
            changes["kind"] = "monitor"
        elif changes.get("script"):
            changes["kind"] = "script"
    return changes


def add(args: argparse.Namespace) -> int:
    """Keep a new job, once its next times were shown; at a terminal it is asked first."""
    with _jobs() as jobs:
        settings = JobSettings(**_kind(_changes(args, jobs)))
        if args.dry_run or (sys.stdin.isatty() and not args.yes):
            for time in jobs.preview(args.schedule, args.timezone, settings.ends_at):
                print(f"  {time}")
            if args.dry_run:
                return 0
            confirm("Keep it?", args.yes)
        job = jobs.add(args.schedule, settings, name=args.name, zone=args.timezone)
        print(actions.confirmation(job, jobs.db.now()))
        _hint(jobs)
    return 0


def edit(args: argparse.Namespace) -> int:
    """Change a job, and show its next times."""
    with _jobs() as jobs:
        schedule = args.schedule
        if args.timezone:
            known = jobs.find(args.job)
            schedule = f"{schedule or known.settings.said} {args.timezone}"
        job = jobs.edit(args.job, _changes(args, jobs), schedule=schedule, name=args.name)
        print(actions.confirmation(job, jobs.db.now()))
    return 0


def list_all(args: argparse.Namespace) -> int:
    """Print the jobs."""
    with _jobs() as jobs:
        kept, now = jobs.all(), jobs.db.now()
        if args.json:
            print_json([actions.as_dict(job, now) for job in kept])
            return 0
        if not kept:
            print('There are no jobs. Make one: hermes cron add "daily 08:30" "What is new?"')
            return 0
        print_table(
            ("id", "name", "when", "next", "runs", "last"),
            [
                (job.id, job.name, job.settings.said or job.schedule, _next(job), job.runs,
                 _last(jobs, job))
                for job in kept
            ],
        )  # fmt: skip
        _hint(jobs)
    return 0


def _next(job: Job) -> str:
    if job.state != "active" or job.next_due is None:
        return job.state
    return show(job.next_due, job.timezone)


def _last(jobs: Jobs, job: Job) -> str:
    runs = jobs.db.list_job_runs(job.id, 1)
    if not runs:
        return "-"
    error = f": {runs[0]['error']}" if runs[0]["error"] else ""
    return f"{runs[0]['state']} {when(runs[0]['ended_at'] or runs[0]['due_at'])}{error}"


def _hint(jobs: Jobs) -> None:
    """Say if nothing runs jobs."""
    if is_run(jobs):
        return
    print(
        "\nNothing is running jobs now. Start the gateway (hermes gateway start), or have a timer"
        " call: hermes cron run-due"
    )


def is_run(jobs: Jobs) -> bool:
    """Whether a gateway runs what is due."""
    from gateway.status import running_pid

    if not jobs.config.jobs.enabled:
        return False
    if running_pid(jobs.config.home) is not None:
        return True
    return jobs.db.is_on_server and bool(jobs.db.list_replicas())


def change(args: argparse.Namespace) -> int:
    """Pause, resume, start or remove a job."""
    with _jobs() as jobs:
        if args.action == "run":
            job = jobs.start(args.job)
            print(f"{job.name} runs as soon as a process that runs jobs sees it.")
            _hint(jobs)
            return 0
        job = getattr(jobs, args.action)(args.job)
        said = {"pause": "is paused.", "resume": "goes on.", "remove": "is removed."}
        print(f"{job.name} {said[args.action]}")
        if args.action == "resume":
            print(actions.confirmation(job, jobs.db.now()))
    return 0


def history(args: argparse.Namespace) -> int:
    """Print what became of a job's occurrences."""
    with _jobs() as jobs:
        job = jobs.find(args.job)
        runs = jobs.history(job.id, args.limit)
    if args.json:
        print_json(runs)
        return 0
    if not runs:
        print(f"{job.name} was not due yet.")
        return 0
    print_table(
        ("due", "outcome", "took", "cost", "conversation", "what"),
        [
            (show(run["due_at"], job.timezone), _outcome(run), _took(run), _cost(run),
             run["session_id"] or "-", run["error"] or run["answer"] or "")
            for run in runs
        ],
    )  # fmt: skip
    return 0


def _outcome(run: dict[str, Any]) -> str:
    return f"skipped {run['skipped']}×" if run["skipped"] > 1 else str(run["state"])


def _took(run: dict[str, Any]) -> str:
    if run["started_at"] is None or run["ended_at"] is None:
        return "-"
    return f"{run['ended_at'] - run['started_at']:.1f} s"


def _cost(run: dict[str, Any]) -> str:
    return "-" if run["cost_usd"] is None else f"${run['cost_usd']:.4f}"


def run_due(args: argparse.Namespace) -> int:
    """Run what is due, see it to its end, and exit."""
    from hermes_cli.job_runner import run_due_jobs

    with _jobs() as jobs:
        count = run_due_jobs(jobs.config, jobs.db)
        waiting = len(jobs.db.list_deliveries())
    print(f"{count} run." if count != 1 else "1 run.")
    if waiting:
        wait = "1 text waits" if waiting == 1 else f"{waiting} texts wait"
        print(f"{wait} for a gateway to send them.")
    return 0


def import_jobs(args: argparse.Namespace) -> int:
    """Take over the jobs of Hermes Agent."""
    from agent.jobs.foreign import import_file

    with _jobs() as jobs:
        path = Path(args.file) if args.file else jobs.config.home / "cron" / "jobs.json"
        if not path.is_file():
            raise UserError(f"There is no {path}. Name the file: hermes cron import FILE")
        for text in import_file(jobs, path):
            print(text)
    return 0


class _jobs:
    """The operator's jobs; what cannot be done with them is a sentence."""

    def __enter__(self) -> Jobs:
        from agent.config import load_config

        self._store = store()
        return Jobs(load_config(), self._store.__enter__())

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._store.__exit__(kind, error, trace)
        if isinstance(error, JobError | ScheduleError):
            raise UserError(str(error)) from error
