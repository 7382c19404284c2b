"""What an adapter keeps for its next connection: a login, a place in a stream.

On the shelf of the store where several gateways share that, else in private files of the home. A
place is written only after everything before it was stored, and is flushed to the disk before it
takes the old one's place: at worst messages come again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

from .host import AdapterHost, Shelf

log = logging.getLogger(__name__)


class KeptFacts:
    """Facts by name, each a mapping."""

    def __init__(self, home: Path, shelf: Shelf | None = None) -> None:
        self._folder = home / "gateway"
        self._shelf = shelf

    @classmethod
    def of(cls, host: AdapterHost) -> KeptFacts:
        """Where the adapter of this host keeps its facts."""
        return cls(host.home, host.shelf)

    def read(self, name: str) -> dict[str, Any]:
        """What was kept under a name; empty if that is nothing, or unreadable."""
        if self._shelf is not None:
            kept = self._shelf.read().get(name)
            if isinstance(kept, dict):
                return kept
        return self._read_file(name)  # also what was kept before the store was shared

    def write(self, name: str, facts: Mapping[str, Any]) -> None:
        """Keep facts instead of those before."""
        if self._shelf is not None:
            self._shelf.write({name: dict(facts)})
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._folder / f"{name}.json", json.dumps(dict(facts)))

    def _read_file(self, name: str) -> dict[str, Any]:
        path = self._folder / f"{name}.json"
        try:
            facts = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read and is begun anew: %s", path, error)
            return {}
        return facts if isinstance(facts, dict) else {}
