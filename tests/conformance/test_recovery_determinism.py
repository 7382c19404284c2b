"""Recovery determinism: recovering a crashed store twice, or crashing meanwhile, ends the same.

A store is crashed and copied. One copy is recovered, and recovered again; another is recovered; in
a third the recovery itself is killed, and then done. In all of them the turn that was cut off is
finished, with its one answer; all end in the same history, and still do when the conversation goes
on. One thing only may a crash during recovery change: the result of the tool it fell into is
unknown, and nobody runs it again.
"""

from __future__ import annotations

from pathlib import Path

from .cell import EFFECTS, Cell, Home
from .checks import unknown_results
from .script import UNKNOWN, Message


def test_recovery_determinism(cell: Cell) -> None:
    crashes = cell.points(cell.talk_writes(), EFFECTS)
    while cell.goes_on():
        home = cell.new_home()
        home.talk(cell.kill(next(crashes)))
        _recover_in_copies(cell, home)


def _recover_in_copies(cell: Cell, home: Home) -> None:
    implementation = cell.implementation
    once, again, killed = home.copy(), home.copy(), home.copy()
    home.recover(once)
    writes = implementation.writes(once)
    state = home.look(once, recovered=True)
    home.recover(again)
    _require_same(cell, state, home.look(again, recovered=True), 0, "a second copy")
    home.recover(once)
    _require_same(cell, state, home.look(once, recovered=True), 0, "recovering again")
    home.recover(killed, cell.kill(next(cell.points(writes, EFFECTS // 2))))
    home.recover(killed)
    _require_same(cell, state, home.look(killed, recovered=True), 1, "a crash in recovery")
    _require_same(cell, _go_on(cell, once), _go_on(cell, killed), 1, "going on")


def _go_on(cell: Cell, path: Path) -> list[Message]:
    cell.implementation.talk(path, ["last"])
    cell.require(cell.implementation.faults(path))
    return cell.implementation.history(path)


def _require_same(
    cell: Cell, one: list[Message], other: list[Message], more_unknown: int, what: str
) -> None:
    """The histories are the same but for so many results that only the other has lost."""
    same = len(one) == len(other) and all(
        a == b or UNKNOWN in (a.text, b.text) for a, b in zip(one, other, strict=True)
    )
    more = unknown_results(other) - unknown_results(one)
    differ = sum(a != b for a, b in zip(one, other, strict=False))
    if not same or more > more_unknown or differ > more_unknown:
        cell.require([f"{what}: {one} is not {other}"])
