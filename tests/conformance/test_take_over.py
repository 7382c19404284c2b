"""Take-over: a turn cut off at any named point is finished by the next process, with one answer.

Every point of a turn is tried, each in a home of its own: before, during and after each write, and
around each effect of a tool. The next process finds the turn, uses the results that are stored,
runs what had not been started, and answers; when it has ended nothing is left to take over. Then
the same with the next process killed as well, above all in its tools. A process that was only
asleep, and wakes up when another has its turn, can write nothing more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB

from .adapter import Death
from .cell import Cell
from .checks import turns_of, unknown_results
from .implementations.engine import Engine
from .script import answer, marks, turn


def test_take_over(cell: Cell) -> None:
    home = cell.new_home()
    home.talk(prompts=1)
    writes = cell.implementation.writes(home.path)
    for deaths in itertools.islice(_deaths(cell, writes), cell.share):
        if not cell.goes_on():
            break
        home = cell.new_home()
        home.talk(cell.kill(deaths[0]), prompts=1)
        for death in deaths[1:]:
            home.recover(death=cell.kill(death))
        home.recover()
        history = home.look(recovered=True)
        cell.require(cell.implementation.faults(home.path))
        answers = [one.text for one in history if one.text.startswith(answer(""))]
        if answers != [answer(one[0].text) for one in turns_of(history)]:
            cell.require([f"the answers are {answers}"])
        home.recover()
        if home.look(recovered=True) != history:
            cell.require(["there was something left to recover"])


def _deaths(cell: Cell, writes: int) -> Iterator[tuple[Death, ...]]:
    """Every point alone; every two that are both in a tool; then any two, for as long as wanted."""
    points = cell.named_points(writes, len(marks("")))
    yield from ((point,) for point in cell.chance.sample(points, len(points)))
    in_tools = list(itertools.product(cell.named_points(0, len(marks(""))), repeat=2))
    yield from cell.chance.sample(in_tools, len(in_tools))
    while True:
        yield cell.chance.choice(points), cell.chance.choice(points)


@pytest.mark.skipif(not Path("/proc").exists(), reason="whether a process sleeps is not seen")
def test_whoever_wakes_up_late_writes_nothing(tmp_path: Path) -> None:
    engine = Engine()
    engine.begin(tmp_path)
    with engine.asleep(tmp_path, "p1") as wake:
        engine.recover(tmp_path)
        with SessionDB(tmp_path / "state.db") as db:
            before = db.get_messages("s")
        assert wake() == {"superseded": "p1"}
        with SessionDB(tmp_path / "state.db") as db:
            assert db.get_messages("s") == before
    history = engine.history(tmp_path)
    assert unknown_results(history) == 1
    assert len(history) == len(turn("p1")) and history[-1] == turn("p1")[-1]
