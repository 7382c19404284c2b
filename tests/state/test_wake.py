"""Waiting for a change of the store: none is missed, wherever it was made."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB
from hermes_state import wake as module

pytestmark = pytest.mark.sqlite


LONG = 60.0
"""A wait that ends only by being woken."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        store.set_meta("place", "begun")
        yield store


@pytest.fixture(params=["reported", "looked for"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "looked for":
        monkeypatch.setattr(module, "_open_inotify", lambda: None)


def until(db: SessionDB, value: str) -> bool:
    """Wait until a value is there; False if something else ended the wait."""
    seen = db.wake.number
    for _ in range(1000):
        if db.get_meta("place") == value:
            return True
        before = seen
        seen = db.wake.wait(seen, LONG)
        if seen == before:
            return False
    return False


async def until_async(db: SessionDB, value: str) -> bool:
    seen = db.wake.number
    for _ in range(1000):
        if db.get_meta("place") == value:
            return True
        before = seen
        seen = await db.wake.wait_async(seen, LONG)
        if seen == before:
            return False
    return False


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()

    def result() -> Any:
        thread.join(LONG)
        return found[0]

    return result


def test_a_commit_of_this_process_wakes(db: SessionDB) -> None:
    result = in_thread(lambda: until(db, "here"))
    db.set_meta("place", "here")
    assert result()


@pytest.mark.usefixtures("either_way")
def test_a_commit_of_another_process_wakes(db: SessionDB) -> None:
    result = in_thread(lambda: until(db, "elsewhere"))
    write_elsewhere(db.db_path, "elsewhere")
    assert result()


@pytest.mark.usefixtures("either_way")
async def test_coroutines_are_woken_too(db: SessionDB) -> None:
    waiting = [asyncio.create_task(until_async(db, "elsewhere")) for _ in range(3)]
    await asyncio.to_thread(write_elsewhere, db.db_path, "elsewhere")
    assert await asyncio.gather(*waiting) == [True] * 3


def test_what_changed_between_the_look_and_the_wait_is_not_missed(db: SessionDB) -> None:
    seen = db.wake.number
    db.wake.wait(seen, 0)  # it listens from now on
    seen = db.wake.number
    assert db.get_meta("place") == "begun"
    db.set_meta("place", "between")
    assert db.wake.wait(seen, LONG) != seen


def test_without_a_change_the_wait_ends_by_itself(db: SessionDB) -> None:
    seen = db.wake.number
    while (now := db.wake.wait(seen, 0.5)) != seen:
        seen = now
    assert db.wake.number == seen


async def test_a_cancelled_wait_leaves_nothing(db: SessionDB) -> None:
    task = asyncio.create_task(db.wake.wait_async(-1, LONG))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not db.wake._futures


def test_closing_the_store_wakes_and_ends_the_thread(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "state.db")
    wake = db.wake
    wake.wait(wake.number, 0)
    seen = wake.number
    result = in_thread(lambda: wake.wait(seen, LONG))
    thread = wake._thread
    db.close()
    assert result() != seen
    assert thread is not None and not thread.is_alive()


def test_a_log_that_is_made_anew_is_followed(tmp_path: Path) -> None:
    """The last process to close the store deletes the log; the next makes another."""
    path = tmp_path / "state.db"
    SessionDB(path).close()
    wake = module.Wake(path)
    try:
        for value in ("first", "second"):
            seen = wake.number
            write_elsewhere(path, value)
            while wake.wait(seen, LONG) == seen:
                pytest.fail("nothing was noticed")
    finally:
        wake.close()


def write_elsewhere(path: Path, value: str) -> None:
    code = (
        "import sys; from hermes_state import SessionDB;"
        "db = SessionDB(sys.argv[1]); db.set_meta('place', sys.argv[2]); db.close()"
    )
    subprocess.run([sys.executable, "-c", code, str(path), value], check=True, timeout=60)


def test_where_no_more_files_can_be_watched_they_are_looked_for(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(reports: int, path: bytes) -> bool:
        raise OSError(errno.ENOSPC, "no more watches")

    monkeypatch.setattr(module, "_watch", full)
    result = in_thread(lambda: until(db, "elsewhere"))
    write_elsewhere(db.db_path, "elsewhere")
    assert result()
