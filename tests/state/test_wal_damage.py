"""A write-ahead log that is torn, cut off, overwritten or gone: a prefix is kept, and on it goes.

Every commit of the store that is damaged here writes one message and was acknowledged, so what is
left must be the first so many of them: up to the tear, if the tear is all that is wrong.
"""

import logging
import os
import random
import shutil
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB

from .children import killed
from .damage import check_sound
from .memory import memory_folder

pytestmark = pytest.mark.sqlite


HEADER, FRAME = 32, 24 + 4096
FOLDED, LATE = 10, 25
"""How many messages are in the file itself, and how many in its log alone."""


class Crashed(NamedTuple):
    """A store whose process was killed."""

    path: Path
    ends: list[int]
    """How long the log was after each of the late messages."""


def write_and_crash(path: Path) -> list[int]:
    wal = path.with_name("state.db-wal")
    lengths = path.with_name("lengths")

    def write() -> SessionDB:
        with SessionDB(path) as db:
            db.create_session("s", "cli")
            for n in range(FOLDED):
                db.append_message("s", "user", str(n))
        db = SessionDB(path)
        for n in range(LATE):
            # Some are longer than a page, so that a commit has several frames.
            db.append_message("s", "user", f"{FOLDED + n} ".ljust(6000 if n % 5 == 0 else 1))
            with lengths.open("a") as file:
                file.write(f"{wal.stat().st_size}\n")
        return db

    killed(write)
    return [int(line) for line in lengths.read_text().split()]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashed]:
    with memory_folder(tmp_path_factory.mktemp("crashed")) as folder:
        path = folder / "home" / "state.db"
        yield Crashed(path, write_and_crash(path))


@pytest.fixture
def torn(crashed: Crashed, tmp_path: Path) -> Iterator[Crashed]:
    """A copy to damage."""
    with memory_folder(tmp_path) as folder:
        shutil.copytree(crashed.path.parent, folder / "home")
        yield Crashed(folder / "home" / "state.db", crashed.ends)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def look(path: Path) -> int:
    """How many messages are left; they are the first ones, and the store goes on."""
    with SessionDB(path) as db:
        assert db.salvage_report is None
        kept = [message["content"].split()[0] for message in db.get_messages("s")]
        assert kept == [str(n) for n in range(len(kept))]
        assert len(kept) >= FOLDED
        assert db.check_store() == []
        check_sound(db)
    with SessionDB(path) as db:
        assert len(db.get_messages("s")) == len(kept)
        assert len(db.get_messages("after")) == 1, "what came after the tear stays"
    return len(kept)


def expected_up_to(crashed: Crashed, length: int) -> int:
    return FOLDED + sum(end <= length for end in crashed.ends)


def places(crashed: Crashed) -> dict[str, int]:
    """A length for each kind of place at which a log can be cut."""
    middle = crashed.ends[LATE // 2]
    return {
        "nothing left": 0,
        "in the header": 20,
        "behind the header": HEADER,
        "in the first frame's header": HEADER + 10,
        "in the first page": HEADER + 1000,
        "between two commits": middle,
        "in a frame's header": middle + 10,
        "between a frame's header and its page": middle + 24,
        "in a page": middle + 2000,
        "in the last page": crashed.ends[-1] - 1,
        "not at all": crashed.ends[-1],
    }


SHARED_INDEX: dict[str, Callable[[Path], object]] = {
    "left": lambda shm: None,
    "gone": lambda shm: shm.unlink(),
    "empty": lambda shm: os.truncate(shm, 0),
    "cut off": lambda shm: os.truncate(shm, 50),
    "noise": lambda shm: shm.write_bytes(random.Random(1).randbytes(shm.stat().st_size)),
}


@pytest.mark.parametrize("index", SHARED_INDEX)
@pytest.mark.parametrize(
    "place", places(Crashed(Path(), [HEADER + n * FRAME for n in range(LATE)]))
)
def test_a_log_cut_off_keeps_everything_before_the_cut(
    torn: Crashed, place: str, index: str
) -> None:
    length = places(torn)[place]
    os.truncate(beside(torn.path, "-wal"), length)
    SHARED_INDEX[index](beside(torn.path, "-shm"))
    assert look(torn.path) == expected_up_to(torn, length)


@pytest.mark.parametrize("index", SHARED_INDEX)
def test_a_log_that_is_gone_costs_what_was_in_it_alone(torn: Crashed, index: str) -> None:
    beside(torn.path, "-wal").unlink()
    SHARED_INDEX[index](beside(torn.path, "-shm"))
    assert look(torn.path) == FOLDED


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"\xff" * 3, os.urandom(30_000)])
@pytest.mark.parametrize("cut", [0, 1, 700])
def test_whatever_follows_the_end_is_not_read(torn: Crashed, junk: bytes, cut: int) -> None:
    wal = beside(torn.path, "-wal")
    length = wal.stat().st_size - cut
    os.truncate(wal, length)
    with wal.open("ab") as file:
        file.write(junk)
    assert look(torn.path) == expected_up_to(torn, length)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_wherever_it_is_cut_or_scratched_a_prefix_is_kept(
    crashed: Crashed, data: st.DataObject
) -> None:
    with memory_folder(crashed.path.parent.parent) as folder:
        shutil.copytree(crashed.path.parent, folder / "home")
        torn = Crashed(folder / "home" / "state.db", crashed.ends)
        wal = beside(torn.path, "-wal")
        size = wal.stat().st_size
        place = data.draw(st.integers(0, size), label="place")
        scratch = data.draw(st.sampled_from(["cut", "zeros", "noise", "flipped bit"]), label="how")
        if scratch == "cut":
            os.truncate(wal, place)
        else:
            place = min(place, size - 1)
            with wal.open("r+b") as file:
                file.seek(place)
                old = file.read(data.draw(st.integers(1, 5000), label="length"))
                new = {
                    "zeros": b"\0" * len(old),
                    "noise": random.Random(place).randbytes(len(old)),
                    "flipped bit": bytes([old[0] ^ 1]) + old[1:],
                }[scratch]
                file.seek(place)
                file.write(new)
                differs = next((n for n, (a, b) in enumerate(zip(old, new)) if a != b), None)  # noqa: B905
            place = size if differs is None else place + differs
        SHARED_INDEX[data.draw(st.sampled_from([*SHARED_INDEX]), label="shared index")](
            beside(torn.path, "-shm")
        )
        assert look(torn.path) == expected_up_to(torn, place)


# What is lost is said


def torn_logs(path: Path) -> list[Path]:
    return list(path.parent.glob("state.db-wal.torn-*"))


def scratch(path: Path, place: int) -> None:
    with beside(path, "-wal").open("r+b") as file:
        file.seek(place)
        file.write(b"scratch")


@pytest.mark.parametrize("place", [0, 17, HEADER + 100, "middle"])
def test_commits_behind_a_tear_are_reported_and_kept(
    torn: Crashed, place: int | str, caplog: pytest.LogCaptureFixture
) -> None:
    at = torn.ends[LATE // 2] + 100 if place == "middle" else int(place)
    scratch(torn.path, at)
    before = beside(torn.path, "-wal").read_bytes()
    kept = expected_up_to(torn, at)
    lost = FOLDED + LATE - kept
    with caplog.at_level(logging.ERROR):
        assert look(torn.path) == kept
    (aside,) = torn_logs(torn.path)
    assert aside.read_bytes() == before
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    (record,) = [one for one in caplog.records if "write-ahead log" in one.message]
    assert f"its last {lost} changes" in record.message
    assert str(aside) in record.message


def test_what_a_crash_cut_off_is_not_called_a_loss(torn: Crashed) -> None:
    """The last commit may be torn when the power fails: nobody was told that it was stored."""
    scratch(torn.path, torn.ends[-1] - 100)
    assert look(torn.path) == FOLDED + LATE - 1
    assert not torn_logs(torn.path)


def test_a_whole_log_is_not_called_torn(torn: Crashed) -> None:
    assert look(torn.path) == FOLDED + LATE
    assert not torn_logs(torn.path)


def test_a_log_that_has_begun_anew_is_not_called_torn(torn: Crashed) -> None:
    """Behind its end lie the commits of its earlier run, which are in the file already."""

    def write() -> SessionDB:
        db = SessionDB(torn.path)
        db._database.outside_transaction(lambda conn: conn.wal_checkpoint())
        db.append_message("s", "user", str(FOLDED + LATE))
        return db

    killed(write)
    wal = beside(torn.path, "-wal")
    assert wal.stat().st_size >= torn.ends[-1]
    assert look(torn.path) == FOLDED + LATE + 1
    assert not torn_logs(torn.path)


def test_a_log_that_another_writes_is_not_called_torn(torn: Crashed) -> None:
    with SessionDB(torn.path) as first:
        for n in range(FOLDED + LATE, FOLDED + LATE + 10):
            first.append_message("s", "user", str(n))
            with SessionDB(torn.path) as second:
                assert len(second.get_messages("s")) == n + 1
    assert not torn_logs(torn.path)


def test_frames_are_as_long_as_these_tests_think(torn: Crashed) -> None:
    page_size = struct.unpack_from(">I", beside(torn.path, "-wal").read_bytes(), 8)[0]
    assert page_size + 24 == FRAME
    assert all((end - HEADER) % FRAME == 0 for end in torn.ends)
