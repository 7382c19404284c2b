"""Long output: the model gets its head and tail, and a handle to all of it.

The whole text, without its secrets, is kept in a private file in the Hermes home, which `read_file`
opens for the conversation that it belongs to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hermes_base.redaction import redact

from .own_folders import OUTPUT_FOLDER

KEPT_SECONDS = 7 * 86_400


def shortened(text: str, limit: int, folder: Path, name: str) -> str:
    """`text`, or its beginning and end with a note of where the whole of it is."""
    if len(text) <= limit:
        return text
    path = keep(text, folder, name)
    head = text[: limit * 2 // 3]
    tail = text[-(limit - len(head)) :]
    left_out = len(text) - len(head) - len(tail)
    note = f"[… {left_out:,} characters left out; read_file {path} shows all of it …]"
    return f"{head}\n\n{note}\n\n{tail}"


def keep(text: str, folder: Path, name: str) -> Path:
    """Keep a text, its secrets masked, in a private file for a week; returns its path."""
    _forget_old(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    safe = "".join(char if char.isalnum() else "-" for char in name)[:40]
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{os.urandom(4).hex()}.txt"
    try:
        descriptor = _create(path)
    except FileNotFoundError:  # another process has just removed the folder, which was empty
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _create(path)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(redact(text))
    return path


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def kept_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The kept files of every conversation, if `folder` is one's, or else those in `folder`."""
    whole = next((place for place in folder.parents if place.name == OUTPUT_FOLDER), folder)
    for place, _, names in os.walk(whole):  # unlike rglob, it passes over what has just gone
        for path in (Path(place, name) for name in names if name.endswith(".txt")):
            with suppress(OSError):  # another process removed it first
                yield path, path.stat()


def _forget_old(folder: Path) -> None:
    oldest = time.time() - KEPT_SECONDS
    for path, status in kept_files(folder):
        if status.st_mtime < oldest:
            with suppress(OSError):  # another process removed it first, or the folder is not empty
                path.unlink()
                path.parent.rmdir()
