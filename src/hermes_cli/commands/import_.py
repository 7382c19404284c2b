"""`hermes import`: bring conversations in from elsewhere; the source is never changed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from hermes_cli.command_run import UserError
from hermes_cli.importers import openclaw
from hermes_cli.importers.hermes_home import Part, import_home, planned

from .home import store
from .output import print_json, print_table, progress

EXAMPLES = """\
hermes import ~/old-hermes                   a Hermes Agent home: also memories, skills, keys, …
hermes import ~/.openclaw                    OpenClaw's: conversations, memory, skills, keys
hermes import chatgpt-export.zip             what ChatGPT sends when you ask for your data
hermes import claude/conversations.json      what Claude sends
hermes import chatgpt-export.zip --dry-run   only say what is in it
"""
BATCH = 200


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "import", help="bring conversations in from elsewhere", examples=EXAMPLES
    )
    parser.add_argument("path", metavar="PATH", help="a home, a zip, a folder or a JSON file")
    parser.add_argument("--dry-run", action="store_true", help="only say what is in it")
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> int:
    """Detect the format, import it, and report."""
    path = Path(args.path).expanduser()
    if not path.exists():
        raise UserError(f"There is no {path}.")
    if path.name == "state.db":
        path = path.parent
    if path.is_dir() and any((path / name).exists() for name in ("state.db", "config.yaml")):
        return _home(path, args)
    if path.is_dir() and openclaw.is_openclaw(path):
        return _openclaw(path, args)
    return _export(path, args)


def _home(path: Path, args: argparse.Namespace) -> int:
    home = hermes_home()
    if args.dry_run:
        from hermes_state.backup.copies import check_copy, has_sessions

        store_file = path / "state.db"
        held = (
            check_copy(store_file)._asdict()
            if has_sessions(store_file)
            else {"sessions": 0, "messages": 0}
        )
        parts = planned(path, home)
        if args.json:
            print_json({"kind": "hermes", **held, "parts": [part._asdict() for part in parts]})
        else:
            print(f"A Hermes home: {held['sessions']} sessions, {held['messages']} messages.")
            print_table(("what", "would be", "why"), parts)
        return 0
    report = import_home(path, home, progress("Bringing in"))
    if args.json:
        facts = asdict(report) | {"parts": [part._asdict() for part in report.parts]}
        print_json({"kind": "hermes", **facts})
        return 0
    rows = sorted(report.rows(), key=_by_outcome)
    print_table(("what", "", "why, or what to do"), rows)
    left = sum(row.outcome == "left behind" for row in rows)
    print(f"{left} things were left behind; {path} is as it was." if left else "All came along.")
    return 0


def _openclaw(path: Path, args: argparse.Namespace) -> int:
    """Its conversations, and then what lies beside them, one by one."""
    home, left_out = hermes_home(), Counter[str]()
    brought = list(openclaw.sessions(path, left_out))
    facts: dict[str, Any] = {
        "kind": "openclaw",
        "conversations": len(brought),
        "messages": sum(len(session["messages"]) for session in brought),
        "left_out": {what: count for what, count in left_out.items() if count},
    }
    if not args.dry_run:
        facts |= _bring_in(brought)
    parts: list[Part] = []
    for step in list(openclaw.steps(path, home)):
        if not args.dry_run:
            step.carry_out()
        parts.append(Part(step.what, step.outcome, step.note))
    if args.json:
        print_json(facts | {"parts": [part._asdict() for part in parts]})
        return 1 if facts.get("errors") else 0
    print(
        f"A home of OpenClaw: {facts['conversations']} conversations, {facts['messages']} messages."
    )
    code = _say_what_came(facts)
    rows: list[Part] = sorted(parts, key=_by_outcome)
    print_table(("what", "would be" if args.dry_run else "", "why, or what to do"), rows)
    return code


def _by_outcome(part: Part) -> int:
    return ("brought", "here already", "left behind").index(part.outcome)


def _export(path: Path, args: argparse.Namespace) -> int:
    from hermes_cli.importers.exports import read_export

    export = read_export(path)
    messages = sum(len(session["messages"]) for session in export.sessions)
    facts: dict[str, Any] = {
        "kind": export.kind,
        "conversations": len(export.sessions),
        "messages": messages,
        "left_out": export.left_out,
    }
    if not args.dry_run:
        facts |= _bring_in(export.sessions)
    if args.json:
        print_json(facts)
        return 1 if facts.get("errors") else 0
    name = {"chatgpt": "ChatGPT", "claude": "Claude"}[export.kind]
    print(f"An export of {name}: {len(export.sessions)} conversations, {messages} messages.")
    return _say_what_came(facts)


def _say_what_came(facts: dict[str, Any]) -> int:
    for what, count in facts["left_out"].items():
        print(f"Left out: {count} {what}")
    if "imported" not in facts:
        return 0  # only looked at
    print(f"Brought in: {facts['imported']} conversations; {facts['skipped']} were here already.")
    for problem in facts["errors"]:
        print(f"hermes: {problem}", file=sys.stderr)
    return 1 if facts["errors"] else 0


def _bring_in(sessions: list[dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = {"imported": 0, "skipped": 0, "errors": []}
    show = progress("Bringing in")
    with store() as db:
        for start in range(0, len(sessions), BATCH):
            batch = sessions[start : start + BATCH]
            report = db.import_sessions(batch, unlimited=True)
            if not report["ok"]:
                # One that cannot be stored must not keep the others out.
                bad = {problem["index"]: problem["error"] for problem in report["errors"]}
                facts["errors"] += [f"{batch[index]['id']}: {bad[index]}" for index in sorted(bad)]
                fit = [session for index, session in enumerate(batch) if index not in bad]
                report = db.import_sessions(fit, unlimited=True)
            facts["imported"] += report["imported"]
            facts["skipped"] += report["skipped"]
            show(start + len(batch), len(sessions))
    return facts
