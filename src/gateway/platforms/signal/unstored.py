"""What the daemon has handed out, on disk until it is stored.

signal-cli hands a message out once. Each is put down here as soon as it is read, before its files
are fetched and whatever it has to wait for; a gateway that is killed finds it when it starts again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


class Unstored:
    """A private file in `<home>/gateway`, a line for each message."""

    def __init__(self, home: Path) -> None:
        self._path = home / "gateway" / "signal-unstored.jsonl"

    def add(self, envelope: Mapping[str, Any]) -> None:
        """Keep an envelope. It is in the system's hands, not flushed to the disk: a killed process
        loses nothing, a machine without power may lose the last moment."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = os.open(self._path, flags, 0o600)
        try:
            # The line before it may be torn.
            os.write(file, b"\n" + json.dumps(dict(envelope)).encode() + b"\n")
        finally:
            os.close(file)

    def clear(self) -> None:
        """Everything is stored, or nothing to us."""
        self._path.unlink(missing_ok=True)

    def read(self) -> list[dict[str, Any]]:
        """What was put down, oldest first; the last line may be torn."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for line in filter(None, lines):
            try:
                envelope = json.loads(line)
            except ValueError:
                log.warning("A line of %s cannot be read", self._path)
                continue
            if isinstance(envelope, dict):
                found.append(envelope)
        return found
