"""Fork determinism: branching at the same point twice gives the same history, whatever crashed.

A conversation is forked; a process that forks it, or that goes on with it, is killed; it is forked
again at the same point. Both forks are the conversation's first messages up to that point. A fork
that was killed is whole or not there. The conversation itself is not changed by any of it.
"""

from __future__ import annotations

from .cell import CHAIN, Cell, Home


def test_fork_determinism(cell: Cell) -> None:
    implementation = cell.implementation
    if implementation.forks_anywhere is None:
        cell.skipped = f"the {implementation.name} does not fork conversations"
        return
    crashes = cell.points(cell.talk_writes())
    while cell.goes_on():
        home = cell.new_home()
        home.talk(next(crashes))
        home.talk()  # so that the fork is of a conversation that was cut off and went on
        for _ in range(min(CHAIN // 2, cell.share - cell.kills)):
            _fork_twice(cell, home)


def _fork_twice(cell: Cell, home: Home) -> None:
    implementation = cell.implementation
    base = home.look()
    at = cell.chance.randrange(1, len(base) + 1) if implementation.forks_anywhere else len(base)
    known = len(implementation.forks(home.path))
    implementation.fork(home.path, at)
    death = cell.kill(next(cell.points(implementation.writes(home.path))))
    if implementation.forks_anywhere and cell.chance.random() < 0.5:
        home.talk(death)
    else:
        implementation.fork(home.path, at, death)
        home.died(home.path)
    implementation.fork(home.path, at)
    forks = implementation.forks(home.path)[known:]
    if len(forks) not in (2, 3):
        cell.require([f"there are {len(forks)} forks after two and one that was killed"])
    cell.require([f"a fork at {at} is {fork}" for fork in forks if fork != base[:at]])
    if home.look()[: len(base)] != base:
        cell.require(["forking has changed the conversation"])
