"""Prefix continuation: after a crash the history is what was acknowledged, plus nothing invented.

One process after the other goes on with one conversation and is killed. After each kill every
prompt that was accepted is in the history or waits, once, in the order in which it was sent; every
answer that was given is there, behind its own question and with everything that led to it; what was
there before is the beginning of what is there now; and every turn is its script. One in which three
processes were killed may be a beginning of it that is visibly closed; no other.
"""

from __future__ import annotations

from .cell import CHAIN, EFFECTS, Cell


def test_prefix_continuation(cell: Cell) -> None:
    points = cell.points(cell.talk_writes(), EFFECTS)
    while cell.goes_on():
        home = cell.new_home()
        before = home.look(home.copy())
        for _ in range(min(CHAIN, cell.share - cell.kills)):
            home.talk(cell.kill(next(points)))
            history = home.look(home.copy())
            if history[: len(before)] != before:
                cell.require([f"{before} is not the beginning of {history}"])
            before = history
        home.talk()
        if home.look(recovered=True)[: len(before)] != before:
            cell.require(["going on has changed what was there"])
