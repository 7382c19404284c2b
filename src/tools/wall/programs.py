"""Programs that are not of one conversation, each in a wall of its own: MCP servers, shell hooks.

They may write where the person said, in the caches of the usual tools and in a temporary folder of
their own; they see neither keys nor the Hermes home. The network is theirs unless it was closed:
the person chose the program, and most of them are there to reach something.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .kinds import means
from .places import (
    OWN_PROGRAMS,
    hidden_places,
    kept_in_place,
    real_places,
    run_by_git,
    writable_caches,
)
from .policy import Wall, own_places
from .warden import alone


@dataclass(frozen=True, slots=True)
class ProgramWall:
    """What the person said about a program's wall."""

    roots: tuple[str, ...] = ()
    network: bool = True
    sandbox: str = "auto"

    def confine(
        self, argv: Sequence[str], environ: Mapping[str, str], home: Path, folder: Path
    ) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        """How to start a program: its words, its variables, and descriptors to pass on.

        The caller closes the descriptors once it has started it, and deletes `folder` when it has
        ended. FileNotFoundError if there is no such program; OSError if a wall is required and
        there can be none.
        """
        available = means()
        if shutil.which(argv[0], path=environ.get("PATH")) is None:
            raise FileNotFoundError(argv[0])
        if self.sandbox == "off" or available.kind in ("none", "sandbox-exec"):
            if self.sandbox == "required":
                raise OSError(
                    f"it may run inside a wall only, and there can be none: {available.why}"
                )
            return list(argv), dict(environ), ()
        wall = self.wall(home, folder)
        wall.prepare()
        words, descriptor = alone(wall, available, argv)
        scratch = "/tmp" if available.kind == "bubblewrap" else str(wall.scratch)
        return words, {**environ, "TMPDIR": scratch}, (descriptor,)

    def wall(self, home: Path, folder: Path) -> Wall:
        """What the program may do."""
        person = Path.home()
        roots = real_places(Path(root).expanduser() for root in self.roots)
        return Wall(
            (*roots, *writable_caches(person), *own_places(folder), *kept_in_place(roots)),
            hidden_places(home, os.environ),
            (*real_places([person]), *OWN_PROGRAMS, folder, *run_by_git(roots, within=True)),
            "full" if self.network else "none",
            folder,
        )
