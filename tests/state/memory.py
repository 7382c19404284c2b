"""Folders that no disk is behind, for tests of very many small writes."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def memory_folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory where the system has such a thing, else the given one."""
    if not os.access(_MEMORY, os.W_OK):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="hermes-test-") as folder:
        yield Path(folder)
