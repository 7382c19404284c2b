"""A Hermes home as one archive: written, verified, unpacked.

The store is copied by SQLite itself, as it is at one moment, whoever writes to it. `backup.json` in
the archive lists every file with its checksum; an archive counts only once it was read back and
every file matched its checksum.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from agent.store import find_store
from gateway.status import running_pid
from hermes_base.files import replace_private
from hermes_cli import __version__
from hermes_cli.command_run import NotDone, UserError
from hermes_cli.secret_free import SecretFree, is_secret_file, without_secrets
from hermes_state import StoreError
from hermes_state.backup.point import list_points
from tools import shared_files

MANIFEST = "backup.json"
STORE = "state.db"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
SECRETS = (".env", "auth.json")
KEPT = (
    "config.yaml", "SOUL.md", "personas", "memories", "skills", "shared", "people", "groups",
    "skill-bundles", "plugins", "hooks", "cron", "scripts", "shell-hooks-allowlist.json", *SECRETS,
)  # fmt: skip
"""What cannot be rebuilt, besides the store; the rest is derived, or belongs to a run."""


def write_backup(home: Path, target: Path, *, secrets: bool = True) -> dict[str, Any]:
    """Write an archive of `home` to `target` and read it back; returns what it holds.

    Without `secrets`, files that hold nothing else are left out and the values in `config.yaml`
    that are secrets are empty; `left_out` names them. Raises NotDone if what was written cannot be
    read, and StoreError if the store cannot. A store on a server is not in it: `server` says so.
    """
    from hermes_state.backup.copies import copy_store, is_blank

    place = find_store(home)

    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as scratch:
        facts: dict[str, Any] = {
            "hermes": __version__,
            "created_at": time.time(),
            "sessions": 0,
            "messages": 0,
            "files": {},
            "left_out": [],
        }
        if place.server is not None:
            facts["server"] = str(place)
        copy = Path(scratch) / STORE
        is_here = place.server is None and (home / STORE).is_file()
        if is_here and not is_blank(home / STORE):
            copied = copy_store(home / STORE, copy)
            facts |= {"sessions": copied.sessions, "messages": copied.messages}
        try:
            with replace_private(target) as file:
                with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
                    if copy.exists():
                        facts["files"][STORE] = _add(archive, STORE, copy)
                    masked = None if secrets else Path(scratch) / "masked"
                    for name, path in kept_files(home, scratch=masked, left_out=facts["left_out"]):
                        facts["files"][name] = _add(archive, name, path)
                    _add_manifest(archive, facts, Path(scratch))
                file.flush()
                verify(Path(file.name))
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise NotDone(
                    f"No room left on the disk of {target.parent} for the archive; none was kept. "
                    "Free some, or write it elsewhere with -o."
                ) from error
            raise
    return facts


def kept_files(
    home: Path, *, scratch: Path | None = None, left_out: list[str] | None = None
) -> Iterator[tuple[str, Path]]:
    """The files of a home that cannot be made again, besides the store, by name.

    With a folder `scratch` they come without secrets: files that were changed for that lie there,
    and `left_out` is told what was taken out.
    """
    for name in KEPT:
        top = home / name
        paths = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in paths:
            # A link may lead anywhere, and caches and locks are made again.
            if path.is_symlink() or not path.is_file() or path.suffix in (".pyc", ".lock"):
                continue
            if path.name == shared_files.MANIFEST:  # says what this home has got from a server
                continue
            inner = path.relative_to(home).as_posix()
            if scratch is None:
                yield inner, path
                continue
            free = without_secrets(inner, path)
            if left_out is not None:
                left_out += free.left_out
            if free.data is not None:
                yield inner, _changed(path, free, scratch / inner)


def _changed(path: Path, free: SecretFree, copy: Path) -> Path:
    """The file itself, or a private copy with what is left of it."""
    if free.data is None or not free.left_out:
        return path
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.touch(mode=0o600)
    copy.write_bytes(free.data)
    return copy


def _add(archive: tarfile.TarFile, name: str, path: Path) -> str:
    """Put a file into the archive; returns the checksum of what was put in."""
    if name == STORE:
        stream: BinaryIO = path.open("rb")  # our own copy, and it may be large
        count = path.stat().st_size
    else:
        # Another program may be writing it: what counts is what was read, once.
        data = path.read_bytes()
        stream, count = io.BytesIO(data), len(data)
    with stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
        stream.seek(0)
        info = tarfile.TarInfo(name)
        info.size, info.mode = count, 0o700 if os.access(path, os.X_OK) else 0o600
        info.mtime = int(path.stat().st_mtime)
        archive.addfile(info, stream)
    return digest.hexdigest()


def _add_manifest(archive: tarfile.TarFile, facts: dict[str, Any], scratch: Path) -> None:
    path = scratch / MANIFEST
    path.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    _add(archive, MANIFEST, path)


def verify(path: Path) -> dict[str, Any]:
    """Unpack an archive aside and compare everything; returns its manifest."""
    with tempfile.TemporaryDirectory(prefix=".verify-", dir=path.parent) as scratch:
        return unpack(path, Path(scratch))


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack an archive into an empty folder and check it; returns its manifest.

    Raises UserError for a file that is no backup, and NotDone for one that is damaged.
    """
    from hermes_state.backup.copies import check_copy

    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.extractall(folder, filter="data")
        for inner in folder.rglob("*"):
            if inner.is_dir():
                inner.chmod(0o700)
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        (folder / MANIFEST).unlink()
    except FileNotFoundError as error:
        if not path.exists():
            raise UserError(f"There is no file {path}.") from error
        raise UserError(f"{path} is no backup of Hermes: {MANIFEST} is missing.") from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NotDone(
                f"No room left on the disk of {folder.parent} to unpack {path.name}; free some, or "
                "use another disk."
            ) from error
        raise UserError(f"{path} is no backup, or is damaged: {error}.") from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise UserError(f"{path} is no backup, or is damaged: {error}.") from error
    checksums = {
        file.relative_to(folder).as_posix(): _checksum(file)
        for file in folder.rglob("*")
        if file.is_file()
    }
    if checksums != facts.get("files"):
        wrong = sorted(set(checksums.items()) ^ set((facts.get("files") or {}).items()))
        raise NotDone(f"{path} is damaged: {wrong[0][0]} is not what was put in.")
    if STORE in checksums:
        try:
            copy = check_copy(folder / STORE)
        except StoreError as error:
            raise NotDone(f"{path} is damaged: {error}") from error
        if (copy.sessions, copy.messages) != (facts["sessions"], facts["messages"]):
            raise NotDone(f"{path} is damaged: it does not hold what was put in.")
    return dict(facts)


def unpack_point(points: Path, at: str | None, folder: Path) -> dict[str, Any]:
    """Rebuild a point of a continuous backup in an empty folder; returns its facts.

    `at` is a point's number or a time, of which the newest point not after it is taken; without
    it the newest is. Raises UserError if there is none, and StoreError if it is damaged.
    """
    from hermes_state.backup.chain import chosen_point, folder_lock, rebuild
    from hermes_state.backup.copies import check_copy

    if not points.is_dir():
        raise UserError(f"There is no folder {points}.")
    with folder_lock(points, shared=True):
        every = list_points(points)
        if at is not None and at.isascii() and at.isdigit():
            point = chosen_point(every, number=int(at))
        else:
            point = chosen_point(every, at=None if at is None else _moment(at))
        if point is None:
            which = f" as of {at}" if at and not at.isdigit() else f" {at}" if at else ""
            raise UserError(f"There is no point{which} in {points}. See: hermes backup points")
        facts = rebuild(every, point, folder)
    copy = check_copy(folder / STORE)
    if (copy.sessions, copy.messages) != (facts.sessions, facts.messages):
        raise NotDone(f"Point {point.number} is damaged: it does not hold what was put in.")
    return {
        "point": facts.number,
        "created_at": facts.at,
        "sessions": facts.sessions,
        "messages": facts.messages,
        "files": {STORE: facts.state, **{name: entry[0] for name, entry in facts.files.items()}},
    }


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()  # local, unless it names its zone
    except (ValueError, OverflowError, OSError) as error:
        raise UserError(
            f"{text!r} is no time. Write it like 2026-11-15 14:00, or give a point's number."
        ) from error


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_idle(home: Path) -> None:
    """Raise UserError if any program works with this home now."""
    from hermes_state.backup.copies import is_in_use

    if running_pid(home) is not None:
        raise UserError("The gateway of this home is running. Stop it: hermes gateway stop")
    if is_in_use(home / STORE):
        raise UserError(
            f"{home / STORE} is in use. End every Hermes that uses this home (chats, the terminal "
            "interface, other programs) and try again."
        )


def put_in_place(folder: Path, home: Path) -> Path | None:
    """Let an unpacked backup take the place of what is in `home`, which is kept aside.

    Returns where the old things are, or None if there were none. If anything fails, everything is
    put back.
    """
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    aside = home / "backups" / f"before-restore-{stamp}"
    aside.mkdir(mode=0o700, parents=True)
    databases = [
        f"{name}{end}"
        for name in (STORE, "search.db", "search-mirror.db")
        for end in ("", "-wal", "-shm")
    ]
    moved: list[tuple[Path, Path]] = []
    try:
        for name in (*databases, *KEPT):
            # What a backup was told to leave out stays as it is.
            if name in SECRETS and not (folder / name).exists():
                continue
            if (home / name).exists():
                _move(home / name, aside / name, moved)
        for path in sorted(folder.iterdir()):
            _move(path, home / path.name, moved)
    except BaseException:
        for source, target in reversed(moved):
            shutil.move(target, source)
        raise
    _keep_secret_files(aside, home)
    if any(aside.iterdir()):
        return aside
    aside.rmdir()
    return None


def _keep_secret_files(aside: Path, home: Path) -> None:
    """Copy files of secrets, which a backup may have left out, back to where they were."""
    for path in sorted(aside.rglob("*")):
        target = home / path.relative_to(aside)
        is_missed = is_secret_file(path.name) and not target.exists() and target.parent.is_dir()
        if is_missed and path.is_file() and not path.is_symlink():
            shutil.copy2(path, target)


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> None:
    source.rename(target)
    moved.append((source, target))
