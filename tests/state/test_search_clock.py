"""A search is stopped after so much work, and not because the machine had other things to do."""

from __future__ import annotations

import time

import pytest

from hermes_state.search.clock import WorkClock

pytestmark = pytest.mark.sqlite


class Clocks:
    """Both clocks of a thread, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.worked = 0.0
        self.asked = 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.passed)
        monkeypatch.setattr(time, "thread_time", self._thread_time)

    def _thread_time(self) -> float:
        self.asked += 1
        return self.worked

    def move(self, worked: float, waited: float = 0.0) -> None:
        self.worked += worked
        self.passed += worked + waited


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_a_short_search_does_not_ask_the_system(clocks: Clocks) -> None:
    clock = WorkClock(0.04)
    clocks.move(0.003)
    assert clock.left() == pytest.approx(0.037)
    assert clocks.asked == 0


def test_work_counts(clocks: Clocks) -> None:
    clock = WorkClock(0.04)
    for done in range(1, 5):
        clocks.move(0.009)
        assert clock.left() == pytest.approx(0.04 - done * 0.009)
    clocks.move(0.009)
    assert clock.left() < 0


def test_waiting_hardly_counts(clocks: Clocks) -> None:
    clock = WorkClock(0.04)
    clocks.move(0.001, waited=60.0)
    assert clock.left() == pytest.approx(0.03)
    clocks.move(0.001, waited=60.0)
    assert clock.left() == pytest.approx(0.029)


def test_without_a_budget_nothing_is_left(clocks: Clocks) -> None:
    assert WorkClock(-1.0).left() < 0
