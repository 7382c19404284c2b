"""One cell of the table: a property, an implementation, its share of the kills, its own chance.

The chance of each cell comes from the seed and the cell's name alone, so a cell that failed can be
run again by itself. What the seed decides is where the kills fall; how far a process has come at a
`moment` is the machine's affair.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from .adapter import Death, Implementation, Talk, effects
from .checks import invented, lost, wrong_effects
from .script import Message

PROMPTS = 2
"""How many prompts a process gets before it is killed."""
CHAIN = 20
"""How many kills one home sees before a fresh one is begun with."""
LONGEST_MOMENT = 0.08
"""Seconds after the first prompt within which the kills at a moment fall."""


_TALK_WRITES: dict[str, int] = {}


class Home:
    """A home, and everything that was said to be safe in it."""

    def __init__(self, cell: Cell, path: Path) -> None:
        self.cell, self.path = cell, path
        self.sent: list[str] = []
        self.accepted: list[str] = []
        self.answered: list[str] = []

    def talk(self, death: Death | None = None, prompts: int = PROMPTS) -> Talk:
        """New prompts for one process; keeps what was acknowledged."""
        names = [f"p{len(self.sent) + n}" for n in range(1, prompts + 1)]
        talk = self.cell.implementation.talk(self.path, names, death)
        # The first that was not accepted may have arrived all the same; those behind it were
        # never sent, and their names are free again.
        self.sent += names[: len(talk.accepted) + 1]
        self.accepted += talk.accepted
        self.answered += talk.answered
        if death is not None and len(talk.answered) < prompts:
            self.cell.cut_off += 1
        return talk

    def copy(self) -> Path:
        """The home as it is on disk: the copy is looked at, the original is left as the crash."""
        target = self.cell.new_folder()
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return target

    def look(self, where: Path | None = None) -> list[Message]:
        """The history, after checking all that must hold of it at any time."""
        path = where or self.path
        implementation = self.cell.implementation
        history, waiting = implementation.history(path), implementation.waiting(path)
        self.cell.require(invented(history))
        self.cell.require(lost(history, waiting, self.sent, self.accepted, self.answered))
        self.cell.require(wrong_effects(history, effects(path), self.sent))
        return history


class Cell:
    """Kills processes, and collects what did not hold."""

    def __init__(
        self, name: str, implementation: Implementation, folder: Path, seed: int, share: int
    ) -> None:
        self.name, self.implementation, self.share = name, implementation, share
        self.chance = random.Random(f"{seed}:{name}:{implementation.name}")
        self.kills = 0
        self.cut_off = 0
        """How many talks ended before everything was answered."""
        self.violations: list[str] = []
        self._folder = folder
        self._numbers = itertools.count(1)
        self._last: Death | None = None

    def new_folder(self) -> Path:
        """An empty folder."""
        path = self._folder / str(next(self._numbers))
        path.mkdir(parents=True)
        return path

    def new_home(self) -> Home:
        """A fresh home; those before it are done with."""
        for folder in self._folder.iterdir():
            shutil.rmtree(folder)
        home = Home(self, self.new_folder())
        self.implementation.begin(home.path)
        return home

    def talk_writes(self) -> int:
        """How many writes a talk in a fresh home makes: so many points to die at."""
        name = self.implementation.name
        if name not in _TALK_WRITES:
            home = self.new_home()
            home.talk()
            _TALK_WRITES[name] = self.implementation.writes(home.path)
        return _TALK_WRITES[name]

    def goes_on(self) -> bool:
        """Whether there are kills left to make."""
        return self.kills < self.share

    def points(self, writes: int, effects: int = 0, moments: bool = False) -> Iterator[Death]:
        """Every named point once, in random order, over and over; with `moments` between them."""
        if not effects:
            writes = max(1, writes)  # a process that writes nothing is killed at its end
        named = [
            Death(where, number)
            for where in ("before", "during", "after")
            for number in range(1, writes + 1)
        ]
        named += [
            Death(where, number)
            for where in ("tool-before", "tool-after")
            for number in range(1, effects + 1)
        ]
        while True:
            for death in self.chance.sample(named, len(named)):
                if moments and self.chance.random() < 0.25:
                    yield Death("moment", self.chance.uniform(0, LONGEST_MOMENT))
                yield death

    def kill(self, death: Death) -> Death:
        """Count a kill; what is found wrong from now on is told with it."""
        self.kills += 1
        self._last = death
        return death

    def require(self, faults: list[str]) -> None:
        """There should be no faults."""
        self.violations += [f"kill {self.kills} ({self._last}): {fault}" for fault in faults]
