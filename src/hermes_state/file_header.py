"""The first 100 bytes of a database file: what must stand there, and fixing it in a copy.

One wrong byte there can make SQLite see no table at all, or let it write over what it should not.
What it should say is known: the settings never change, and the rest follows from the file's size.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw

LENGTH = 100
_MAGIC = b"SQLite format 3\0"
_FRACTIONS = bytes((64, 32, 32))
_PAGE_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)
_BLOCK = 1 << 20
_MOST_STEPS = 100
"""A `user_version` beyond this is no version of ours, however new."""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[apsw.VFSFile]:
    """The file as SQLite itself opens it: closing it drops nobody's locks."""
    flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
    file = apsw.VFSFile("", str(path), flags)
    try:
        yield file
    finally:
        file.xClose()


def read_header(path: Path) -> bytes:
    """The header of the file; empty for a file that is shorter."""
    with _opened(path) as file:
        return bytes(file.xRead(LENGTH, 0)) if file.xFileSize() >= LENGTH else b""


def is_wrong(header: bytes) -> bool:
    """Whether the header says what no store of ours does, so that SQLite cannot work with it."""
    if not header:
        return False
    schema_format, encoding = _number(header, 44), _number(header, 56)
    return (
        header[:16] != _MAGIC
        or header[18] not in (1, 2)
        or header[19] not in (1, 2)
        or header[21:24] != _FRACTIONS
        or schema_format > 4
        or encoding > 1
        or _number(header, 60) > _MOST_STEPS
    )


def is_doubtful(header: bytes) -> bool:
    """Whether it says what a store of ours rarely does; only a look at the file can tell."""
    return bool(header) and (
        header[20] != 0
        or _number(header, 52) != 0
        or _number(header, 64) != 0
        or (_number(header, 32) == 0) != (_number(header, 36) == 0)
    )


def says_too_few(path: Path, header: bytes) -> bool:
    """Whether the file has more pages than its header says; SQLite would not read the others.

    With a log beside it that may well be so: the header follows with the log's last pages.
    """
    if not header or _number(header, 24) != _number(header, 92):
        return False  # then SQLite goes by the size of the file
    with contextlib.suppress(FileNotFoundError):
        if path.with_name(path.name + "-wal").stat().st_size:
            return False
    page_size = struct.unpack_from(">H", header, 16)[0]
    size = _number(header, 28) * (65536 if page_size == 1 else page_size)
    return 0 < size < path.stat().st_size


def _number(header: bytes, offset: int) -> int:
    return int(struct.unpack_from(">I", header, offset)[0])


def make_fixed_copy(path: Path, copy: Path) -> bool:
    """Copy a damaged database and fix the header of the copy; False if that does not help."""
    with _opened(path) as source, copy.open("wb") as target:
        copy.chmod(0o600)
        size = source.xFileSize()
        for offset in range(0, size, _BLOCK):
            target.write(source.xRead(min(_BLOCK, size - offset), offset))
    if size < LENGTH:
        return False
    wal = path.with_name(path.name + "-wal")
    wal_copy = copy.with_name(copy.name + "-wal")
    with contextlib.suppress(FileNotFoundError):
        wal_copy.write_bytes(wal.read_bytes())
        wal_copy.chmod(0o600)
    with copy.open("rb") as file:
        header = file.read(LENGTH)
    own = struct.unpack_from(">H", header, 16)[0]
    for page_size in dict.fromkeys((65536 if own == 1 else own, *_PAGE_SIZES)):
        if page_size not in _PAGE_SIZES:
            continue
        with copy.open("r+b") as file:
            file.write(_mended(header, page_size, size // page_size, wal_copy.exists()))
        if _is_readable(copy):
            return True
    return False


def _mended(header: bytes, page_size: int, pages: int, with_log: bool) -> bytes:
    fixed = bytearray(header)
    fixed[:16] = _MAGIC
    struct.pack_into(">H", fixed, 16, 1 if page_size == 65536 else page_size)
    fixed[18] = fixed[19] = 2 if with_log else 1
    fixed[20] = 0
    fixed[21:24] = _FRACTIONS
    version = _number(header, 60)
    for offset, number in {
        28: pages,
        32: 0,  # free pages are of no interest to whoever only reads
        36: 0,
        44: 4,
        52: 0,
        56: 1,
        60: version if version <= _MOST_STEPS else 0,
        64: 0,
        92: _number(header, 24),
    }.items():
        struct.pack_into(">I", fixed, offset, number)
    return bytes(fixed)


def _is_readable(path: Path) -> bool:
    """Whether SQLite finds messages in the file."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            # The log belongs to the copy, and is left as it is.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("SELECT * FROM messages LIMIT 1").fetchall()
    except (apsw.Error, UnicodeDecodeError):
        return False
    return True
