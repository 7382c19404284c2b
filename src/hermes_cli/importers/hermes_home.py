"""A Hermes Agent home: its conversations, memories, skills and configuration.

The source is only read. Its store is copied first, and what needs upgrading is upgraded in the
copy. What is here already is never replaced: it is left as it is and said.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_cli.command_run import UserError

if TYPE_CHECKING:
    from hermes_state import SessionDB

FILES = ("config.yaml", ".env", "SOUL.md", "shell-hooks-allowlist.json")
BATCH_MESSAGES = 5000

Progress = Callable[[int, int], None]


@dataclass
class Report:
    """What came of an import."""

    sessions: int = 0
    messages: int = 0
    skipped: int = 0
    """Sessions that were here already."""
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What did not come along, and why."""


def import_home(source: Path, home: Path, progress: Progress) -> Report:
    """Bring everything of another home into `home`; raises UserError if it is none."""
    if source.resolve() == home.resolve():
        raise UserError(f"{source} is the Hermes home in use; there is nothing to bring in.")
    if not any((source / name).exists() for name in ("state.db", "config.yaml", "memories")):
        raise UserError(f"{source} is no Hermes home: there is no state.db in it.")
    report = Report()
    if (source / "state.db").is_file():
        _import_store(source, home, progress, report)
    _import_memories(source, home, report)
    _import_skills(source, home, report)
    _import_files(source, home, report)
    return report


def _import_store(source: Path, home: Path, progress: Progress, report: Report) -> None:
    from hermes_state import SessionDB
    from hermes_state.backup import copy_store

    with tempfile.TemporaryDirectory(prefix=".import-", dir=home) as scratch:
        copy = Path(scratch) / "state.db"
        held = copy_store(source / "state.db", copy)
        with SessionDB(copy) as theirs:  # upgrades it
            for rule, count in theirs.mend_store().items():
                report.done.append(f"put right on the way: {rule} ({count})")
        if not (home / "state.db").exists():
            copy.rename(home / "state.db")
            report.sessions, report.messages = held.sessions, held.messages
            report.done.append(f"the whole store: {held.sessions} sessions")
            return
        with SessionDB(copy) as theirs, SessionDB(home / "state.db") as ours:
            total = theirs.session_count(include_archived=True)
            seen = 0
            for batch in _batches(theirs):
                result = ours.import_sessions(batch, unlimited=True)
                seen += len(batch)
                progress(seen, total)
                if not result["ok"]:
                    report.left += [
                        f"session {batch[problem['index'] or 0]['id']}: {problem['error']}"
                        for problem in result["errors"]
                    ]
                    continue
                report.sessions += result["imported"]
                report.skipped += result["skipped"]
                brought = set(result["imported_ids"])
                report.messages += sum(len(s["messages"]) for s in batch if s["id"] in brought)
            _import_routes(theirs, ours, report)
    report.done.append(f"{report.sessions} sessions with {report.messages} messages")
    if report.sessions:
        report.left.append("what each model was used for in them; their totals came along")


def _batches(theirs: SessionDB) -> Iterator[list[dict[str, Any]]]:
    """Sessions in batches; what hangs together stays together, so that its links come along."""
    done: set[str] = set()
    batch: list[dict[str, Any]] = []
    size = 0
    rows = theirs.list_sessions_rich(limit=-1, include_children=True, include_archived=True)
    for row in reversed(rows):
        if row["id"] in done:
            continue
        for member in theirs.get_family(row["id"]) or [row]:
            if member["id"] in done:
                continue
            done.add(member["id"])
            session = theirs.export_session(member["id"], redact=False)
            if session is not None:
                batch.append(session)
                size += len(session["messages"])
        if size >= BATCH_MESSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _import_routes(theirs: SessionDB, ours: SessionDB, report: Report) -> None:
    """Which chat is in which conversation, for chats that are not known here."""
    known = ours.load_gateway_routing_entries()
    fresh = {
        key: entry
        for key, entry in theirs.load_gateway_routing_entries().items()
        if key not in known
    }
    for key, entry in fresh.items():
        ours.save_gateway_routing_entry(key, entry)
    if fresh:
        report.done.append(f"{len(fresh)} chats with their conversations")


def _import_memories(source: Path, home: Path, report: Report) -> None:
    from hermes_cli.commands.memory import change_entries
    from tools.base import ToolError
    from tools.memory import FILES as MEMORIES
    from tools.memory import Operation, memory_path, read_entries

    for target, (name, _) in MEMORIES.items():
        brought = 0
        here = read_entries(memory_path(home, target))
        for entry in read_entries(memory_path(source, target)):
            if entry in here:
                continue
            try:
                change_entries(home, target, [Operation(action="add", content=entry)])
                brought += 1
            except ToolError as error:
                report.left.append(f"{name}: “{entry[:60]}”: {str(error).splitlines()[0]}")
        if brought:
            report.done.append(f"{brought} entries of {name}")


def _import_skills(source: Path, home: Path, report: Report) -> None:
    brought = 0
    top = source / "skills"
    for path in sorted(top.rglob("SKILL.md")) if top.is_dir() else ():
        target = home / "skills" / path.parent.relative_to(top)
        if target.exists():
            if (target / "SKILL.md").exists():
                report.left.append(f"skill {path.parent.name}: there is one of that name here")
            continue
        shutil.copytree(path.parent, target, symlinks=True)
        brought += 1
    if brought:
        report.done.append(f"{brought} skills")


def _import_files(source: Path, home: Path, report: Report) -> None:
    from tools.memory import write_private

    for name in FILES:
        theirs = source / name
        if not theirs.is_file():
            continue
        if (home / name).exists():
            if (home / name).read_bytes() != theirs.read_bytes():
                report.left.append(f"{name}: yours stays as it is; compare it with {theirs}")
            continue
        write_private(home / name, theirs.read_text(encoding="utf-8", errors="replace"))
        report.done.append(name)
