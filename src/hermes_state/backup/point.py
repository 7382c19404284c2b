"""One point of a continuous backup: a zip file with what changed since the point before it.

The name says its number, the point it builds on ("base": none), its time and the checksum of the
file's bytes: `000007-000006-20261115T140000.123Z-<checksum>.zip`. Inside are `blocks/…` (numbered
blocks of the store), `files/…` (whole files beside it) and, last, `point.json`: everything that
makes up the state at that moment, and a checksum of that state and of the one before. The state's
checksum stays the same when points are merged. A file has its name only once it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from hermes_base.files import PARTIAL, sync_folder

from ..errors import StoreCorruptedError

BLOCK = 4096
_FACTS = "point.json"
_GROUP = 256
"""So many blocks are compressed together."""
_NUMBER = struct.Struct(">I")
_NAME = re.compile(
    r"(\d{6,})-(base|\d{6,})-(\d{8}T\d{6}\.\d{3})Z-([0-9a-f]{32})\.zip", re.ASCII
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A point, as its file's name tells it."""

    path: Path
    number: int
    parent: int | None
    """The number of the point it builds on; None for one that stands by itself."""
    at: float
    """When the state was so."""
    checksum: str


@dataclass(frozen=True)
class Facts:
    """What makes up the state at a point."""

    number: int
    at: float
    parent: int | None
    parent_state: str | None
    state: str
    """The checksum of the whole state, see `state_checksum`."""
    size: int
    """Of the store's file, in bytes."""
    sessions: int
    messages: int
    files: dict[str, list[str | int]]
    """Checksum and mode of every file beside the store."""


def list_points(folder: Path) -> list[Point]:
    """The points in a folder, the oldest first; their contents are not looked at."""
    by_number: dict[int, Point] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        point = _parsed(path)
        if point is None:
            continue
        other = by_number.get(point.number)
        # Thinning was interrupted: the merged one builds on an earlier point than the one before.
        if other is None or (point.parent or 0) < (other.parent or 0):
            by_number[point.number] = point
    return [by_number[number] for number in sorted(by_number)]


def superseded(folder: Path) -> list[Path]:
    """Files of points for which there is a merged one."""
    chosen = {point.path for point in list_points(folder)}
    return [path for path in folder.iterdir() if _parsed(path) and path not in chosen]


def _parsed(path: Path) -> Point | None:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    number, parent, stamp, checksum = match.groups()
    try:
        at = datetime.strptime(stamp, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Point(path, int(number), None if parent == "base" else int(parent), at, checksum)


def state_checksum(size: int, blocks: bytes, files: dict[str, list[str | int]]) -> str:
    """The checksum of a state: the store's size and block checksums, and the files beside it."""
    digest = hashlib.sha256(f"{size} ".encode())
    digest.update(blocks)
    digest.update(json.dumps(files, sort_keys=True).encode())
    return digest.hexdigest()


def block_checksum(data: bytes) -> bytes:
    """The checksum of one block: 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def file_checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_facts(point: Point) -> Facts:
    """Read a point's file from beginning to end; returns its facts, or raises for any damage."""
    try:
        if file_checksum(point.path)[:32] != point.checksum:
            raise StoreCorruptedError(f"Point {point.number} is damaged: {point.path}.")
        with zipfile.ZipFile(point.path) as archive:
            facts = Facts(**json.loads(archive.read(_FACTS)))
    except FileNotFoundError as error:
        raise StoreCorruptedError(f"Point {point.number} is missing: {point.path}.") from error
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, OSError) as error:
        raise StoreCorruptedError(
            f"Point {point.number} is damaged ({error}): {point.path}."
        ) from error
    if (facts.number, facts.parent) != (point.number, point.parent) or facts.at != point.at:
        raise StoreCorruptedError(f"Point {point.number} is misnamed: {point.path}.")
    return facts


def blocks_in(point: Point) -> Iterator[tuple[int, bytes]]:
    """The blocks a point holds, with their numbers; only after `checked_facts`."""
    with zipfile.ZipFile(point.path) as archive:
        for name in archive.namelist():
            if not name.startswith("blocks/"):
                continue
            data, place = archive.read(name), 0
            while place < len(data):
                (number,) = _NUMBER.unpack_from(data, place)
                place += _NUMBER.size
                yield number, data[place : place + BLOCK]
                place += BLOCK


def files_in(point: Point, facts: Facts, wanted: dict[str, list[str | int]]) -> Iterator[
    tuple[str, bytes]
]:  # fmt: skip
    """Those of the wanted files that a point holds as wanted; only after `checked_facts`."""
    with zipfile.ZipFile(point.path) as archive:
        held = set(archive.namelist())
        for name in list(wanted):
            if f"files/{name}" in held and facts.files.get(name, [""])[0] == wanted[name][0]:
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise StoreCorruptedError(f"{point.path} names a file outside: {name}.")
                yield name, archive.read(f"files/{name}")


class PointWriter:
    """Writes a point into a folder; without `finish` nothing is left of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._partial = folder / f".{os.getpid()}-{os.urandom(4).hex()}{PARTIAL}"
        descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "w+b")
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self._group: list[bytes] = []
        self._groups = 0

    def __enter__(self) -> PointWriter:
        return self

    def __exit__(self, *_: object) -> None:
        # On a full disk closing fails too; what is thrown away need not be whole.
        with contextlib.suppress(OSError):
            self._archive.close()
        with contextlib.suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def block(self, number: int, data: bytes) -> None:
        """Add one block of the store."""
        # The last block of a file may be short; its size says where it ends.
        self._group += [_NUMBER.pack(number), data.ljust(BLOCK, b"\0")]
        if len(self._group) >= 2 * _GROUP:
            self._flush()

    def file(self, name: str, data: bytes) -> None:
        """Add a file beside the store."""
        self._archive.writestr(f"files/{name}", data)

    def _flush(self) -> None:
        if self._group:
            self._archive.writestr(f"blocks/{self._groups:06}", b"".join(self._group))
            self._groups += 1
            self._group.clear()

    def finish(self, facts: Facts) -> Point:
        """Make it a point of the folder, all at once and for good."""
        self._flush()
        self._archive.writestr(_FACTS, json.dumps(asdict(facts)))
        self._archive.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        checksum = file_checksum(self._partial)[:32]
        before = "base" if facts.parent is None else f"{facts.parent:06}"
        moment = datetime.fromtimestamp(facts.at, UTC)
        stamp = f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}"
        path = self._folder / f"{facts.number:06}-{before}-{stamp}Z-{checksum}.zip"
        self._partial.rename(path)
        sync_folder(self._folder)
        point = _parsed(path)
        assert point is not None
        return point
