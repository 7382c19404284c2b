"""Exporting and importing conversations as files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_base.files import replace_private
from hermes_cli.command_run import UserError
from hermes_state import EVERYONE

from .export_formats import html_page, markdown_page
from .home import find_session, store
from .output import print_json

if TYPE_CHECKING:
    from hermes_state import SessionDB

_BY_SUFFIX = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


def export_sessions(args: argparse.Namespace) -> int:
    """Write one conversation, or all, with secrets masked unless they are wanted."""
    if bool(args.session) == bool(args.all):
        raise UserError("Name a conversation, or say --all. See: hermes sessions list")
    if args.source and not args.all:
        raise UserError("--source goes with --all.")
    form = args.format or _BY_SUFFIX.get(Path(args.output or "").suffix.lower(), "jsonl")
    with store() as db:
        pieces = _written(db, args, form)
        if not args.output or args.output == "-":
            for piece in pieces:
                sys.stdout.write(piece)
            return 0
        count = _write(Path(args.output).expanduser(), pieces)
    print(f"Wrote {args.output} ({count} characters).", file=sys.stderr)
    return 0


def _written(db: SessionDB, args: argparse.Namespace, form: str) -> Iterator[str]:
    redact = not args.raw
    if form == "jsonl":
        for session in _sessions(db, args):
            exported = db.export_session(session, redact=redact)
            yield json.dumps(exported, ensure_ascii=False, default=str) + "\n"
        return
    conversations = (
        exported_conversation
        for conversation in _conversations(db, args)
        if (exported_conversation := db.export_session_lineage(conversation, redact=redact))
        is not None
    )
    yield from markdown_page(conversations) if form == "markdown" else html_page(conversations)


def _conversations(db: SessionDB, args: argparse.Namespace) -> list[str]:
    """The tips of what is to be exported, the oldest first."""
    if args.session:
        return [db.get_compression_tip(find_session(db, args.session))]
    tips = db.view(EVERYONE).list_sessions(source=args.source, limit=-1, include_archived=True)
    return [session["id"] for session in reversed(tips)]


def _sessions(db: SessionDB, args: argparse.Namespace) -> list[str]:
    """Every session of what is to be exported, the oldest first."""
    if args.session:
        return db.get_compression_lineage(find_session(db, args.session))
    sessions = db.view(EVERYONE).list_sessions(
        source=args.source, limit=-1, include_archived=True, include_children=True
    )
    return [session["id"] for session in reversed(sessions)]


def _write(path: Path, pieces: Iterator[str]) -> int:
    """Write a file for its owner alone, as a whole or not at all; returns how many characters."""
    if path.is_dir():
        raise UserError(f"{path} is a folder. Name a file in it.")
    count = 0
    with replace_private(path) as file:
        for piece in pieces:
            file.write(piece.encode(errors="backslashreplace"))
            count += len(piece)
    return count


def import_sessions(args: argparse.Namespace) -> int:
    """Bring in what an export wrote; what is here already is left as it is."""
    if args.file == "-":
        sessions = read_export(sys.stdin.read(), "standard input")
    else:
        path = Path(args.file).expanduser()
        try:
            sessions = read_export(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError as error:
            raise UserError(f"There is no file {path}.") from error
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error
    with store() as db:
        report = db.import_sessions(sessions, unlimited=True)
    if args.json:
        print_json(report)
    elif report["ok"]:
        print(
            f"Imported {report['imported']} sessions; {report['skipped']} were here already"
            + (f"; of {report['detached']} the parent is missing." if report["detached"] else ".")
        )
    for old, new in report["renamed"].items() if not args.json else ():
        print(f"The id {old!r} could be taken for a path; the session is {new} here.")
    for problem in report["errors"][:10] if not args.json else ():
        place = f"session {problem['index'] + 1}: " if problem["index"] is not None else ""
        print(f"hermes: {place}{problem['error']}", file=sys.stderr)
    if not report["ok"] and not args.json:
        print("hermes: nothing was imported.", file=sys.stderr)
    return 0 if report["ok"] else 1


def read_export(text: str, name: str) -> list[dict[str, Any]]:
    """The sessions in an export: JSON lines, a list, or a conversation with its segments."""
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    if given is None:
        given = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                given.append(json.loads(line))
            except ValueError as error:
                raise UserError(f"{name}, line {number}: not JSON ({error}).") from error
    entries = given if isinstance(given, list) else [given]
    sessions: list[dict[str, Any]] = []
    for session in entries:
        if not isinstance(session, dict) or "id" not in session:
            raise UserError(
                f"{name} holds no exported sessions. For conversations of other programs: "
                "hermes import"
            )
        sessions += session["segments"] if isinstance(session.get("segments"), list) else [session]
    if not sessions:
        raise UserError(f"{name} is empty.")
    return sessions
