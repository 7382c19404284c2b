"""All objects of a store at once: taken along when it moves, and looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes_base.files import PARTIAL
from hermes_state import ObjectLostError, SessionDB, StoredObject, object_names

from . import (
    FOLDERS,
    are_shared,
    bucket_of,
    check,
    fetch,
    is_inside,
    put_again,
    put_file,
    walk_objects,
)

_PROBE = "hermes-probe"


class Fetched(NamedTuple):
    """What became of fetching every object."""

    files: int
    lost: list[str]
    """What is wrong with those that are lost."""


class Examined(NamedTuple):
    """What was found when every object was read."""

    files: int
    size: int
    wrong: list[str]


def fetch_all(db: SessionDB | None, home: Path) -> Fetched:
    """Have every object as a file of this home. Raises StoreError if they cannot be reached."""
    if db is None or not are_shared(db):
        return Fetched(0, [])
    count, lost = 0, []
    for known in walk_objects(db):
        path = home / known.name
        is_here = path.is_file() and path.stat().st_size >= known.size
        if is_here or not is_inside(home, known.name):
            continue
        try:
            fetch(db, known, path)
            count += 1
        except ObjectLostError as error:
            lost.append(str(error))
    return Fetched(count, lost)


def put_all(db: SessionDB | None, home: Path) -> int:
    """Put every file of this home into the store that a conversation names; returns how many."""
    if db is None or not are_shared(db):
        return 0
    paths = {
        path.relative_to(home).as_posix(): path
        for folder in FOLDERS
        for path in (home / folder).rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix != PARTIAL
    }
    named = db.list_naming_conversations(
        [name for name in paths if name in object_names(f"/{name}")]
    )
    count = 0
    for name, conversations in named.items():
        are_put = [put_file(db, home, paths[name], conversation) for conversation in conversations]
        count += all(are_put)
    return count


class Repaired(NamedTuple):
    """What became of objects whose bytes were lost where they are kept."""

    files: int
    """How many have their bytes again."""
    wrong: list[str]
    """What is wrong with those that this home cannot help."""


def put_lost_again(db: SessionDB, home: Path, progress: Callable[[int, int], None]) -> Repaired:
    """Read every object, and bring those anew from this home whose bytes are missing or wrong.

    Raises StoreError if the place cannot be reached where they are kept.
    """
    by_blob: dict[str, list[StoredObject]] = {}
    for known in walk_objects(db):
        by_blob.setdefault(known.blob, []).append(known)
    count, wrong = 0, []
    for number, same in enumerate(by_blob.values(), 1):
        try:
            check(db, same[0])
        except ObjectLostError as error:
            brought = (blob for known in same if (blob := put_again(db, home, known)) is not None)
            blob = next(brought, None)
            if blob is not None and all(db.put_object(known.name, blob) for known in same):
                count += len(same)
            else:
                wrong += [f"{known.name}: {error}" for known in same]
        progress(number, len(by_blob))
    return Repaired(count, wrong)


def probe(db: SessionDB) -> None:
    """Put, read and delete something where new objects are kept; StoreError if one is refused."""
    bucket = bucket_of(db)
    if bucket is not None and db.bucket is not None and db.bucket.is_used:
        bucket.probe(_PROBE)


def examine(db: SessionDB, progress: Callable[[int, int], None]) -> Examined:
    """Read every object, as it is where it is kept."""
    by_blob = {known.blob: known for known in walk_objects(db)}
    size, wrong = 0, []
    for number, known in enumerate(by_blob.values(), 1):
        try:
            check(db, known)
            size += known.size
        except ObjectLostError as error:
            wrong.append(str(error))
        progress(number, len(by_blob))
    return Examined(len(by_blob), size, wrong)
