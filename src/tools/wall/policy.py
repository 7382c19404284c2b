"""What a wall lets through, independent of how it is built."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

TERMINAL_SIZE = (40, 120)
"""Rows and columns of a pseudo-terminal that a command gets."""
Network = Literal["none", "proxy", "full"]

_SCRATCH, _STATES = "tmp", "state"


def own_places(folder: Path) -> tuple[Path, Path]:
    """What can be written in the private folder of a wall: temporary files, states of shells."""
    return folder / _SCRATCH, folder / _STATES


@dataclass(frozen=True, slots=True)
class Wall:
    """Everything but `hidden` can be read, only `writable` can be changed.

    Of two paths of which one is inside the other, the inner one's rule holds. All are real paths.
    """

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    """Places inside hidden or temporary ones that are shown after all."""
    network: Network = "proxy"
    folder: Path | None = None
    """A private folder of the wall, to be read inside and written by the agent alone, but for the
    two folders in it that `own_places` names; `tmp` becomes /tmp where that is possible."""

    hosts: tuple[str, ...] = ()
    """Hosts that may be reached without a question."""

    @property
    def scratch(self) -> Path | None:
        """Where temporary files are kept."""
        return self.folder and own_places(self.folder)[0]

    @property
    def empty(self) -> Path:
        """A file with nothing in it, to be shown in the place of a hidden one."""
        return self.folder / "empty" if self.folder else Path(os.devnull)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written but its own files, and nothing connects."""
        own = own_places(self.folder) if self.folder else ()
        return self.network == "none" and set(self.writable) <= set(own)

    def prepare(self) -> None:
        """Make the private folder."""
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in own_places(self.folder):
                place.mkdir(mode=0o700, exist_ok=True)
            self.empty.touch(mode=0o400)

    def with_more(
        self, paths: tuple[Path, ...], hosts: tuple[str, ...], *, whole_network: bool
    ) -> Wall:
        """A wall with these further places to write to, and more of the network."""
        return replace(
            self,
            writable=tuple(dict.fromkeys((*self.writable, *paths))),
            hosts=tuple(sorted({*self.hosts, *hosts})),
            network="full" if whole_network else self.network,
        )

    def may_write(self, path: Path) -> bool:
        """Whether a real path can be changed from inside."""
        return self._rule(path) == "writable"

    def may_read(self, path: Path) -> bool:
        """Whether a real path can be seen from inside."""
        return self._rule(path) != "hidden"

    def _rule(self, path: Path) -> str:
        """The rule of the innermost place that `path` is in."""
        rules = dict.fromkeys(self.writable, "writable")
        rules |= dict.fromkeys(self.readable, "readable")
        rules |= {place: "hidden" for place in self.hidden if place not in rules}
        for place in (path, *path.parents):
            if place in rules:
                return rules[place]
        return "readable"
