"""Effects exactly once: a tool with an effect has run once, or is reported unknown and not again.

The tool appends a line to a file. Kills fall around its runs and around the writes next to them.
Whatever was killed, however often the conversation is recovered and gone on with: no line is there
twice; a line is there only if its call is stored; a result that is told is the result of a line
that is there. A call without a result gets "outcome unknown", once, and its line may be there or
not: that is all anybody can know.
"""

from __future__ import annotations

from .adapter import effects
from .cell import CHAIN, PROMPTS, Cell
from .script import marks


def test_effects_exactly_once(cell: Cell) -> None:
    writes = cell.talk_writes()
    around_tools = cell.points(0, 2 * PROMPTS)
    anywhere = cell.points(writes, moments=True)
    while cell.goes_on():
        home = cell.new_home()
        for number in range(min(CHAIN, cell.share - cell.kills)):
            home.talk(cell.kill(next(anywhere if number % 3 == 2 else around_tools)))
            home.look(home.copy())
            if cell.chance.random() < 0.3:
                cell.implementation.recover(home.path)
                home.look(home.copy())
        home.talk()
        home.look()
        done = effects(home.path)
        for mark in [mark for name in home.answered for mark in marks(name)]:
            if done.count(mark) != 1:
                cell.require([f"{mark} was answered for and happened {done.count(mark)} times"])
