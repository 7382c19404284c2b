"""Files that messages name, for every machine of a store on a server.

A file that came with a message (`media/`, `uploads/`, `pastes/`), and long output of a tool
(`tool-output/`), is put into the store as an *object* before the message that names it. Its name is
its path below the home, so a path of one machine's home is found on another whose home is
elsewhere: `in_texts.localize` replaces it in the arguments of a tool, once the file was fetched.
Only conversations that have an object get it (see `hermes_state.objects`); for any other it is not
there.

Files are walked in pieces: memory does not grow with them. With a store in a file nothing is done.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import hermes_state  # its names are looked up when they are used: only a server needs them
from hermes_base.files import replace_private
from hermes_state import ObjectLostError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from hermes_state import SessionDB, StoredObject

    from .bucket import Bucket

log = logging.getLogger(__name__)

FOLDERS = ("media", "uploads", "pastes", "tool-output")
BUCKET = "s3"
"""The place of blobs that are in a bucket."""
_ATTEMPTS = 3


def are_shared(db: SessionDB | None) -> bool:
    """Whether files are put into the store: other machines may use it too."""
    return getattr(db, "is_on_server", False) is True  # not what stands in for a store


# Putting


def put_file(db: SessionDB, home: Path, path: Path, session_id: str | None = None) -> bool:
    """Put a file of the home into the store, for the conversation of a session if one is named.

    False if it is too large, and stays on this machine. Raises StoreError if it cannot be put, and
    OSError if it cannot be read.
    """
    name = path.relative_to(home).as_posix()
    for _ in range(_ATTEMPTS):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > hermes_state.OBJECT_BYTES:
                log.warning(
                    "%s is larger than %d bytes, and stays on this machine alone",
                    path, hermes_state.OBJECT_BYTES,
                )  # fmt: skip
                return False
            digest = _digest_of(file, size)
            blob = db.find_blob(digest, size) or _bring(db, file, digest, size)
            if blob is not None and db.put_object(name, blob, session_id):
                return True
        # It was changed while it was read, or the same content was just being deleted.
    raise StoreUnavailableError(f"{path} could not be put into the store: it keeps changing.")


def put_again(db: SessionDB, home: Path, known: StoredObject) -> str | None:
    """Bring the bytes of an object anew that are lost where they were kept, from the file of this
    home; returns their blob, None if there is no such file here.

    Every object with the same content is to be given that blob (`put_object`). Raises StoreError,
    and OSError if the file cannot be read.
    """
    path = home / known.name
    if not is_inside(home, known.name) or not path.is_file():
        return None
    with path.open("rb") as file:
        if _digest_of(file, known.size) != known.digest:
            return None
        return _bring(db, file, known.digest, known.size)


def put_if_new(db: SessionDB, home: Path, path: Path, session_id: str) -> bool:
    """The same for a file that only grows, unless the store has all of it."""
    known = db.get_object(path.relative_to(home).as_posix(), session_id)
    if known is not None and known.size >= path.stat().st_size:
        return True
    return put_file(db, home, path, session_id)


def _bring(db: SessionDB, file: BinaryIO, digest: str, size: int) -> str | None:
    """Bring the bytes of a file to where they are kept; None if they are others by now."""
    blob = f"{digest}-{os.urandom(8).hex()}"
    bucket = bucket_of(db) if db.bucket is not None and db.bucket.is_used else None
    db.begin_blob(blob, digest, size, "" if bucket is None else BUCKET)
    if bucket is not None:
        if _digest_of(file, size) != digest:
            return None
        bucket.put(blob, _Body(file, size), digest, size)
        return blob
    actual = hashlib.sha256()
    for number, chunk in enumerate(_chunks(file, size)):
        actual.update(chunk)
        db.add_chunk(blob, number, chunk)
    return blob if actual.hexdigest() == digest else None


class _Body:
    """The first bytes of a file, from the start each time that it is walked."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def __iter__(self) -> Iterator[bytes]:
        return _chunks(self._file, self._size)


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    file.seek(0)
    left = size
    while left and (chunk := file.read(min(hermes_state.CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk


def _digest_of(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(file, size):
        digest.update(chunk)
    return digest.hexdigest()


# Having


def find_file(db: SessionDB, home: Path, path: str, session_id: str | None) -> Path | None:
    """The file that a path of any machine names, on this one: fetched if it is not here.

    None if it is neither here nor an object that the conversation of the session has; without a
    session every object will do. Raises StoreError if it cannot be had, OSError if not be written.
    """
    is_here = Path(path).is_file()
    for name in hermes_state.object_names(path):
        here = home / name
        if is_here and Path(path) != here:
            continue  # a file of another place, which is there
        if not is_inside(home, name):
            continue
        known = db.get_object(name, session_id)
        # What is here may be longer: it is where the file is made. It is never another's.
        if known is not None and (not here.is_file() or here.stat().st_size < known.size):
            fetch(db, known, here)
        if known is not None:
            return here
    return Path(path) if is_here else None


def is_inside(home: Path, name: str) -> bool:
    """Whether a name leads into its folder of the home, and not out of it by a link."""
    top = (home / name.partition("/")[0]).resolve()
    return (home / name).resolve().is_relative_to(top)


def fetch(db: SessionDB, known: StoredObject, path: Path) -> None:
    """Write an object to a file; ObjectLostError, and no file, if it is not what was put."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replace_private(path, durable=False) as file:
        check(db, known, file.write)


def check(
    db: SessionDB, known: StoredObject, take: Callable[[bytes], object] = lambda chunk: None
) -> None:
    """Read all of an object; ObjectLostError if something of it is missing or wrong."""
    digest, size = hashlib.sha256(), 0
    for chunk in read_object(db, known):
        digest.update(chunk)
        size += len(chunk)
        if size > known.size:
            break
        take(chunk)
    if size != known.size:
        raise ObjectLostError(f"{known.name} is damaged in the store: bytes are missing.")
    if digest.hexdigest() != known.digest:
        raise ObjectLostError(f"{known.name} is damaged in the store: its digest is wrong.")


def read_object(db: SessionDB, known: StoredObject) -> Iterator[bytes]:
    """The bytes of an object, as they are where they are kept."""
    if known.place == BUCKET:
        bucket = bucket_of(db)
        if bucket is None:
            raise StoreUnavailableError(
                f"{known.name} is in a bucket, and config.yaml names none (store_objects)."
            )
        yield from bucket.get(known.blob)
        return
    for number in range(-(-known.size // hermes_state.CHUNK_BYTES)):
        chunk = db.read_chunk(known.blob, number)
        if chunk is None:
            return
        yield chunk


# All of them


def walk_objects(db: SessionDB) -> Iterator[StoredObject]:
    """Every object there is."""
    after = ""
    while page := db.list_objects(after):
        yield from page
        after = page[-1].name


def sweep(db: SessionDB | None) -> int:
    """Delete objects that nothing refers to any more, for all machines; returns how many.

    A bucket that cannot be reached is logged; its part is done the next time.
    """
    if db is None or not are_shared(db):
        return 0
    released = db.release_objects()
    bucket = bucket_of(db)
    while going := db.list_going_blobs():
        for blob in going:
            if blob.place == BUCKET:
                if bucket is None:
                    log.warning("Files in a bucket are not deleted: config.yaml names none")
                    return released
                try:
                    bucket.delete(blob.id)
                except StoreError as error:
                    log.warning("Files that nothing names any more are left: %s", error)
                    return released
            db.drop_blob(blob.id)
    if released:
        log.info("%d files that no conversation has any more were deleted from the store", released)
    return released


def bucket_of(db: SessionDB) -> Bucket | None:
    if db.bucket is None:
        return None
    from .bucket import Bucket

    return Bucket(db.bucket)
