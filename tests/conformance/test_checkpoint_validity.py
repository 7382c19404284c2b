"""Checkpoint validity: every state that a crash can leave opens, validates and resumes.

Each kill leaves a store. A copy of it is opened and looked at as it is: without salvage, and with
nothing found by the store's own check. The store itself is gone on with: the next prompt is
answered, the turn that was cut off is closed where everybody can see it, and the check finds
nothing again.
"""

from __future__ import annotations

from .cell import PROMPTS, Cell
from .checks import turns_of
from .script import turn


def test_checkpoint_validity(cell: Cell) -> None:
    points = cell.points(cell.talk_writes(), 2 * PROMPTS, moments=True)
    while cell.goes_on():
        home = cell.new_home()
        home.talk(cell.kill(next(points)))
        crashed = home.copy()
        cell.require(cell.implementation.faults(crashed))
        home.look(crashed)
        home.talk(prompts=1)
        cell.require(cell.implementation.faults(home.path))
        last = turns_of(home.look())[-1]
        if last != turn(last[0].text):
            cell.require([f"the turn after the crash is {last}"])
