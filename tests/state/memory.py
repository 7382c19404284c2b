"""Folders that no disk is behind, for tests of very many small writes."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SHARED = Path("/dev/shm")
_ROOM = 2**30
"""Bytes that must be free there: a container may have very little."""


def _place() -> Path | None:
    if not os.access(_SHARED, os.W_OK) or shutil.disk_usage(_SHARED).free < _ROOM:
        return None
    return _SHARED


MEMORY = _place()
"""A folder in memory, where the system has such a thing with room in it; for `tempfile`, too."""


@contextlib.contextmanager
def memory_folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory where the system has such a thing, else the given one."""
    if MEMORY is None:
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="hermes-test-") as folder:
        yield Path(folder)
