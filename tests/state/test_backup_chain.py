"""Continuous backup: every point is the state of its time, whatever was killed or damaged."""

from __future__ import annotations

import os
import random
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB, StoreError
from hermes_state.backup.chain import add_point, chosen_point, rebuild
from hermes_state.backup.point import Point, list_points
from hermes_state.backup.thin import thin
from hermes_state.backup.verify import verify_points
from hermes_state.connection import open_connection
from hermes_state.dialect import tuples

from .. import seeds
from .children import Child, killed
from .memory import memory_folder

pytestmark = pytest.mark.sqlite


Rows = dict[str, list[Any]]


def rows(path: Path) -> Rows:
    """Every row of every table."""
    connection = open_connection(path, readonly=True, busy_timeout=5)
    try:
        tables = [
            name
            for (name,) in tuples(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        return {
            one: sorted(tuples(connection, f'SELECT * FROM "{one}"'), key=repr) for one in tables
        }
    finally:
        connection.close()


def restored(folder: Path, number: int, target: Path) -> tuple[Rows, dict[str, bytes]]:
    """What one gets by going back to a point."""
    target.mkdir(parents=True)
    points = list_points(folder)
    point = chosen_point(points, number=number)
    assert point is not None
    rebuild(points, point, target)
    files = {
        one.relative_to(target).as_posix(): one.read_bytes()
        for one in target.rglob("*")
        if one.is_file() and not one.name.startswith("state.db")
    }
    return rows(target / "state.db"), files


def say(db: SessionDB, text: str, times: int = 1) -> None:
    db.append_messages("s", [{"role": "user", "content": text}] * times)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory: what is killed does not care, and every point is a dozen waits for a disk."""
    with memory_folder(tmp_path) as place:
        yield place / "points"


@pytest.fixture
def chain(db: SessionDB, folder: Path) -> list[Point]:
    """Six points, each with ten messages more."""
    db.create_session("s", "cli")
    made = []
    for number in range(6):
        say(db, f"{number} " + random.Random(number).randbytes(400).hex(), 10)
        made.append(add_point(db.db_path, folder))
    assert None not in made
    return [one for one in made if one]


WRITES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["say", "new", "delete", "title", "vacuum", "file", "forget"]),
            st.integers(0, 3),
            st.integers(1, 60),
        ),
        max_size=4,
    ),
    min_size=1,
    max_size=7,
)


def write(db: SessionDB, home: Path, what: str, which: int, amount: int) -> None:
    session, file = f"s{which}", home / "memories" / f"{which}.md"
    if what == "new":
        db.create_session(session, "cli")
    elif what == "say" and db.get_session(session):
        db.append_messages(session, [{"role": "user", "content": f"{amount} " * 90}] * amount)
    elif what == "delete":
        db.delete_session(session)
    elif what == "title" and db.get_session(session):
        db.set_session_title(session, f"Title {which} {amount}")
    elif what == "vacuum":
        db.vacuum()
    elif what == "file":
        file.write_text("x" * amount)
    elif what == "forget":
        file.unlink(missing_ok=True)


@settings(max_examples=seeds.examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=WRITES, keep=st.integers(1, 4))
def test_every_point_is_the_state_of_its_time(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Any]], keep: int
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "memories").mkdir()
    folder = home / "points"
    expected: dict[int, tuple[Rows, dict[str, bytes]]] = {}
    with SessionDB(home / "state.db") as db:
        db.create_session("s0", "cli")
        for step in steps:
            for what, which, amount in step:
                write(db, home, what, which, amount)
            files = [(f"memories/{one.name}", one) for one in sorted((home / "memories").iterdir())]
            point = add_point(db.db_path, folder, files)
            now = rows(db.db_path), {name: path.read_bytes() for name, path in files}
            if point is None:
                assert expected[max(expected)] == now
            else:
                expected[point.number] = now
    for number, state in expected.items():
        assert restored(folder, number, home / "before" / str(number)) == state
    thin(folder, keep, at_once=1)
    left = [point.number for point in list_points(folder)]
    assert left[-keep:] == sorted(expected)[-keep:]
    for number in left:
        assert restored(folder, number, home / "after" / str(number)) == expected[number]
    assert not any(one.damage for one in verify_points(folder, all_points=True))


def test_a_point_holds_what_changed_and_nothing_more(db: SessionDB, folder: Path) -> None:
    db.create_session("s", "cli")
    for number in range(40):
        say(db, random.Random(number).randbytes(3000).hex(), 10)
    base = add_point(db.db_path, folder)
    assert base is not None
    assert add_point(db.db_path, folder) is None
    say(db, "a word")
    step = add_point(db.db_path, folder)
    assert step is not None
    assert (base.parent, step.parent) == (None, base.number)
    assert step.path.stat().st_size < base.path.stat().st_size / 20
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_untouched_store_is_not_even_read(
    db: SessionDB, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_state.backup import chain as backup_chain

    db.create_session("s", "cli")
    for path in db.db_path.parent.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))  # long ago
    assert add_point(db.db_path, folder)
    real = backup_chain.snapshot
    monkeypatch.setattr(backup_chain, "snapshot", None)
    assert add_point(db.db_path, folder) is None
    monkeypatch.setattr(backup_chain, "snapshot", real)
    say(db, "a word")
    assert add_point(db.db_path, folder)


def test_points_taken_amid_writes_are_each_one_state(db: SessionDB, folder: Path) -> None:
    db.create_session("s", "cli")
    stop, started = threading.Event(), threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            say(db, "x" * 300, 20)
            started.set()

    thread = threading.Thread(target=go_on)
    thread.start()
    assert started.wait(60)
    try:
        for _ in range(6):
            before = db.message_count()
            point = add_point(db.db_path, folder)
            after = db.message_count()
            if point is not None:
                verdict = verify_points(folder)[0]
                assert verdict.number == point.number
                assert not verdict.damage
                assert not verdict.findings
                assert before <= verdict.messages <= after
                assert verdict.messages % 20 == 0
    finally:
        stop.set()
        thread.join()
    assert len(list_points(folder)) > 1


# Times


def test_a_time_means_the_newest_point_not_after_it(chain: list[Point]) -> None:
    assert chosen_point(chain) == chain[-1]
    assert chosen_point(chain, at=chain[2].at) == chosen_point(chain, number=3) == chain[2]
    assert chosen_point(chain, at=chain[0].at - 1) is None
    assert chosen_point(chain, number=99) is None


# Damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flip": flip,
    "tear": tear,
    "empty": lambda path: path.write_bytes(b""),
    "lose": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", [0, 3, 5])
def test_damage_is_named_and_what_came_before_stays_good(
    chain: list[Point], db: SessionDB, folder: Path, damage: str, place: int
) -> None:
    DAMAGES[damage](chain[place].path)
    for all_points in (False, True):
        found = verify_points(folder, all_points=all_points)
        good = [one.number for one in found if not one.damage]
        assert good == [point.number for point in chain[:place]]
        assert [one.messages for one in found if not one.damage] == [
            10 * (one + 1) for one in range(place)
        ]
        assert all(f"Point {place + 1}" in one.damage for one in found if one.damage)
        assert len(found) - len(good) >= 1
    say(db, "after the damage")
    point = add_point(db.db_path, folder)
    assert point is not None
    assert point.parent is None  # nothing builds on what is damaged
    assert not verify_points(folder)[-1].damage
    say(db, "and on")
    assert (add_point(db.db_path, folder) or point).parent == point.number
    assert verify_points(folder)[-1].messages == 62


def test_a_point_of_another_chain_is_not_taken(
    chain: list[Point], folder: Path, tmp_path: Path
) -> None:
    other = folder.parent / "other"
    with SessionDB(tmp_path / "other.db") as db:
        db.create_session("s", "cli")
        for number in range(3):
            say(db, f"other {number}", 9)
            add_point(db.db_path, other)
    chain[2].path.unlink()
    foreign = list_points(other)[2].path
    foreign.rename(folder / foreign.name)
    found = verify_points(folder, all_points=True)
    assert [one.number for one in found if not one.damage] == [1, 2]
    assert "does not continue" in found[2].damage


def test_a_wrong_memory_of_the_newest_is_not_believed(
    chain: list[Point], db: SessionDB, folder: Path
) -> None:
    memory = folder / ".newest"
    whole = memory.read_bytes()
    for content in (whole[:-40], whole.replace(whole[-40:-20], b"\0" * 20), b"", b"{}\n"):
        memory.write_bytes(content)
        say(db, "more")
        point = add_point(db.db_path, folder)
        assert point is not None
        assert point.parent == point.number - 1
    assert not any(one.damage for one in verify_points(folder, all_points=True))


def test_a_store_that_was_not_well_is_told_from_a_damaged_backup(
    chain: list[Point], db: SessionDB, folder: Path
) -> None:
    db._execute_write(
        lambda conn: conn.execute("UPDATE sessions SET message_count = 99").fetchall()
    )
    assert add_point(db.db_path, folder)
    (newest,) = verify_points(folder)
    assert not newest.damage
    assert newest.findings


def test_what_is_not_there_is_said(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(StoreError, match="no session store"):
        add_point(tmp_path / "none.db", folder)
    assert not folder.exists()
    with pytest.raises(StoreError, match="no folder"):
        verify_points(folder)
    folder.mkdir()
    with pytest.raises(StoreError, match="no points"):
        verify_points(folder)


# Thinning


def test_the_newest_and_one_for_every_hour_and_day_stay(
    db: SessionDB, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_state.backup import chain as backup_chain

    db.create_session("s", "cli")
    clock = [1_800_000_000.0]
    monkeypatch.setattr(backup_chain.time, "time", lambda: clock[0])
    states = {}
    for _ in range(60):  # every twenty minutes, twenty hours long
        say(db, f"at {clock[0]}")
        point = add_point(db.db_path, folder)
        assert point is not None
        states[point.number] = rows(db.db_path)
        clock[0] += 1200
    assert thin(folder, 3, at_once=100) == 0
    went = thin(folder, 3, at_once=1)
    left = list_points(folder)
    assert went == 60 - len(left)
    assert [one.number for one in left][-3:] == [58, 59, 60]
    assert 5 <= len(left) <= 9
    assert len({int(one.at // 3600) for one in left}) >= 3
    assert left[0].parent is None
    for one in left:
        target = folder.parent / "again" / str(one.number)
        assert restored(folder, one.number, target)[0] == states[one.number]
    say(db, "later")
    later = add_point(db.db_path, folder)
    assert later is not None
    assert later.parent == 60


def test_damaged_points_are_not_merged(chain: list[Point], folder: Path) -> None:
    flip(chain[2].path)
    thin(folder, 1, at_once=1)
    found = verify_points(folder, all_points=True)
    assert any(not one.damage for one in found)
    assert found[0].number == 1
    assert chain[2].path.exists()


# Kills

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.truncate", "shutil.rmtree", "open", "os.rmdir")


def die_after(steps: int, folder: Path) -> None:
    """Let this process be killed at the next change of a file in the folder after so many."""

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in CHANGES and str(folder) in str(args[0]):
            steps -= 1
            if steps < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


@pytest.mark.parametrize("work", ["add", "thin"])
def test_killed_at_any_step_the_points_stay_good(
    chain: list[Point], db: SessionDB, folder: Path, work: str
) -> None:
    """Each turn is killed one file operation later, on what the killed ones before it left."""
    states = {}
    for point in chain:
        target = folder.parent / "first" / str(point.number)
        states[point.number] = restored(folder, point.number, target)[0]
    db.close()  # what is forked must not have it open
    killed(lambda: (left := SessionDB(db.db_path), say(left, "not yet in a point")))
    now = rows(db.db_path)
    deaths = 0
    seen: dict[str, bytes] = {}

    def once() -> None:
        die_after(deaths, folder)
        if work == "thin":
            thin(folder, 2, at_once=1)
        else:
            add_point(db.db_path, folder)

    while True:
        kind, told = Child(once).outcome()
        there = {one.name: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        if there != seen:  # the same files give the same again
            found = verify_points(folder, all_points=True)
            assert not any(one.damage for one in found), (deaths, found)
            for one in found:
                target = folder.parent / f"after{deaths}" / str(one.number)
                expected = states.get(one.number, now)
                assert restored(folder, one.number, target)[0] == expected
        seen = there
        if kind == "returned":
            break
        assert (kind, told) == ("died", signal.SIGKILL), told
        deaths += 1
    assert deaths > 5
    if work == "add":
        assert [one.number for one in found][:6] == [1, 2, 3, 4, 5, 6]
    else:
        assert {5, 6} <= {one.number for one in found}
    last = add_point(db.db_path, folder)
    newest = list_points(folder)[-1]
    assert last in (None, newest)
    assert restored(folder, newest.number, folder.parent / "last")[0] == now
    left = [one.name for one in folder.iterdir() if one.suffix != ".zip"]
    assert set(left) <= {".lock", ".newest", "proven.json"}
