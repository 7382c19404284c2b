"""One cell of the table: a property, an implementation, its share of the kills, its own chance.

The chance of each cell comes from the seed and the cell's name alone, so a cell that failed can be
run again by itself. What the seed decides is where the kills fall; how far a process has come at a
`moment` is the machine's affair.
"""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import postgres, server_store
from .adapter import ATTEMPTS, SERVER_DEATHS, Death, Implementation, Talk, effects
from .checks import closed_turns, invented, lost, unknown_results, wrong_effects
from .counter import counter
from .script import Message, marks

PROMPTS = 2
"""How many prompts a process gets before it is killed."""
EFFECTS = PROMPTS * len(marks(""))
"""How many effects that makes."""
CHAIN = 20
"""How many kills one home sees before a fresh one is begun with."""
MOMENTS = 0.5
"""Which part of the kills falls at random moments; the others fall at named points."""

OF_SERVER = 0.5
"""How often, with a store on a server, that dies at a named point before the process does."""

_numbers = itertools.count(1)
_talks: dict[str, tuple[int, float]] = {}


class Home:
    """A home, and everything that was said to be safe in it."""

    def __init__(self, cell: Cell, path: Path) -> None:
        self.cell, self.path = cell, path
        self.sent: list[str] = []
        self.accepted: list[str] = []
        self.answered: list[str] = []
        self.deaths = 0
        """How many processes were killed at a point of our choice."""
        self._deaths_before: dict[str, int] = {}
        """How many that were when a prompt was sent."""

    def talk(self, death: Death | None = None, prompts: int = PROMPTS) -> Talk:
        """New prompts for one process; keeps what was acknowledged."""
        names = [f"p{len(self.sent) + n}" for n in range(1, prompts + 1)]
        talk = self.cell.implementation.talk(self.path, names, death)
        # The first that was not accepted may have arrived all the same; those behind it were
        # never sent, and their names are free again.
        sent = names[: len(talk.accepted) + 1]
        self._deaths_before |= dict.fromkeys(sent, self.deaths)
        self.sent += sent
        self.accepted += talk.accepted
        self.answered += talk.answered
        if death is not None:
            self.died(self.path)
            self.cell.cut_off += len(talk.answered) < prompts
        return talk

    def recover(self, path: Path | None = None, death: Death | None = None) -> None:
        """Recover this home, or a copy of it."""
        path = path or self.path
        self.cell.implementation.recover(path, death)
        if death is not None:
            self.died(path)

    def died(self, path: Path) -> None:
        """A process was killed."""
        self.deaths += 1
        self.cell.note_death(path)

    def copy(self) -> Path:
        """The home as it is on disk: the copy is looked at, the original is left as the crash."""
        target = self.cell.new_folder()
        # Without the sockets of programs that run, or were killed.
        shutil.copytree(
            self.path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("events")
        )
        if server_store.is_wanted():
            postgres.copy_database(self.path / "state.db", target / "state.db")
        counter().copy(self.path.name, target.name)
        return target

    def look(self, where: Path | None = None, *, recovered: bool = False) -> list[Message]:
        """The history, after checking all that must hold of it at any time.

        Once it is `recovered`, nothing waits and no turn is open any more.
        """
        path = where or self.path
        implementation = self.cell.implementation
        history, waiting = implementation.history(path), implementation.waiting(path)
        require = self.cell.require
        require(invented(history, open_end=not recovered))
        require(lost(history, waiting, self.sent, self.accepted, self.answered))
        require(wrong_effects(history, effects(path), self.sent))
        if recovered and waiting:
            require([f"{waiting} still wait"])
        for name in closed_turns(history):
            if self.deaths - self._deaths_before[name] < ATTEMPTS:
                require([f"the turn {name} was closed, and could have been finished"])
        if unknown_results(history) > self.deaths:
            require([f"{unknown_results(history)} results unknown after {self.deaths} deaths"])
        return history


class Cell:
    """Kills processes, and collects what did not hold."""

    def __init__(
        self, name: str, implementation: Implementation, folder: Path, seed: int, share: int
    ) -> None:
        self.name, self.implementation, self.share = name, implementation, share
        self.chance = random.Random(f"{seed}:{name}:{implementation.name}")
        self.kills = 0
        self.deaths: Counter[str] = Counter()
        """By what has died."""
        self.cut_off = 0
        """How many talks ended before everything was answered."""
        self.reached: set[Death] = set()
        """The named points at which a process has died."""
        self.named: set[Death] = set()
        """Those at which one was to die."""
        self.violations: list[str] = []
        self.skipped = ""
        """Why there is nothing to kill."""
        self._folder = folder
        self._last: Death | None = None

    def new_folder(self) -> Path:
        """An empty folder, whose name no other folder of this process has."""
        path = self._folder / f"home-{next(_numbers)}"
        path.mkdir(parents=True)
        return path

    def new_home(self) -> Home:
        """A fresh home; those before it are done with."""
        self.forget_folders()
        home = Home(self, self.new_folder())
        self.implementation.begin(home.path)
        return home

    def forget_folders(self, *but: Path) -> None:
        """Delete every folder but these."""
        for folder in self._folder.iterdir():
            if folder not in but:
                shutil.rmtree(folder)
                if server_store.is_wanted():
                    postgres.forget_database(folder / "state.db")
                counter().forget(folder.name)

    def talk_writes(self) -> int:
        """How many writes a talk in a fresh home makes: so many points to die at."""
        return self._usual_talk()[0]

    def _usual_talk(self) -> tuple[int, float]:
        """The writes of a talk in a fresh home, and the seconds it takes."""
        name = self.implementation.name
        if name not in _talks:
            self.new_home().talk()  # the first is slower
            home = self.new_home()
            began = time.monotonic()
            home.talk()
            seconds = time.monotonic() - began
            _talks[name] = self.implementation.writes(home.path), seconds
        return _talks[name]

    def goes_on(self) -> bool:
        """Whether there are kills left to make."""
        return self.kills < self.share

    def points(self, writes: int, effects: int = 0) -> Iterator[Death]:
        """Every named point once, in random order, over and over, and random moments."""
        named = self.named_points(writes, effects)
        longest = self._usual_talk()[1]
        while True:
            for death in self.chance.sample(named, len(named)):
                while self.chance.random() < MOMENTS:
                    yield Death("moment", self.chance.uniform(0, longest))
                if server_store.is_wanted() and self.chance.random() < OF_SERVER:
                    kinds = list(SERVER_DEATHS)
                    (what,) = self.chance.choices(kinds, list(SERVER_DEATHS.values()))
                    yield death._replace(what=what)
                yield death

    def named_points(self, writes: int, effects: int = 0) -> list[Death]:
        """Around each write and each effect."""
        if not effects:
            writes = max(1, writes)  # a process that writes nothing is killed at its end
        return [
            Death(where, number)
            for places, count in (
                (("before", "during", "after"), writes),
                (("tool-before", "tool-after"), effects),
            )
            for where in places
            for number in range(1, count + 1)
        ]

    def kill(self, death: Death) -> Death:
        """Count a kill; what is found wrong from now on is told with it."""
        self.kills += 1
        self.deaths[death.what or "process"] += 1
        self._last = death
        if death.is_named:
            self.named.add(death)
        return death

    def note_death(self, path: Path) -> None:
        """The process that was to be killed in this home is dead."""
        if self._last and self._last.is_named and self.implementation.reached(path):
            self.reached.add(self._last)

    def require(self, faults: list[str]) -> None:
        """There should be no faults."""
        self.violations += [f"kill {self.kills} ({self._last}): {fault}" for fault in faults]

    def facts(self) -> dict[str, Any]:
        """What is reported of it."""
        return {
            "property": self.name,
            "implementation": self.implementation.name,
            "kills": self.kills,
            **{what: self.deaths[what] for what in SERVER_DEATHS},
            "named": len(self.named),
            "reached": len(self.reached),
            "cut_off": self.cut_off,
            "violations": self.violations,
            "skipped": self.skipped,
        }
