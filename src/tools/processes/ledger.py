"""`processes.json`: what this Hermes has started and not seen the end of.

A run is written down before its process exists and crossed out when the process has ended, so
whatever kills Hermes in between, its next start finds what was left and ends it. Nothing is ended
whose owner still lives, and nothing because of a process id alone.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from hermes_base.files import locked, write_private
from hermes_base.process import has_ended

from ..base import ToolError
from ..terminal.backends import make_backend
from ..trees import remove_tree
from .identity import Target, machine, members, start_time, stop

log = logging.getLogger(__name__)

FILE = "processes.json"
RUN_FOLDER = "tool-runs"
"""Holds a private folder for each run that is going on."""
_GRACE_SECONDS = 0.5
_FOREIGN_SECONDS = 86_400
"""How long a record of another machine or container is kept, whose process cannot be seen here."""

_writing = threading.Lock()
_homes: set[Path] = set()


@cache
def _here() -> list[str]:
    return list(machine())


@dataclass(frozen=True, slots=True)
class Record:
    """One run."""

    marker: str
    session: str
    kind: str
    """foreground, background, left (it ended, but something it started did not) or container."""
    where: dict[str, Any] = field(default_factory=dict)
    """The settings of the backend, if the command runs somewhere else."""
    pid: int | None = None
    """The leader of the process group; also the group's id."""
    start: int | None = None
    machine: list[str] = field(default_factory=_here)
    """Where the ids above mean something."""
    owner_pid: int = field(default_factory=os.getpid)
    owner_start: int | None = field(default_factory=lambda: start_time(os.getpid()))
    at: float = field(default_factory=time.time)
    tells_as: str = ""
    """Name of the notification of its end to its conversation; empty for none."""
    command: str = ""
    """The command, for that notification."""
    ended: str = ""
    """How it ended, if that is known."""

    def target(self) -> Target:
        """The processes to end."""
        return Target(self.marker, self.pid, self.start, group_only=self.group_only())

    def group_only(self) -> bool:
        """Whether what is outside the process group is no longer, or not at all, ours to end."""
        return self.kind == "left" or bool(self.where)

    def is_mine(self) -> bool:
        """Whether this very process wrote it."""
        return (self.owner_pid, self.machine) == (os.getpid(), _here()) and (
            self.owner_start == start_time(self.owner_pid)
        )

    def is_orphan(self) -> bool:
        """Whether its owner has surely ended."""
        if _here()[1] == "":
            return False  # where processes cannot be looked at, none can be ended either
        return has_ended(self.machine, self.owner_pid, self.owner_start)


class Ledger:
    """The records in one Hermes home; several processes may use it at once."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        if home not in _homes:
            _homes.add(home)
            atexit.register(stop_mine, home)

    def add(self, record: Record) -> None:
        """Write a run down; call it before the process is started."""
        with self._changing() as records:
            for marker in [m for m, record in records.items() if record.kind == "left"]:
                if records[marker].is_mine() and not members([records[marker].target()]):
                    del records[marker]
            records[record.marker] = record

    def update(self, marker: str, **changes: Any) -> None:
        """Change what is known of a run."""
        with self._changing() as records:
            if marker in records:
                records[marker] = replace(records[marker], **changes)

    def remove(self, marker: str) -> None:
        """Cross a run out."""
        with self._changing() as records:
            records.pop(marker, None)

    def records(self) -> list[Record]:
        """Everything written down."""
        with self._locked():
            return list(self._read().values())

    def stop(
        self,
        chosen: Callable[[Record], bool],
        grace: float = _GRACE_SECONDS,
        tell: Callable[[Record], None] | None = None,
    ) -> list[Record]:
        """End the chosen runs with all they started, and remove their records.

        `tell` is called first for those whose conversation is to be notified. Without `tell` these
        records are kept, for a caller that can notify.
        """
        doomed = [record for record in self.records() if chosen(record)]
        survivors = stop([record.target() for record in doomed if record.machine == _here()], grace)
        if survivors:
            log.warning("These processes could not be ended: %s", survivors)
        ended = [record for record in doomed if self._ended_elsewhere(record)]
        for record in ended:
            if tell is not None and record.tells_as:
                tell(record)
        with self._changing() as records:
            for record in ended:
                if tell is not None or not record.tells_as:
                    records.pop(record.marker, None)
                remove_tree(self._path.parent / RUN_FOLDER / record.marker, reopen=True)
        return ended

    def forget_strangers(self) -> None:
        """Remove old records of other machines."""
        oldest = time.time() - _FOREIGN_SECONDS
        with self._changing() as records:
            for record in list(records.values()):
                if (record.machine != _here() or not record.machine[1]) and record.at < oldest:
                    del records[record.marker]

    def _ended_elsewhere(self, record: Record) -> bool:
        if not record.where:
            return True
        try:
            make_backend(record.where, self._path.parent).abandon(record.marker, record.kind)
        except (OSError, ToolError) as error:
            # Kept in the ledger for a while: the host may be reachable at the next start.
            log.warning("A run on %s could not be ended: %s", record.where.get("backend"), error)
            return record.at < time.time() - _FOREIGN_SECONDS
        return True

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Record]]:
        with self._locked():
            records = self._read()
            before = dict(records)
            yield records
            if records != before:
                self._write(records)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _writing, locked(Path(f"{self._path}.lock")):
            yield

    def _read(self) -> dict[str, Record]:
        try:
            entries = json.loads(self._path.read_bytes())["processes"]
            known = {field.name for field in fields(Record)}
            records = [
                Record(**{name: value for name, value in entry.items() if name in known})
                for entry in entries
            ]
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            kept = self._path.with_suffix(".json.unreadable")
            self._path.replace(kept)
            log.error("%s cannot be read (%s); it is kept as %s", self._path, error, kept)
            return {}
        return {record.marker: record for record in records}

    def _write(self, records: dict[str, Record]) -> None:
        # A power cut that could lose the file ends the processes in it as well.
        processes = [asdict(record) for record in records.values()]
        text = json.dumps({"version": 1, "processes": processes})
        write_private(self._path, text, durable=False)


def reap_orphans(home: Path, tell: Callable[[Record], None] | None = None) -> int:
    """End orphaned runs, those of a Hermes that was killed; call it at the start. Returns how many
    runs that were. Runs of a Hermes that still lives are not touched. `tell` as in `Ledger.stop`.
    """
    if not (home / FILE).exists():
        return 0
    ledger = Ledger(home)
    reaped = ledger.stop(Record.is_orphan, tell=tell)
    ledger.forget_strangers()
    if reaped:
        log.warning("Ended %d orphaned runs of an earlier Hermes.", len(reaped))
    return len(reaped)


def stop_mine(home: Path) -> None:
    """End everything that this process has started and that is still running."""
    if (home / FILE).exists():
        Ledger(home).stop(Record.is_mine)
