"""Checkpoint validity: every state that a crash can leave opens, validates and resumes.

Each kill leaves a store. A copy of it is opened and looked at as it is: without salvage, and with
nothing found by the store's own check. The store itself is gone on with: the turn that was cut off
is finished, the next prompt is answered, and the check finds nothing again. Some homes are killed
in two or three times before that.
"""

from __future__ import annotations

from .cell import EFFECTS, Cell
from .checks import turns_of
from .script import turn


def test_checkpoint_validity(cell: Cell) -> None:
    points = cell.points(cell.talk_writes(), EFFECTS)
    while cell.goes_on():
        home = cell.new_home()
        for _ in range(min(cell.chance.choice((1, 1, 2, 3)), cell.share - cell.kills)):
            home.talk(cell.kill(next(points)))
            crashed = home.copy()
            cell.require(cell.implementation.faults(crashed))
            home.look(crashed)
        home.talk(prompts=1)
        cell.require(cell.implementation.faults(home.path))
        last = turns_of(home.look(recovered=True))[-1]
        if last != turn(last[0].text):
            cell.require([f"the turn after the crash is {last}"])
