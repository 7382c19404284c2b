"""Continuous backup: a base, and points that each hold only what changed since the one before.

A point is made from a consistent copy of the store, block by block compared with the last point.
Restoring goes from the base to the wanted point and trusts nothing: every file, every link from
point to point and the final state are checked. Where the newest point cannot be rebuilt, the next
one is a new base; earlier points are never touched by that.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hermes_base.files import PARTIAL, write_private

from ..connection import private_folder
from ..errors import StoreCorruptedError, StoreUnavailableError
from .copies import snapshot
from .point import (
    BLOCK,
    Facts,
    Point,
    PointWriter,
    block_checksum,
    blocks_in,
    checked_facts,
    file_checksum,
    files_in,
    list_points,
    state_checksum,
    superseded,
)

logger = logging.getLogger(__name__)

STORE = "state.db"
SCRATCH = ".scratch-"
_NEWEST = ".newest"
"""Remembers the newest point's block checksums, so that it need not be rebuilt to be compared."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time tells for certain that it was not written since."""

Signature = list[int]


class _Known(NamedTuple):
    facts: Facts
    blocks: bytes
    signature: Signature | None


@contextlib.contextmanager
def folder_lock(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock a backup folder: exclusively to write, shared to read; waits for the lock."""
    path = folder / ".lock"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
    except OSError:
        if shared and folder.is_dir():  # a folder nobody can write to needs no lock
            yield
            return
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def add_point(store: Path, folder: Path, files: Iterable[tuple[str, Path]] = ()) -> Point | None:
    """Add what changed in the store, and in the files beside it, as one more point.

    Returns None if nothing did. Neither readers nor writers of the store wait for it. The first
    point, and one after damage, is a base with everything.
    """
    if not store.is_file():
        raise StoreUnavailableError(f"There is no session store {store} to back up.")
    private_folder(folder)
    with folder_lock(folder):
        sweep(folder)
        points = list_points(folder)
        known = _newest(folder, points)
        highest = max([_remembered_number(folder), *(point.number for point in points)])
        with (
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch,
            PointWriter(folder) as writer,
        ):
            before = known.facts if known else None
            kept = _add_files(writer, files, before.files if before else {})
            signature = _signature(store)
            if known and before and signature is not None and signature == known.signature:
                blocks, size = known.blocks, before.size
                held = before.sessions, before.messages
            else:
                copy = Path(scratch) / STORE
                held = snapshot(store, copy)
                size = copy.stat().st_size
                blocks = _add_blocks(writer, copy, known.blocks if known else b"")
            state = state_checksum(size, blocks, kept)
            if before and state == before.state:
                _remember(folder, before, blocks, signature)
                return None
            # Nothing in the point was written after its time.
            at = math.ceil(time.time() * 1000) / 1000
            facts = Facts(
                highest + 1, at, before.number if before else None,
                before.state if before else None, state, size, *held, kept,
            )  # fmt: skip
            point = writer.finish(facts)
        _remember(folder, facts, blocks, signature)
    return point


def sweep(folder: Path) -> None:
    """Remove partial files of killed processes; the caller holds the lock."""
    for path in (*folder.glob(f".*{PARTIAL}"), *superseded(folder)):
        path.unlink()
    for path in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(path)


def _add_files(
    writer: PointWriter, files: Iterable[tuple[str, Path]], before: dict[str, list[str | int]]
) -> dict[str, list[str | int]]:
    kept: dict[str, list[str | int]] = {}
    for name, path in files:
        try:
            data = path.read_bytes()  # once: another program may be writing it
            mode = 0o700 if os.access(path, os.X_OK) else 0o600
        except FileNotFoundError:
            continue  # gone since it was listed
        kept[name] = [hashlib.sha256(data).hexdigest(), mode]
        if before.get(name, [""])[0] != kept[name][0]:
            writer.file(name, data)
    return kept


def _add_blocks(writer: PointWriter, copy: Path, before: bytes) -> bytes:
    """Write the blocks that are not as before; returns the checksums of all."""
    checksums = bytearray()
    for number, data in enumerate(_blocks(copy)):
        checksum = block_checksum(data)
        if checksum != before[number * 16 : number * 16 + 16]:
            writer.block(number, data)
        checksums += checksum
    return bytes(checksums)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=1 << 20) as file:
        while block := file.read(BLOCK):
            yield block


def _block_checksums(path: Path) -> bytes:
    return b"".join(map(block_checksum, _blocks(path)))


def _signature(store: Path) -> Signature | None:
    """What the file system says of the store's files; None while that may still be deceptive."""
    signature: Signature = []
    for path in (store, store.with_name(store.name + "-wal")):
        with contextlib.suppress(FileNotFoundError):
            facts = path.stat()
            signature += [facts.st_ino, facts.st_size, facts.st_mtime_ns]
            if time.time_ns() - facts.st_mtime_ns < _SETTLED:
                return None
    return signature


def _remember(folder: Path, facts: Facts, blocks: bytes, signature: Signature | None) -> None:
    head = {"number": facts.number, "state": facts.state, "signature": signature}
    # Not durable: what is lost of it is compared anew.
    write_private(folder / _NEWEST, json.dumps(head).encode() + b"\n" + blocks, durable=False)


def forget_newest(folder: Path) -> None:
    """Let the next point be compared with what the newest really holds, not with a memory."""
    (folder / _NEWEST).unlink(missing_ok=True)


def _remembered_number(folder: Path) -> int:
    """The number of the last point that was made, as far as known; 0 if it is not."""
    try:
        with (folder / _NEWEST).open("rb") as file:
            return int(json.loads(file.readline())["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def missing_newest(folder: Path) -> int | None:
    """The number of the point that was made last, if it is not there any more."""
    last = _remembered_number(folder)
    points = list_points(folder)
    return last if last and (not points or points[-1].number < last) else None


def _newest(folder: Path, points: list[Point]) -> _Known | None:
    """What the newest point holds; None if the next one has to be a base."""
    if not points or missing_newest(folder):
        return None
    try:
        ancestors(points, points[-1])
        facts = checked_facts(points[-1])
        with (folder / _NEWEST).open("rb") as file:
            head = json.loads(file.readline())
            blocks = file.read()
        if head["state"] == facts.state == state_checksum(facts.size, blocks, facts.files):
            return _Known(facts, blocks, head["signature"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # it is only a memory: what follows does without
    except StoreCorruptedError as error:
        logger.warning("%s A new base is begun.", error)
        return None
    try:
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch:
            facts = rebuild(points, points[-1], Path(scratch))
            return _Known(facts, _block_checksums(Path(scratch) / STORE), None)
    except StoreCorruptedError as error:
        logger.warning("%s A new base is begun.", error)
        return None


# Going back


def ancestors(points: list[Point], point: Point) -> list[Point]:
    """The points that are needed for this one, from the base to itself."""
    by_number = {earlier.number: earlier for earlier in points}
    chain = [point]
    while (parent := chain[-1].parent) is not None:
        if parent not in by_number or parent >= chain[-1].number:
            raise StoreCorruptedError(
                f"Point {parent} is missing: point {chain[-1].number} builds on it."
            )
        chain.append(by_number[parent])
    return chain[::-1]


def replay(chain: list[Point], store: Path) -> Iterator[tuple[Point, Facts]]:
    """Bring the file `store` from point to point; yields when it is as it was at each."""
    before: Facts | None = None
    descriptor = os.open(store, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        for point in chain:
            facts = checked_facts(point)
            if facts.parent_state != (before.state if before else None):
                raise StoreCorruptedError(
                    f"Point {point.number} does not continue point {facts.parent}: {point.path}."
                )
            for number, data in blocks_in(point):
                file.seek(number * BLOCK)
                file.write(data)
            file.truncate(facts.size)
            file.flush()
            before = facts
            yield point, facts


def check_state(store: Path, facts: Facts) -> None:
    """Raise StoreCorruptedError unless the rebuilt file is what the point says."""
    if state_checksum(facts.size, _block_checksums(store), facts.files) != facts.state:
        raise StoreCorruptedError(f"Point {facts.number} does not give the state it was made of.")


def rebuild(points: list[Point], point: Point, target: Path) -> Facts:
    """Write the store and the files of a point into an empty folder; returns what they are.

    Raises StoreCorruptedError, with the point in it that is to blame, if anything is not as it was.
    """
    chain = ancestors(points, point)
    every = [facts for _, facts in replay(chain, target / STORE)]
    check_state(target / STORE, every[-1])
    write_files(chain, every, target)
    return every[-1]


def write_files(chain: list[Point], every: list[Facts], target: Path) -> None:
    """Write the files beside the store, as they were at the last of the points, into a folder."""
    wanted = dict(every[-1].files)
    for link, facts in zip(reversed(chain), reversed(every), strict=True):
        for name, data in files_in(link, facts, wanted):
            checksum, mode = wanted.pop(name)
            path = target / name
            private_folder(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, int(mode))
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            if file_checksum(path) != checksum:
                raise StoreCorruptedError(f"Point {link.number} is damaged: {name} in {link.path}.")
    if wanted:
        raise StoreCorruptedError(
            f"Point {chain[-1].number} is damaged: {min(wanted)} is in none of its files."
        )


def chosen_point(points: list[Point], *, at: float | None = None, number: int | None = None) -> (
    Point | None
):  # fmt: skip
    """The point of this number, or the newest not after a time; the newest if nothing is said."""
    fitting = [
        point
        for point in points
        if (number is None or point.number == number) and (at is None or point.at <= at)
    ]
    return fitting[-1] if fitting else None
