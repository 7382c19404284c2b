"""Where the file tools may go, and how they get there without being led astray.

A path is resolved once, links included. What is checked (by the approval guard, for its kind) is
that real path, and from then on its folders are opened one by one without following links: a link
that is swapped in after the check makes the call fail, it is never followed. Only regular files
are opened, never devices, pipes or the kernel's pseudo files, so that no call can block.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ..base import ToolContext, ToolError
from ..own_folders import Belongings

_PSEUDO = (Path("/proc"), Path("/sys"))
# A folder needs only the right to pass through it where the system can tell the two apart.
_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_NAMES_LOOKED_AT = 5_000
_LOOK_FOR_IT = "Look for it with search_files(target='files')."

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}

_REASONS = {
    errno.ENOSPC: "the disk is full. Free some space, then try again",
    errno.EDQUOT: "the disk quota is used up. Free some space, then try again",
    errno.EFBIG: "it would be larger than files may be here",
    errno.EROFS: "it is on a read-only file system. Choose another place",
    errno.EACCES: "permission denied. Choose another place, or ask the user",
    errno.EPERM: "the system does not permit it. Choose another place, or ask the user",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.ELOOP: "a symbolic link is in the way. Use the real path",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENOENT: "it is not there (any more)",
    errno.EMFILE: "too many files are open. Change fewer files at once",
}


class Swapped(ToolError):
    """A file became another one between looking at it and opening it."""


def explain(error: OSError, path: Path, doing: str) -> ToolError:
    """What the system refused, as the model should read it."""
    reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
    return ToolError(f"Cannot {doing} {path}: {reason}.")


def real_path(context: ToolContext, path: str) -> Path:
    """The real path that a path written by the model or user leads to; it need not exist.

    What another conversation keeps in the Hermes home does not exist here.
    """
    if not path.strip():
        raise ToolError("The path is empty. Give the path of a file.")
    try:
        if "\0" in path:
            raise ValueError("it contains a NUL character")
        os.fsencode(path)
        real = context.resolve(path).resolve()
    except OSError as error:
        raise explain(error, Path(path), "find") from error
    except (RuntimeError, ValueError) as error:  # an unknown ~user, a loop of links, odd characters
        raise ToolError(f"{path!r} is not a usable path: {error}.") from error
    if Belongings(context).is_anothers(real):
        # The same whether or not there is such a file, and without names that come near.
        raise ToolError(f"{path} does not exist. {_LOOK_FOR_IT}")
    return real


def may_write(context: ToolContext, path: Path) -> None:
    """Ask the approval guard whether a file may be changed; ToolError if not."""
    from tools import approval

    approval.guard_write(context, path)


def may_read(context: ToolContext, path: Path) -> None:
    """Ask the approval guard whether a file may be read; ToolError if not."""
    from tools import approval

    approval.guard_read(context, path)


def needs_approval(context: ToolContext) -> Callable[[str], bool]:
    """A predicate on real paths: whether reading that file needs approval."""
    from tools import approval

    return approval.needs_approval_to_read(context)


def own_databases(home: Path) -> frozenset[tuple[int, int]]:
    """Device and inode of the databases in the Hermes home.

    Opening and closing one of them would drop the locks that SQLite holds for this process.
    """
    identities = set()
    for path in home.glob("*.db*"):
        try:
            info = path.stat()
        except OSError:
            continue  # gone meanwhile, as journals do
        identities.add((info.st_dev, info.st_ino))
    return frozenset(identities)


def check_regular(
    info: os.stat_result, path: Path, forbidden: frozenset[tuple[int, int]] = frozenset()
) -> None:
    """Refuse everything but a regular file on an ordinary file system that is not forbidden."""
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "no regular file")
        raise ToolError(f"{path} is {kind}, not a file with content. Choose a regular file.")
    if any(path.is_relative_to(place) for place in _PSEUDO) or _is_pseudo(info):
        raise ToolError(
            f"{path} is a pseudo file of the kernel; the file tools leave those alone. "
            "Use the terminal if you need it."
        )
    if (info.st_dev, info.st_ino) in forbidden:
        raise ToolError(
            f"{path} is a database of Hermes itself, which only Hermes may open. "
            "Use session_search to look into past conversations."
        )


def _is_pseudo(info: os.stat_result) -> bool:
    """Whether a file lives on the same device as /proc or /sys, whatever its path says."""
    ordinary = Path("/").stat().st_dev
    for place in _PSEUDO:
        try:
            device = place.stat().st_dev
        except OSError:
            continue  # not on this system
        if device not in (ordinary, 0) and info.st_dev == device:
            return True
    return False


@dataclass(slots=True)
class Folder:
    """An open folder: what is done through it happens there, whatever becomes of its path."""

    fd: int
    path: Path
    made: list[Path] = field(default_factory=list)
    """Folders that were created on the way, outermost first."""


@contextmanager
def open_folder(path: Path, *, make: bool = False, private: bool = False) -> Iterator[Folder]:
    """Open a folder by its real path, following no link; `make` creates what is missing."""
    made: list[Path] = []
    fd = os.open("/", _PASS_THROUGH)
    try:
        at = Path("/")
        for part in path.parts[1:]:
            at /= part
            if make and _mkdir(part, fd, 0o700 if private else 0o777):
                made.append(at)
            deeper = os.open(part, _PASS_THROUGH, dir_fd=fd)
            os.close(fd)
            fd = deeper
        yield Folder(fd, path, made)
    finally:
        os.close(fd)


def _mkdir(name: str, fd: int, mode: int) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        try:
            os.mkdir(name, mode, dir_fd=fd)
        except FileExistsError:
            return False  # somebody else was first
        return True
    return False


def open_regular(name: str, folder: Folder, forbidden: frozenset[tuple[int, int]]) -> int:
    """Open a regular file for reading, never blocking, never through a link."""
    path = folder.path / name
    info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    check_regular(info, path, forbidden)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(name, flags, dir_fd=folder.fd)
    try:
        opened = os.fstat(fd)
        check_regular(opened, path)
        if (opened.st_dev, opened.st_ino) != (info.st_dev, info.st_ino):
            raise Swapped(f"{path} was replaced while it was being opened. Try again.")
    except BaseException:
        os.close(fd)
        raise
    return fd


def missing(path: Path, asked: str) -> ToolError:
    """An error for a missing file, with the most similar names."""
    at = path
    while not at.parent.is_dir() and at.parent != at:
        at = at.parent
    try:
        names = [entry.name for entry in islice(at.parent.iterdir(), _NAMES_LOOKED_AT)]
    except OSError:
        names = []  # a folder that may not be listed has no suggestions to give
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(at.name.lower(), lowered, n=3, cutoff=0.6)
    if at != path:
        what = f"{asked} does not exist: there is no {at.name!r} in {at.parent}."
    else:
        what = f"{asked} does not exist."
    if near:
        return ToolError(f"{what} Near it: {', '.join(str(at.parent / lowered[n]) for n in near)}.")
    return ToolError(f"{what} {_LOOK_FOR_IT}")
