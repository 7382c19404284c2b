"""Occurrences: each that was due ends once, whatever is killed, beside whom, at what o'clock.

Seven jobs with every rule are due every few minutes. Two or four gateways run them at the same
time and are killed at any point of claim, run and delivery; the clock jumps between their lives
and in the middle of them, by up to three hours, and back. In the end every due time is covered by
exactly one run or one stretch that a rule left out; a run is delivered, silent, or failed and told;
no answer is shown twice; no effect happened twice.
"""

from __future__ import annotations

from .adapter import Death
from .cell import Cell
from .occurrences import JUMPS, World

LIVES = 4
"""How many generations of gateways one home sees before all of them may end."""


def test_occurrences(cell: Cell) -> None:
    if cell.implementation.name != "jobs":
        cell.skipped = f"the {cell.implementation.name} begins nothing by itself"
        return
    chance = cell.chance
    while cell.kills < 2 * cell.share:
        cell.forget_folders()
        world = World(cell.new_folder(), chance)
        for _ in range(LIVES):
            deaths: list[Death | None] = [
                cell.kill(world.draw_death()) for _ in range(chance.choice((2, 4)))
            ]
            in_the_middle = chance.choice(JUMPS) if chance.random() < 0.3 else 0
            cell.reached.update(world.live(deaths, in_the_middle))
            world.jump(chance.choice(JUMPS))
            if cell.kills >= 2 * cell.share:
                break
        world.live([None])
        cell.require(world.faults())
