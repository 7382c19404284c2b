"""Long output: the model gets its head and tail, and a handle to all of it.

The whole text, without its secrets, is kept in a private file in the Hermes home, which `read_file`
opens like any other.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from hermes_state.redact import redact

OUTPUT_FOLDER = "tool-output"
"""In the Hermes home: what was too long for a result."""
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
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _forget_old(folder)
    safe = "".join(char if char.isalnum() else "-" for char in name)[:40]
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{os.urandom(4).hex()}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(redact(text))
    return path


def _forget_old(folder: Path) -> None:
    oldest = time.time() - KEPT_SECONDS
    for path in folder.glob("*.txt"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue  # somebody else was first
