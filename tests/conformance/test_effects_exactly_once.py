"""Effects exactly once: a tool with an effect has run once, or is reported unknown and not again.

One tool appends a line to a file, one posts to a counter over HTTP. Kills fall around their runs
and around the writes next to them. Whatever was killed, however often the conversation is recovered
and gone on with: nothing has happened twice; nothing has happened whose call is not stored; a
result that is told is the result of something that happened. A call without a result gets "outcome
unknown", once, and may have happened or not: that is all anybody can know. There are not more of
those than processes were killed.
"""

from __future__ import annotations

from .cell import CHAIN, Cell
from .script import marks


def test_effects_exactly_once(cell: Cell) -> None:
    around_tools = cell.points(0, len(marks("")))  # of the turn that a process finds or begins
    anywhere = cell.points(cell.talk_writes())
    while cell.goes_on():
        home = cell.new_home()
        for number in range(min(CHAIN, cell.share - cell.kills)):
            home.talk(cell.kill(next(anywhere if number % 3 == 2 else around_tools)))
            home.look(home.copy())
            if cell.chance.random() < 0.3:
                home.recover()
                home.look(home.copy(), recovered=True)
        home.talk()
        home.look(recovered=True)
