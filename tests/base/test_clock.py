"""The clock of leases counts the time that a machine was suspended."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from hermes_base import clock


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have other clocks")
def test_it_is_the_kernels_clock_that_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = clock.elapsed()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_where_there_is_no_such_clock_another_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> float:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(time, "clock_gettime", refuse)
    assert clock._find_clock() is time.monotonic


def test_a_clock_that_only_this_kernel_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing: Any = 4711
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", missing, raising=False)
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert before <= clock._find_clock()() <= time.clock_gettime(time.CLOCK_MONOTONIC)
