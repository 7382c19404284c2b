"""A disk that fails on demand: full, read-only, with I/O errors, slow; for SQLite in this process.

SQLite asks the operating system through tables of functions, and these here are put into them: they
fail with the error numbers that a real disk gives, so that SQLite and the store do what they would
do then. (A VFS written in Python would not do: apsw raises its errors even where SQLite passes over
them, as in a checkpoint that may come later.)

    with faulty_disk(folder) as disk:
        db = SessionDB(folder / "state.db")
        with disk.failing("full"):
            db.append_message(...)      # raises StoreFullError
        db.append_message(...)          # goes on
        db.close()

What is mapped into memory (the -shm file,
once it is there) does not go through calls, and does not fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

KINDS = ("full", "read-only", "io", "slow")

_int, _size, _pointer, _offset = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "open": (_int, ctypes.c_char_p, _int, _int),
    "read": (ctypes.c_ssize_t, _int, _pointer, _size),
    "pread64": (ctypes.c_ssize_t, _int, _pointer, _size, _offset),
    "write": (ctypes.c_ssize_t, _int, _pointer, _size),
    "pwrite64": (ctypes.c_ssize_t, _int, _pointer, _size, _offset),
    "ftruncate": (_int, _int, _offset),
    "unlink": (_int, ctypes.c_char_p),
}
"""What each function returns and takes."""


class Disk:
    """What befalls the files in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = os.fsencode(folder.resolve())
        self._chance = random.Random(seed)
        self.fault: str | None = None
        self.likelihood = 1.0
        """How likely each call fails that can."""
        self.pause = 0.0
        """Seconds that a slow disk takes for each write."""
        self.failed: dict[str, int] = {}
        """How many calls of each function have failed."""

    @contextlib.contextmanager
    def failing(self, kind: str, likelihood: float = 1.0, pause: float = 0.002) -> Iterator[None]:
        """While this is entered, what can fail fails in that way."""
        assert kind in KINDS
        self.fault, self.likelihood, self.pause = kind, likelihood, pause
        try:
            yield
        finally:
            self.fault = None

    @property
    def failures(self) -> int:
        """How many calls have failed."""
        return sum(self.failed.values())

    def _befalls(self, name: str) -> bool:
        if self._chance.random() >= self.likelihood:
            return False
        self.failed[name] = self.failed.get(name, 0) + 1
        return True

    def error_for(self, name: str, file: int | bytes, *rest: int) -> int:
        """The error number with which this call fails; 0 if it does not."""
        fault = self.fault
        if fault is None or not self._is_ours(file):
            return 0
        if fault == "slow":
            if name in ("write", "pwrite64", "fsync"):
                time.sleep(self._chance.uniform(0, self.pause))
            return 0
        creates = name == "open" and bool(rest[0] & os.O_CREAT) and not os.path.exists(file)  # noqa: PTH110
        changes = name in ("write", "pwrite64", "ftruncate", "unlink")
        if fault == "full" and (creates or name in ("write", "pwrite64")):
            return errno.ENOSPC if self._befalls(name) else 0
        if fault == "read-only":
            writes = name == "open" and bool(rest[0] & (os.O_CREAT | os.O_RDWR))
            return errno.EROFS if (writes or changes) and self._befalls(name) else 0
        if fault == "io" and (changes or name in ("read", "pread64", "fsync")):
            return errno.EIO if self._befalls(name) else 0
        return 0

    def part_of(self, count: int) -> int:
        """How much of a write still finds room on a full disk."""
        return self._chance.randrange(count) if self._chance.random() < 0.5 else 0

    def _is_ours(self, file: int | bytes) -> bool:
        try:
            path = (
                file if isinstance(file, bytes) else bytes(Path(f"/proc/self/fd/{file}").readlink())
            )
        except OSError:
            return False
        return path.startswith(self._folder)


def _between(disk: Disk, name: str, real: Callable[..., int]) -> Callable[..., int]:
    """The function that SQLite calls in the place of `real`."""

    def call(*args: Any) -> int:
        number = disk.error_for(name, *args[:1], *(args[1:2] if name == "open" else ()))
        is_write = name in ("write", "pwrite64")
        if number == errno.ENOSPC and is_write and (part := disk.part_of(args[2])):
            return real(args[0], args[1], part, *args[3:])  # SQLite tries again with the rest
        if number:
            ctypes.set_errno(number)
            return -1
        return real(*args)

    return call


class _Flushes:
    """Stands between SQLite and `fsync`, by way of the tables that belong to its open files."""

    _FSYNC = 5 * ctypes.sizeof(ctypes.c_void_p)
    """Where a table keeps its xSync: behind the version, xClose, xRead, xWrite and xTruncate."""
    _DESCRIPTOR = 3 * ctypes.sizeof(ctypes.c_void_p)
    """Where an open file keeps its descriptor: behind three pointers."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._kept: list[tuple[Any, int, Any]] = []
        with tempfile.TemporaryDirectory() as folder:
            probe = apsw.Connection(f"{folder}/probe.db")
            probe.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").fetchall()
            for which in (apsw.SQLITE_FCNTL_FILE_POINTER, apsw.SQLITE_FCNTL_JOURNAL_POINTER):
                file = ctypes.c_void_p()
                probe.file_control("main", which, ctypes.addressof(file))
                assert file.value is not None
                self._stand_between(ctypes.c_void_p.from_address(file.value).value or 0)
            probe.close()

    def _stand_between(self, table: int) -> None:
        page = table & ~(os.sysconf("SC_PAGE_SIZE") - 1)
        length = table + 256 - page
        if self._libc.mprotect(ctypes.c_void_p(page), length, mmap.PROT_READ | mmap.PROT_WRITE):
            pytest.skip("the tables of SQLite cannot be changed here")
        form = ctypes.CFUNCTYPE(_int, _pointer, _int, use_errno=True)
        slot = ctypes.c_void_p.from_address(table + self._FSYNC)
        address = slot.value or 0
        real = form(address)

        def sync(file: int, flags: int) -> int:
            descriptor = ctypes.c_int.from_address(file + self._DESCRIPTOR).value
            if number := self._disk.error_for("fsync", descriptor):
                ctypes.set_errno(number)
                return apsw.SQLITE_IOERR_FSYNC
            return real(file, flags)

        put = form(sync)
        self._kept.append((slot, address, put))
        slot.value = ctypes.cast(put, ctypes.c_void_p).value

    def restore(self) -> None:
        for slot, address, _ in self._kept:
            slot.value = address


@contextlib.contextmanager
def faulty_disk(folder: Path, seed: int = 1) -> Iterator[Disk]:
    """Within this, SQLite's files in `folder` are on a disk that can be made to fail."""
    disk = Disk(folder, seed)
    system = apsw.VFS("hermes-faulty", "unix")
    flushes = _Flushes(disk)
    kept: list[tuple[str, int, Any]] = []
    try:
        for name, signature in _SIGNATURES.items():
            form = ctypes.CFUNCTYPE(*signature, use_errno=True)
            address = system.xGetSystemCall(name)
            put = form(_between(disk, name, form(address)))
            kept.append((name, address, put))  # alive as long as SQLite may call it
            system.xSetSystemCall(name, ctypes.cast(put, ctypes.c_void_p).value)
        yield disk
    finally:
        for name, address, _ in kept:
            system.xSetSystemCall(name, address)
        flushes.restore()
        system.unregister()
