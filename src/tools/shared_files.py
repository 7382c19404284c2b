"""Memories and skills are one for all machines whose store is the same server.

The files of the home are what everybody reads, edits and runs; they are copies of rows of the
store. Both are synchronised at two moments: before a session begins (`refresh`), and around a
change by a tool or a command (`change`), which is retried if another machine changed the same file
first. A manifest in the home says which version each file had when it was last the same in both
places:

- changed in the store only: the home gets it;
- changed in the home only, by hand: the store gets it;
- changed in both: the store's counts; the home's is put into `backups/` and logged;
- deleted by hand: it comes back. What a tool or a command deletes is deleted everywhere.

Each space (the operator's, which is the home itself, a person's, a group's, the shared one) is
synchronised by itself, with a manifest of its own: a session costs what its own memories cost,
however many people there are. A space is named by its folder below the home ("people/ada-1f/"; the
operator's is ""), with which the names of its rows begin.

With a store in a file nothing is done: there is one home.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import hermes_state  # its names are looked up when they are used: only a server needs them
from hermes_base.files import locked, private_folder, write_private
from hermes_state import StoreBusyError, StoreError

if TYPE_CHECKING:
    from hermes_state import FileChange, KeptChanges, KeptFile, KeptHead, SessionDB

log = logging.getLogger(__name__)

FOLDERS = ("memories", "skills")
OPERATORS = ""
"""The space that is the home itself."""
SHARED = "shared/"
OTHERS = ("people", "groups")
"""Folders with a space in each of their folders."""
MOST_FILES = 2000
"""In one space."""
MANIFEST = "shared-files.json"
_ATTEMPTS = 20

R = TypeVar("R")


def refresh(db: SessionDB | None, home: Path, spaces: Sequence[str] = (OPERATORS,)) -> int:
    """Synchronise spaces of the home and the store; returns how many files the store was given.

    A server that is away leaves the home as it is.
    """
    if not _is_on_server(db):
        return 0
    assert db is not None
    try:
        with _locked(home, spaces):
            head = db.get_kept_head()
            return sum(_Copies(db, home, space, head).refresh() for space in sorted(set(spaces)))
    except (StoreError, OSError) as error:
        log.warning(
            "The store cannot be reached; using this machine's copies of memories and skills: %s",
            error,
        )
        return 0


def refresh_all(db: SessionDB | None, home: Path) -> int:
    """The same for every space there is, here or in the store."""
    if not _is_on_server(db):
        return 0
    assert db is not None
    names = {space_of(file.path) for file in db.list_kept_files().files}
    return refresh(db, home, sorted({*spaces_here(home), *(name for name in names if name)} | {""}))


def change(
    db: SessionDB | None,
    home: Path,
    work: Callable[[], R],
    spaces: Sequence[str] = (OPERATORS,),
) -> R:
    """Run what changes memories or skills in spaces of the home, and share that.

    It is retried on the newest files if another machine has changed one of the same files
    meanwhile. Raises StoreError, with nothing changed, if the server cannot be asked.
    """
    if not _is_on_server(db):
        return work()
    assert db is not None
    with _locked(home, spaces):
        head = db.get_kept_head()
        copies = [_Copies(db, home, space, head) for space in sorted(set(spaces))]
        for _ in range(_ATTEMPTS):
            for copy in copies:
                copy.refresh()
            result = work()
            if _share(db, copies):
                return result
    raise StoreBusyError("Other machines keep changing the same memories and skills.")


def spaces_here(home: Path) -> list[str]:
    """The spaces that have a folder in the home, the operator's first."""
    others = [
        f"{top}/{path.name}/"
        for top in OTHERS
        for path in sorted((home / top).glob("*"))
        if path.is_dir() and not path.is_symlink()
    ]
    return [OPERATORS, *([SHARED] if (home / SHARED).is_dir() else []), *others]


def space_of(path: str) -> str | None:
    """The space that a row's name is in; None if it is in none."""
    parts = PurePosixPath(path).parts
    depth = 0 if parts[0] in FOLDERS else 1 if f"{parts[0]}/" == SHARED else 2
    if len(parts) < depth + 2 or parts[depth] not in FOLDERS:
        return None
    if depth == 2 and parts[0] not in OTHERS:
        return None
    return "".join(f"{part}/" for part in parts[:depth])


@contextlib.contextmanager
def _locked(home: Path, spaces: Sequence[str]) -> Iterator[None]:
    """Keep other processes out of these spaces; all take them in the same order."""
    with contextlib.ExitStack() as stack:
        for space in sorted(set(spaces)):
            folder = home / space
            private_folder(folder)
            stack.enter_context(locked(folder / f"{MANIFEST}.lock"))
        yield


def _share(db: SessionDB, copies: Sequence[_Copies]) -> bool:
    """Store what was changed in the home, all or nothing; on a conflict, False, and the home is put
    back."""
    changes = {copy: copy.changes(with_deleted=True) for copy in copies}
    everything = [change for changed in changes.values() for change in changed]
    versions = db.change_kept_files(everything) if everything else {}
    for copy, changed in changes.items():
        if versions is None:
            copy.put_back(changed)
        else:
            copy.note_stored(changed, versions)
        copy.save()
    return versions is not None


def _is_on_server(db: SessionDB | None) -> bool:
    return getattr(db, "is_on_server", False) is True  # not a substitute for a store


class _Seen(NamedTuple):
    """A file when it was last the same in the home and in the store."""

    version: int
    digest: str
    """Empty for one that is deleted."""
    stamp: tuple[int, ...]
    """The home's file, when it was changed, its size, whether it can be run: while these are the
    same, so is it."""


class _Copies:
    """The files of a space as copies of the store's; used under a lock."""

    def __init__(self, db: SessionDB, home: Path, space: str, head: KeptHead) -> None:
        self._db, self._home, self._space = db, home, space
        self._head: KeptHead | None = head
        """What the store had when it was last asked; None once that was used."""
        self._folders = [f"{space}{name}/" for name in FOLDERS]
        self._manifest = home / space / MANIFEST
        self._store = head.store
        self._version = 0
        self._seen: dict[str, _Seen] = {}
        kept = _read_manifest(self._manifest)
        self._is_first = kept.get("store") != self._store
        if not self._is_first:
            self._version = int(kept["version"])
            self._seen = {
                path: _Seen(version, digest, tuple(stamp))
                for path, (version, digest, stamp) in kept["files"].items()
            }

    def refresh(self) -> int:
        """Take what changed in the store, and share what was changed by hand; returns how many."""
        for _ in range(_ATTEMPTS):
            self._take()
            edited = self.changes(with_deleted=False)
            if not edited or self._store_changes(edited):
                break
        if self._is_first and edited:
            log.warning(
                "%d files of memories/ and skills/ were brought into %s, for all machines that"
                " use it", len(edited), self._db.location,
            )  # fmt: skip
        self._is_first = False
        self.save()
        return len(edited)

    def put_back(self, changes: list[FileChange]) -> None:
        """Make files what the store has, after another machine was first."""
        newest = {file.path: file for file in self._listed().files}
        for change in changes:
            self._put(newest.get(change.path) or hermes_state.KeptFile(change.path, None, False, 0))

    def _listed(self, since: int = 0) -> KeptChanges:
        return self._db.list_kept_files(since, self._folders)

    def _news(self) -> KeptChanges:
        """What changed in the store; it is not asked again where its number says: nothing."""
        head, self._head = self._head, None
        if head is not None and head.version == self._version and not self._is_first:
            return hermes_state.KeptChanges(self._version, [], is_all=not self._version)
        return self._listed(self._version)

    def _take(self) -> None:
        """Give the home what changed in the store."""
        changes = self._news()
        if changes.is_all:  # a new home, or a store that was put back
            there = {file.path for file in changes.files}
            self._seen = {path: seen for path, seen in self._seen.items() if path in there}
        here = dict(self._files())
        for file in changes.files:
            self._take_file(file, here.get(file.path))
        self._version = changes.version
        # What is missing here without having been deleted comes back.
        lost = [path for path, seen in self._seen.items() if seen.digest and path not in here]
        lost = [path for path in lost if not (self._home / path).exists()]
        if lost:
            for file in self._listed().files:
                if file.path in lost:
                    self._put(file)

    def _take_file(self, file: KeptFile, here: Path | None) -> None:
        seen = self._seen.get(file.path)
        if seen is not None and seen.version == file.version:
            return
        if here is not None:
            content = here.read_bytes()
            is_edited = seen is None or _digest(content, _can_run(here)) != seen.digest
            if is_edited and content != file.content:
                self._put_aside(file.path, content)
        self._put(file)

    def _put(self, file: KeptFile) -> None:
        """Make a file of the home what the store has."""
        path = self._home / file.path
        if not _is_inside(self._home, file.path):
            log.warning("%s is left out: it would lie elsewhere", file.path)
            return
        if file.content is None:
            path.unlink(missing_ok=True)
            self._remove_empty(path.parent)
        else:
            private_folder(path.parent)
            write_private(path, file.content, mode=0o700 if file.executable else 0o600)
        self._note(file.path, file.version, file.content)

    def _put_aside(self, path: str, content: bytes) -> None:
        aside = self._home / "backups" / f"files-{time.strftime('%Y%m%d-%H%M%S')}" / path
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(aside, content)
        log.warning(
            "%s was changed here and on another machine; what was here is kept at %s", path, aside
        )

    def changes(self, *, with_deleted: bool) -> list[FileChange]:
        """What is different in the home from what the store is known to have."""
        changes, present = [], set()
        for name, path in self._files():
            present.add(name)
            seen = self._seen.get(name)
            if seen is not None and seen.stamp == _stamp(path):
                continue
            content = path.read_bytes()
            version = seen.version if seen is not None else 0
            if seen is not None and seen.digest == _digest(content, _can_run(path)):
                self._note(name, version, content)
            else:
                changes.append(hermes_state.FileChange(name, content, _can_run(path), version))
        if with_deleted:
            changes += [
                hermes_state.FileChange(name, None, version=seen.version)
                for name, seen in self._seen.items()
                if seen.digest and name not in present and not (self._home / name).exists()
            ]
        return changes

    def _store_changes(self, changes: list[FileChange]) -> bool:
        versions = self._db.change_kept_files(changes)
        if versions is None:
            return False
        self.note_stored(changes, versions)
        return True

    def note_stored(self, changes: list[FileChange], versions: dict[str, int]) -> None:
        """Note which versions our changes have got."""
        for change in changes:
            self._note(change.path, versions[change.path], change.content)
        # Versions in between belong to other machines, whose changes are still to be taken.
        own = [versions[change.path] for change in changes]
        if own and min(own) == self._version + 1 and max(own) == self._version + len(own):
            self._version = max(own)

    def _note(self, path: str, version: int, content: bytes | None) -> None:
        if content is None:
            self._seen[path] = _Seen(version, "", ())
        else:
            here = self._home / path
            self._seen[path] = _Seen(version, _digest(content, _can_run(here)), _stamp(here))

    def _files(self) -> Iterator[tuple[str, Path]]:
        """The files that are shared: their names below the home, and where they are."""
        count = 0
        for top in self._folders:
            for place, folders, names in os.walk(self._home / top):
                folders[:] = sorted(folder for folder in folders if not _is_left_out(folder))
                for name in sorted(names):
                    path = Path(place, name)
                    if _is_left_out(name) or path.is_symlink() or not path.is_file():
                        continue
                    if path.stat().st_size > hermes_state.KEPT_FILE_BYTES:
                        log.warning("%s is too large to be shared; it stays here", path)
                        continue
                    count += 1
                    if count > MOST_FILES:
                        log.warning("More than %d files are not shared", MOST_FILES)
                        return
                    yield path.relative_to(self._home).as_posix(), path

    def _remove_empty(self, folder: Path) -> None:
        tops = {self._home / top for top in self._folders}
        while folder not in tops and folder != self._home:
            try:
                folder.rmdir()
            except OSError:
                return  # something is in it
            folder = folder.parent

    def save(self) -> None:
        """Write the manifest."""
        files = dict(sorted(self._seen.items()))
        kept = {"store": self._store, "version": self._version, "files": files}
        text = json.dumps(kept, indent=0)
        path = self._manifest
        with contextlib.suppress(OSError):  # read again below
            if path.read_text(encoding="utf-8") == text:
                return
        write_private(path, text, durable=False)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read; the files are compared anew: %s", path, error)
        return {}
    return kept if isinstance(kept, dict) else {}


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name.endswith(".lock") or name == "__pycache__"


def _is_inside(home: Path, path: str) -> bool:
    """Whether a name of the store leads into the folders that are shared, and not out of them."""
    if ".." in PurePosixPath(path).parts or path.startswith("/"):
        return False
    space = space_of(path)
    if space is None:
        return False
    top = (home / space / PurePosixPath(path[len(space) :]).parts[0]).resolve()
    return (home / path).resolve().is_relative_to(top)


def _digest(content: bytes, can_run: bool) -> str:
    return f"{hashlib.sha256(content).hexdigest()}{'x' if can_run else ''}"


def _can_run(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _stamp(path: Path) -> tuple[int, ...]:
    facts = path.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size, facts.st_mode & 0o100
