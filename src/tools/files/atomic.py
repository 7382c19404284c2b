"""One file, read whole and replaced whole.

New content is written to a temporary file in the same folder, flushed to the disk and renamed over
the old file: at any moment, also after a crash, the file is the old or the new one, complete. The
rename happens only if the file is still the one that was looked at.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass
from itertools import islice

from ..base import ToolError
from .guard import Folder, Swapped, open_regular

HELD = 16 * 1024 * 1024
"""Larger files are not held in memory: they can be read in part, but not patched or kept."""

_TEMPORARY = re.compile(r"\.hermes-[0-9a-f]{16}\.tmp")
_ABANDONED_SECONDS = 3_600
_CARRIED_OVER = ("user.", "system.posix_acl_access")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A regular file at one moment."""

    data: bytes | None
    """Its content; None if it is too large to be held."""
    digest: str | None
    """SHA-256 of the content, if it was held."""
    info: os.stat_result

    @property
    def mode(self) -> int:
        """Its permissions."""
        return stat.S_IMODE(self.info.st_mode)

    @property
    def owner(self) -> tuple[int, int]:
        """The user and group it belongs to."""
        return self.info.st_uid, self.info.st_gid


def digest_of(data: bytes) -> str:
    """The name that content has here and in checkpoints."""
    return hashlib.sha256(data).hexdigest()


def identity(info: os.stat_result) -> tuple[int, ...]:
    """What changes if a file is replaced or written to."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def take_snapshot(
    folder: Folder, name: str, forbidden: frozenset[tuple[int, int]] = frozenset()
) -> Snapshot | None:
    """The file as it is now, or None if there is none; ToolError if it is no regular file."""
    for _ in range(5):
        try:
            fd = open_regular(name, folder, forbidden)
        except FileNotFoundError:
            return None
        except Swapped:
            continue
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if info.st_size > HELD:
                return Snapshot(None, None, info)
            data = file.read(HELD + 1)
            if identity(os.fstat(fd)) == identity(info) and len(data) == info.st_size:
                return Snapshot(data, digest_of(data), info)
    raise ToolError(f"{folder.path / name} is being written to right now. Try again.")


def stage(
    folder: Folder, name: str, data: bytes, mode: int, owner: tuple[int, int] | None = None
) -> str:
    """Put what is to become the file `name` on the disk; returns the temporary name it has.

    With an owner (user, group) it gets that and exactly this mode, and the attributes of the file
    that has the name already. Without, it is a new file: the umask applies.
    """
    _sweep(folder)
    temporary = _temporary_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o600 if owner else mode, dir_fd=folder.fd)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if owner:
                _take_over(fd, name, folder, mode, owner)
            os.fsync(fd)
    except BaseException:
        discard(folder, temporary)
        raise
    return temporary


def _temporary_name() -> str:
    return f".hermes-{os.urandom(8).hex()}.tmp"


def _take_over(fd: int, name: str, folder: Folder, mode: int, owner: tuple[int, int]) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != owner:
        try:
            os.fchown(fd, *owner)
        except PermissionError as error:
            raise ToolError(
                f"{folder.path / name} belongs to somebody else (user {owner[0]}, group "
                f"{owner[1]}), and replacing it would change that. Use the terminal instead."
            ) from error
    os.fchmod(fd, mode)
    _take_over_attributes(fd, name, folder)


def _take_over_attributes(fd: int, name: str, folder: Folder) -> None:
    """Carry access lists and user attributes over to the file that takes another's place."""
    if not hasattr(os, "listxattr"):
        return
    try:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder.fd)
    except FileNotFoundError:
        return  # a file that was moved here from another name
    try:
        for attribute in os.listxattr(old):
            if attribute.startswith(_CARRIED_OVER):
                os.setxattr(fd, attribute, os.getxattr(old, attribute))
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # a file system without attributes has none to carry
            raise
    finally:
        os.close(old)


def check_unchanged(folder: Folder, name: str, expected: Snapshot | None) -> None:
    """ToolError if the file is not exactly the one that was looked at."""
    try:
        info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        if expected is None:
            return
    else:
        if expected is not None and identity(info) == identity(expected.info):
            return
    raise _changed(folder, name)


def _changed(folder: Folder, name: str) -> ToolError:
    return ToolError(
        f"{folder.path / name} was changed by something else just now; nothing was written to it. "
        "Read it again, then repeat the edit."
    )


def put(folder: Folder, temporary: str, name: str, expected: Snapshot | None) -> None:
    """Give staged content its name, in place of the file that was expected there."""
    check_unchanged(folder, name, expected)
    if expected is None:
        _put_new(folder, temporary, name)
    else:
        os.replace(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _put_new(folder: Folder, temporary: str, name: str) -> None:
    # A link, unlike a rename, never replaces what somebody else created in the meantime.
    try:
        os.link(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except FileExistsError as error:
        raise ToolError(
            f"{folder.path / name} was created by something else just now. Read it first."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.replace(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    else:
        discard(folder, temporary)


def set_aside(folder: Folder, name: str, old: Snapshot) -> tuple[str, Snapshot]:
    """Keep a file reachable under a temporary name, to put it back if a later step fails.

    Returns that name, and the file as it is then: another name changes a file's change time.
    """
    check_unchanged(folder, name, old)
    aside = _temporary_name()
    try:
        os.link(name, aside, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS or old.data is None:
            raise
        return stage(folder, name, old.data, old.mode, old.owner), old
    info = os.stat(aside, dir_fd=folder.fd, follow_symlinks=False)
    if identity(info)[:4] != identity(old.info)[:4]:
        discard(folder, aside)
        raise _changed(folder, name)
    return aside, Snapshot(old.data, old.digest, info)


def discard(folder: Folder, name: str) -> None:
    """Remove a temporary file, if it is still there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder.fd)


def flush(folder: Folder) -> None:
    """Make the names in a folder durable."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.fd)
    except PermissionError:
        return  # a folder that one may write to but not list cannot be flushed either
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sweep(folder: Folder) -> None:
    """Remove half-written files of a killed process, if the folder is small enough to list."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder.fd)
    except PermissionError:
        return
    oldest = time.time() - _ABANDONED_SECONDS
    try:
        with os.scandir(fd) as entries:
            for entry in islice(entries, 2_000):
                if not _TEMPORARY.fullmatch(entry.name):
                    continue
                with contextlib.suppress(OSError):  # another process was first, or it is not ours
                    info = entry.stat(follow_symlinks=False)
                    if info.st_ctime < oldest and stat.S_ISREG(info.st_mode):
                        os.unlink(entry.name, dir_fd=folder.fd)
    finally:
        os.close(fd)
