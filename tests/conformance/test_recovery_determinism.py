"""Recovery determinism: recovering a crashed store twice, or crashing meanwhile, ends the same.

A store is crashed and copied. One copy is recovered, and recovered again; another is recovered; in
a third the recovery itself is killed, and then done. All end in the same history, and still do when
the conversation goes on.

A turn is not taken over yet: what recovery begins with, a prompt that waited, and is killed in, is
cut off like any other turn. There, and only there, the third copy may differ: the turn is there
once, closed, and none of its effects happens twice.
"""

from __future__ import annotations

from pathlib import Path

from .adapter import effects
from .cell import Cell, Home
from .checks import invented, turns_of, wrong_effects
from .script import Message


def test_recovery_determinism(cell: Cell) -> None:
    crashes = cell.points(cell.talk_writes(), 2, moments=True)
    while cell.goes_on():
        home = cell.new_home()
        home.talk(cell.kill(next(crashes)))
        _recover_in_copies(cell, home)


def _recover_in_copies(cell: Cell, home: Home) -> None:
    implementation = cell.implementation
    once, again, killed = home.copy(), home.copy(), home.copy()
    waited = set(implementation.waiting(home.copy()))
    implementation.recover(once)
    writes = implementation.writes(once)
    state = home.look(once)
    implementation.recover(again)
    _require_same(cell, state, home.look(again), set(), "a second copy")
    implementation.recover(once)
    _require_same(cell, state, home.look(once), set(), "recovering again")
    death = cell.kill(next(cell.points(max(1, writes))))
    implementation.recover(killed, death)
    implementation.recover(killed)
    _require_same(cell, state, implementation.history(killed), waited, "a crash in recovery")
    _check(cell, home, killed)
    _require_same(cell, _go_on(cell, once), _go_on(cell, killed), waited, "going on")
    _check(cell, home, killed)


def _go_on(cell: Cell, path: Path) -> list[Message]:
    cell.implementation.talk(path, ["last"])
    cell.require(cell.implementation.faults(path))
    return cell.implementation.history(path)


def _check(cell: Cell, home: Home, path: Path) -> None:
    history = cell.implementation.history(path)
    cell.require(invented(history))
    cell.require(wrong_effects(history, effects(path), [*home.sent, "last"]))


def _require_same(
    cell: Cell, one: list[Message], other: list[Message], waited: set[str], what: str
) -> None:
    ours, theirs = turns_of(one), turns_of(other)
    same = [a[0] for a in ours] == [b[0] for b in theirs] and all(
        a == b or a[0].text in waited for a, b in zip(ours, theirs, strict=True)
    )
    if not same:
        cell.require([f"{what}: {ours} is not {theirs}"])
