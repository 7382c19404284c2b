"""What files were before a turn changed them, kept so that the turn can be rolled back.

One folder per conversation under `<home>/checkpoints`: old contents as files named by their digest,
and `index.jsonl` with one line per changed file, appended before the file is touched. A line that a
crash truncated is skipped. Everything is private to the user.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.files import sync_folder, write_private

from ..base import ToolError
from ..files.atomic import digest_of
from ..own_folders import CHECKPOINT_FOLDER, folder_name

log = logging.getLogger(__name__)

KEPT_DAYS = 30.0
KEPT_BYTES = 1_000_000_000
_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it was or became."""

    digest: str | None
    """SHA-256 of the content; None if it was too large to be kept."""
    size: int
    mode: int
    owner: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One change of one file, as the index tells it."""

    checkpoint: str
    session: str
    at: float
    tool: str
    path: str
    before: Version | None
    """None: there was no such file."""
    after: str | None
    """Digest of what it was changed to; None: it was removed."""
    made: list[str] = field(default_factory=list)
    """Folders that were created for it, outermost first."""


class Store:
    """The checkpoints of one conversation."""

    def __init__(self, home: Path, conversation: str) -> None:
        self._root = home / CHECKPOINT_FOLDER
        self.folder = self._root / folder_name(conversation)
        self._index = self.folder / "index.jsonl"

    def add(self, records: list[Record], contents: list[bytes]) -> None:
        """Keep old contents and note the changes; all is on the disk when this returns."""
        with locked(self._root):
            _make_private(self.folder)
            for data in contents:
                self._keep(data)
            lines = b"".join(_line(record) for record in records)
            fd = os.open(self._index, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(fd, "r+b", buffering=0) as file:
                if file.seek(0, os.SEEK_END) and os.pread(fd, 1, file.tell() - 1) != b"\n":
                    lines = b"\n" + lines  # a crash truncated the last line
                file.write(lines)
                os.fsync(fd)
            sync_folder(self.folder)

    def _keep(self, data: bytes) -> None:
        path = self._blob(digest_of(data))
        if path.exists():
            return
        _make_private(path.parent)
        write_private(path, data)

    def records(self) -> list[Record]:
        """Every change, oldest first."""
        try:
            lines = self._index.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        records = (_record(line) for line in lines if line)
        return [record for record in records if record]

    def content(self, digest: str) -> bytes:
        """A kept content; ToolError if it is gone or damaged."""
        try:
            data = self._blob(digest).read_bytes()
        except FileNotFoundError:
            raise ToolError("The old content is not kept any more.") from None
        if digest_of(data) != digest:
            raise ToolError(f"The kept content {digest[:12]} is damaged; it was not restored.")
        return data

    def size_of(self, digest: str) -> int:
        """How much room a kept content takes; 0 if it is not there."""
        try:
            return self._blob(digest).stat().st_size
        except FileNotFoundError:
            return 0

    def forget(self, checkpoints: set[str]) -> None:
        """Drop these checkpoints, and the contents that no other one needs."""
        with locked(self._root):
            left = [record for record in self.records() if record.checkpoint not in checkpoints]
            if not left:
                shutil.rmtree(self.folder, ignore_errors=True)
                return
            write_private(self._index, b"".join(_line(record) for record in left))
            needed = {record.before.digest for record in left if record.before}
            for path in self.folder.glob("??/*"):
                if path.parent.name + path.name not in needed:
                    path.unlink(missing_ok=True)

    def _blob(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]


def prune(home: Path, *, days: float = KEPT_DAYS, size: int = KEPT_BYTES) -> int:
    """Forget what is too old, then the oldest until the rest fits; returns how many turns went.

    The newest checkpoint stays whatever its size.
    """
    root = home / "checkpoints"
    names = [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    stores = {name: Store(home, name) for name in names}
    turns: dict[tuple[str, str], list[Record]] = {}
    for name, store in stores.items():
        for record in store.records():
            turns.setdefault((name, record.checkpoint), []).append(record)
    oldest, kept = time.time() - days * 86_400, 0
    counted: set[tuple[str, str]] = set()
    drop: dict[str, set[str]] = {}
    for (name, checkpoint), records in sorted(turns.items(), key=_age):
        needs = {record.before.digest for record in records if record.before}
        new = {(name, digest) for digest in needs if digest} - counted
        counted |= new
        size -= sum(stores[name].size_of(digest) for _, digest in new)
        if records[-1].at < oldest or (size < 0 and kept):
            drop.setdefault(name, set()).add(checkpoint)
        else:
            kept += 1
    for name, checkpoints in drop.items():
        stores[name].forget(checkpoints)
    return sum(map(len, drop.values()))


def forget_conversation(home: Path, conversation: str) -> None:
    """Remove all that is kept of a conversation, e.g. because it is deleted."""
    store = Store(home, conversation)
    if store.folder.is_dir():
        with locked(home / "checkpoints"):
            shutil.rmtree(store.folder)


def _age(turn: tuple[tuple[str, str], list[Record]]) -> float:
    return -turn[1][-1].at


def _line(record: Record) -> bytes:
    return json.dumps(asdict(record), separators=(",", ":")).encode() + b"\n"


def _record(line: bytes) -> Record | None:
    try:
        fields: dict[str, Any] = json.loads(line)
        before = fields.pop("before")
        version = None
        if before:
            version = Version(**{**before, "owner": tuple(before["owner"])})
        return Record(**fields, before=version)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("Skipping an unreadable line of a checkpoint index: %s", error)
        return None


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold an exclusive lock on the store, across processes."""
    _make_private(root)
    fd = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ToolError("Another process holds the checkpoints. Try again.") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
