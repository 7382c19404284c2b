"""Requests that take long run beside each other, and a flood of them is slowed down."""

from __future__ import annotations

import threading

from tui_gateway import workers
from tui_gateway.workers import Workers


def test_as_many_run_at_once_as_there_are_threads() -> None:
    pool = Workers(3)
    all_there, done = threading.Barrier(3), threading.Semaphore(0)

    def job() -> None:
        all_there.wait(60)  # passed only if three are here at once
        done.release()

    for _ in range(9):
        pool.run(job)
    assert all(done.acquire(timeout=60) for _ in range(9))


def test_a_flood_waits_instead_of_piling_up() -> None:
    pool = Workers(1)
    go_on, busy = threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        busy.set()
        go_on.wait(60)

    pool.run(first)
    assert busy.wait(60)
    flooded = threading.Event()

    def flood() -> None:
        for number in range(workers.WAITING + 1):
            pool.run(lambda number=number: done.append(number))  # type: ignore[misc]
        flooded.set()

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    assert not flooded.wait(0.2), "the last one found no place"
    go_on.set()
    assert flooded.wait(60)
    finished = threading.Event()
    pool.run(finished.set)
    assert finished.wait(60)
    assert done == list(range(workers.WAITING + 1))
