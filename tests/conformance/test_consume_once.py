"""Consume once: processes race for one thing, eight at once, and exactly one has it.

The things are a turn that was cut off, a message that waits in the inbox, an approval that waits
for a decision, and the compression of a conversation. One of them is killed on the way. When
what it left is recovered, the store says that the thing was taken once; at most one process says
that it has it, and no effect happened twice. With nobody killed, exactly one has it.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter

from .. import seeds
from .adapter import effects
from .cell import Cell

PROCESSES = int(os.environ.get("CONFORMANCE_PROCESSES") or seeds.times(4, 8))
POINTS = 12
"""The writes of a racer near which it is killed; those of its start are among them."""


def test_consume_once(cell: Cell) -> None:
    points = cell.points(POINTS)
    subjects = itertools.cycle(cell.implementation.subjects)
    while cell.goes_on():
        subject, death = next(subjects), cell.kill(next(points))
        home = cell.new_home()
        home.talk(prompts=1)
        race = cell.implementation.compete(home.path, subject, PROCESSES, death)
        cell.note_death(home.path)
        if race.taken != 1 or race.claimed > 1:
            cell.require([f"{subject}: {race}"])
        cell.require(cell.implementation.faults(home.path))
        done = Counter(effects(home.path))
        cell.require([f"{mark} happened {n} times" for mark, n in done.items() if n > 1])


def test_consume_once_undisturbed(cell: Cell) -> None:
    subjects = cell.implementation.subjects
    for subject in cell.chance.sample(subjects, min(len(subjects), 1 + cell.share // 4)):
        home = cell.new_home()
        home.talk(prompts=1)
        race = cell.implementation.compete(home.path, subject, PROCESSES, None)
        if race != (1, 1):
            cell.require([f"{subject}, with nobody killed: {race}"])
