"""A Hermes Agent home: its conversations, and everything beside them that means something here.

The source is only read. Its store is copied first, and what needs upgrading is upgraded in the
copy. What is here already is never replaced: it is kept, and the report says so. A second import
brings only what the first had not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.config.store import VARIABLE
from hermes_cli.command_run import UserError

from .home_parts import remove_partial, steps

if TYPE_CHECKING:
    from hermes_state import SessionDB

BATCH_MESSAGES = 5000

Progress = Callable[[int, int], None]


class Part(NamedTuple):
    """One thing of the other home, and what became of it."""

    what: str
    outcome: str
    note: str


@dataclass
class Report:
    """What came of an import."""

    sessions: int = 0
    messages: int = 0
    skipped: int = 0
    """Sessions that were here already."""
    done: list[str] = field(default_factory=list)
    """What came along of the store."""
    left: list[str] = field(default_factory=list)
    """What of the store did not, and why."""
    parts: list[Part] = field(default_factory=list)
    """Everything else, one by one."""

    def rows(self) -> list[Part]:
        """The store and everything else, as one table."""
        rows = [Part(line, "brought", "") for line in self.done]
        if self.skipped:
            rows.append(Part(f"{self.skipped} sessions", "here already", ""))
        rows += [Part(*_split(line)) for line in self.left]
        return [*rows, *self.parts]


def import_home(
    source: Path, home: Path, progress: Progress, environ: Mapping[str, str] = os.environ
) -> Report:
    """Bring everything of another home into `home`; raises UserError if it is none."""
    if source.resolve() == home.resolve():
        raise UserError(f"{source} is the Hermes home in use; there is nothing to bring in.")
    if not _is_home(source):
        raise UserError(f"{source} is no Hermes home: there is no state.db in it.")
    from hermes_state.backup.copies import has_sessions

    report = Report()
    remove_partial(home)
    if has_sessions(source / "state.db"):
        _import_store(source, home, progress, report, environ)
    for step in list(steps(source, home)):
        step.carry_out()
        report.parts.append(Part(step.what, step.outcome, step.note))
    for profile in _profiles(source):
        place = home / "profiles" / profile.name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It has a store of its own, also while HERMES_STORE names that of the home in use.
        own = {name: value for name, value in environ.items() if name != VARIABLE}
        inner = import_home(profile, place, progress, own)
        note = f"a home of its own: HERMES_HOME={place} hermes"
        report.parts.append(Part(f"profile {profile.name}", "brought", note))
        report.parts += [
            Part(f"profile {profile.name}: {part.what}", part.outcome, part.note)
            for part in inner.rows()
        ]
    return report


def planned(source: Path, home: Path) -> list[Part]:
    """What an import would do with everything but the store; nothing is changed."""
    parts = [Part(step.what, step.outcome, step.note) for step in steps(source, home)]
    for profile in _profiles(source):
        inner = planned(profile, home / "profiles" / profile.name)
        parts.append(Part(f"profile {profile.name}", "brought", "a home of its own"))
        parts += [Part(f"profile {profile.name}: {part.what}", *part[1:]) for part in inner]
    return parts


def _profiles(source: Path) -> list[Path]:
    top = source / "profiles"
    entries = sorted(top.iterdir()) if top.is_dir() else []
    return [path for path in entries if path.is_dir() and _is_home(path)]


def _is_home(path: Path) -> bool:
    return any((path / name).exists() for name in ("state.db", "config.yaml", "memories"))


def _split(line: str) -> tuple[str, str, str]:
    what, _, why = line.partition(": ")
    return what, "left behind", why


def _import_store(
    source: Path, home: Path, progress: Progress, report: Report, environ: Mapping[str, str]
) -> None:
    from agent.store import find_store, open_place
    from hermes_state import SessionDB
    from hermes_state.backup.copies import copy_store

    place = find_store(home, environ)

    with tempfile.TemporaryDirectory(prefix=".import-", dir=home) as scratch:
        copy = Path(scratch) / "state.db"
        held = copy_store(source / "state.db", copy)
        with SessionDB(copy) as theirs:  # upgrades it
            for rule, count in theirs.fix_store().items():
                report.done.append(f"fixed on the way: {rule} ({count})")
        if place.server is None and not place.path.exists():
            copy.rename(place.path)
            report.sessions, report.messages = held.sessions, held.messages
            report.done.append(f"the whole store: {held.sessions} sessions")
            return
        with SessionDB(copy) as theirs, open_place(place) as ours:
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
                report.done += [
                    f"a session whose id {old!r} could be taken for a path; it is {new} here"
                    for old, new in result["renamed"].items()
                ]
                report.sessions += result["imported"]
                report.skipped += result["skipped"]
                brought = set(result["imported_ids"])
                names = result["renamed"]
                report.messages += sum(
                    len(s["messages"]) for s in batch if names.get(s["id"], s["id"]) in brought
                )
            _import_routes(theirs, ours, report)
    if report.sessions or not report.skipped:
        report.done.append(f"{report.sessions} sessions with {report.messages} messages")
    if report.sessions:
        report.left.append("what each model was used for in them: their totals came along")


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
