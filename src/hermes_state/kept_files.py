"""Files of a home that are one for all machines: memories and skills, where the store is a server.

A row is a file's newest content, or says that it was deleted. Every change has a number that only
grows (`version`), so whoever has a copy asks for what changed since the last one seen, and changes
a file only if nobody else has since. Writes are alone among their like: numbers are committed in
their order. (With a store in a file, the files of the home are the only ones, and no row is made.)
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hermes_base.process import this_process

from .codec import encode_text
from .dialect import Connection, tuples, value
from .errors import InvalidMessageError
from .sessions import get_meta, set_meta

KEPT_FILE_BYTES = 1024 * 1024
"""Bytes of one file at most."""
_VERSION = "kept_files_version"
_BASE64 = "base64"


class KeptFile(NamedTuple):
    """A file as it is kept."""

    path: str
    """Below the home, with `/` between its parts."""
    content: bytes | None
    """None: it was deleted."""
    executable: bool
    version: int


class FileChange(NamedTuple):
    """What a file is to be."""

    path: str
    content: bytes | None
    """None deletes it."""
    executable: bool = False
    version: int = 0
    """The version it was last seen at; 0 if it was not there."""


class KeptChanges(NamedTuple):
    """What happened to the files since a version."""

    version: int
    files: list[KeptFile]
    is_all: bool
    """Whether these are all files there are, not only what changed."""


class KeptHead(NamedTuple):
    """Which store this is, and the number of the last change to its files."""

    store: str
    version: int


def get_kept_head(conn: Connection) -> KeptHead:
    """What tells, in one statement, whether a copy of the files is current."""
    known: dict[str, str] = dict(
        tuples(conn, "SELECT key, value FROM state_meta WHERE key IN ('store_id', ?)", (_VERSION,))
    )
    return KeptHead(str(known.get("store_id")), int(known.get(_VERSION) or 0))


def list_kept_files(
    conn: Connection, since: int = 0, folders: Sequence[str] = ("",)
) -> KeptChanges:
    """The files below `folders` ("memories/") that changed after version `since`, with those that
    were deleted."""
    version = int(get_meta(conn, _VERSION) or 0)
    # A store that was put back from a backup may have a lower number: everything counts as changed.
    after = since if since <= version else 0
    below = " OR ".join("substr(path, 1, CAST(? AS INTEGER)) = ?" for _ in folders)
    changed = [
        KeptFile(path, _decoded(content, encoding), bool(executable), number)
        for path, content, encoding, executable, number in tuples(
            conn,
            "SELECT path, content, encoding, executable, version FROM kept_files"
            f" WHERE version > ? AND ({below}) ORDER BY version",
            (after, *(part for folder in folders for part in (len(folder), folder))),
        )
    ]
    return KeptChanges(version, changed, after == 0)


def change_kept_files(conn: Connection, changes: Iterable[FileChange]) -> dict[str, int] | None:
    """Change files, all or none; returns their versions.

    None, and nothing is changed, if one of them has another version by now.
    """
    changes = list(changes)
    for change in changes:
        if change.content is not None and len(change.content) > KEPT_FILE_BYTES:
            raise InvalidMessageError(f"{change.path} is longer than {KEPT_FILE_BYTES} bytes")
        if _version_of(conn, change.path) != change.version:
            return None
    version = int(get_meta(conn, _VERSION) or 0)
    now, versions = conn.now(), {}
    for change in changes:
        version += 1
        content, encoding = _encoded(change.content)
        conn.execute(
            "INSERT INTO kept_files (path, content, encoding, executable, version, updated_at,"
            " updated_by) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET"
            " content = excluded.content, encoding = excluded.encoding,"
            " executable = excluded.executable, version = excluded.version,"
            " updated_at = excluded.updated_at, updated_by = excluded.updated_by",
            (
                encode_text(change.path, "path"),
                content,
                encoding,
                int(change.executable),
                version,
                now,
                this_process(),
            ),
        )
        versions[change.path] = version
    set_meta(conn, _VERSION, str(version))
    return versions


def _version_of(conn: Connection, path: str) -> int:
    version = value(
        conn, "SELECT version FROM kept_files WHERE path = ?", (encode_text(path, "path"),)
    )
    return int(version or 0)


def _encoded(content: bytes | None) -> tuple[str | None, str]:
    if content is None:
        return None, ""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), _BASE64
    if "\0" in text:  # which a server's texts cannot hold
        return base64.b64encode(content).decode(), _BASE64
    return text, ""


def _decoded(content: str | None, encoding: str) -> bytes | None:
    if content is None:
        return None
    return base64.b64decode(content) if encoding == _BASE64 else content.encode()
