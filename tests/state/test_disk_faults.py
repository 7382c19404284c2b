"""A disk that is full, read-only, failing or slow: refused by name, nothing lost, it goes on."""

import contextlib
import functools
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB, StoreError, StoreFullError, StoreUnavailableError
from hermes_state.connection import damage_marker
from hermes_state.errors import StoreIOError, StoreReadOnlyError

from .. import seeds, skips
from .children import Child, in_child
from .faults import Disk, faulty_disk
from .kill_model import Operation, State, check_whole, choose, observe, perform
from .memory import memory_folder
from .test_faults import as_a_stranger, raised, shared_folder  # noqa: F401 - a fixture

pytestmark = pytest.mark.sqlite


SEED = seeds.seed()
NAMES = {"full": StoreFullError, "read-only": StoreReadOnlyError, "io": StoreIOError}


@pytest.fixture
def disk(db_path: Path) -> Iterator[Disk]:
    db_path.parent.mkdir()
    with faulty_disk(db_path.parent) as disk:
        yield disk


def say(db: SessionDB, text: str) -> int:
    return db.append_message("s", "user", text)


def texts(db: SessionDB) -> list[str]:
    return [message["content"] for message in db.get_messages("s")]


def check_well(db: SessionDB) -> None:
    # The operations at random make tool calls, and no results.
    assert [one for one in db.check_store() if one.rule != "calls_are_answered"] == []
    assert not damage_marker(db.db_path).exists(), "it was taken for damaged"


# One fault after the other, on one SessionDB


@pytest.mark.parametrize("kind", NAMES)
def test_it_is_refused_by_name_and_goes_on_by_itself(disk: Disk, db_path: Path, kind: str) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        say(db, "before")
        for attempt in range(3):
            with disk.failing(kind):
                for _ in range(2):
                    with pytest.raises(NAMES[kind]):
                        say(db, "during")
            assert disk.failures
            say(db, f"after {attempt}")
        assert texts(db) == ["before", "after 0", "after 1", "after 2"]
        check_well(db)
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        assert texts(db) == ["before", "after 0", "after 1", "after 2"]


def test_a_slow_disk_only_takes_longer(disk: Disk, db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        with disk.failing("slow", pause=0.01):
            for n in range(10):
                say(db, str(n))
        assert texts(db) == [str(n) for n in range(10)]
        check_well(db)


def test_a_disk_that_cannot_be_read_is_not_damage(disk: Disk, db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        for n in range(50):
            say(db, f"{n}".ljust(3000, "x"))
    with SessionDB(db_path) as db:
        with disk.failing("io"):
            for _ in range(5):
                with pytest.raises(StoreIOError):
                    texts(db)
                with pytest.raises(StoreIOError):
                    say(db, "during")
        assert len(texts(db)) == 50
        check_well(db)


@pytest.mark.parametrize("kind", NAMES)
def test_opening_is_refused_and_changes_nothing(disk: Disk, db_path: Path, kind: str) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        say(db, "before")
    for likelihood in (1.0, 0.6, 0.3, 0.1) * 3:
        with disk.failing(kind, likelihood), contextlib.suppress(StoreError):  # noqa: SIM117
            with SessionDB(db_path) as db:
                assert texts(db) == ["before"]
    assert disk.failures
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        assert texts(db) == ["before"]
        check_well(db)


@pytest.mark.parametrize("kind", NAMES)
def test_a_store_that_could_not_be_made_is_made_later(disk: Disk, db_path: Path, kind: str) -> None:
    for likelihood in (1.0, 0.5, 0.2):
        with disk.failing(kind, likelihood), contextlib.suppress(StoreError):
            SessionDB(db_path).close()
    assert disk.failures
    with SessionDB(db_path) as db:
        assert db.salvage_report is None
        db.create_session("s", "cli")
        say(db, "after")
        check_well(db)


def test_when_only_the_checkpoint_finds_no_room_writing_goes_on(disk: Disk, db_path: Path) -> None:
    """What is in the write-ahead log is durable; folding it back can wait."""
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        database = db._database
        size = db_path.stat().st_size
        with disk.failing("full"), pytest.raises(StoreFullError):
            database.outside_transaction(lambda conn: conn.wal_checkpoint())
        say(db, "after")
        database.outside_transaction(lambda conn: conn.wal_checkpoint())
        assert db_path.stat().st_size > size
        check_well(db)


def test_the_log_does_not_stay_large_after_a_full_disk(disk: Disk, db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        for n in range(200):
            with disk.failing("full", 0.02), contextlib.suppress(StoreFullError):
                say(db, f"{n}".ljust(40_000, "x"))
        assert disk.failures
        for _ in range(3):
            say(db, "after")
        db._database.outside_transaction(lambda conn: conn.wal_checkpoint())
        say(db, "the log begins anew")
        wal = db_path.with_name("state.db-wal")
        assert wal.stat().st_size < 67_108_864 + 100_000
        check_well(db)


@pytest.mark.parametrize("kind", NAMES)
def test_search_goes_on_too(disk: Disk, db_path: Path, kind: str) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        say(db, "a walnut")
        for likelihood in (1.0, 0.5, 0.2, 0.1):
            say(db, f"another walnut {likelihood}")
            with disk.failing(kind, likelihood), contextlib.suppress(StoreError):
                db.search_messages("walnut")
        assert len(db.search_messages("walnut")) == 5
        check_well(db)


def test_threads_that_share_a_transaction_are_all_told(disk: Disk, db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        outcomes: list[tuple[str, bool]] = []

        def write(number: int) -> None:
            for n in range(30):
                text = f"{number}:{n}"
                try:
                    say(db, text)
                    outcomes.append((text, True))
                except StoreFullError:
                    outcomes.append((text, False))

        threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(6)]
        with disk.failing("full", 0.2):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive(), "a writer hangs"
        accepted = {text for text, was_accepted in outcomes if was_accepted}
        assert len(outcomes) == 180
        assert 0 < len(accepted) < 180
        assert sorted(texts(db)) == sorted(accepted)
        check_well(db)


# Random operations on a disk that fails at random


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as folder:
        yield folder / "home" / "state.db"


def attempt(db: SessionDB, operation: Operation) -> bool:
    """Do the operation; False if the store refused it, by one of its names."""
    try:
        perform(db, operation)
    except (StoreFullError, StoreReadOnlyError, StoreIOError) as error:
        assert str(error)
        return False
    return True


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", NAMES)
def test_nothing_is_lost_and_nothing_half_done_whatever_fails_when(
    memory_path: Path, kind: str
) -> None:
    chance = random.Random(f"{SEED}/{kind}")
    memory_path.parent.mkdir()
    state, refused, done = State(), 0, 0
    with faulty_disk(memory_path.parent, SEED) as disk:
        db = SessionDB(memory_path)
        for number in range(400):
            where = f"seed {SEED}, {kind}, operation {number}"
            operation = choose(chance, state, str(number))
            fails = contextlib.nullcontext()
            if chance.random() < 0.5:
                fails = disk.failing(kind, chance.choice([0.02, 0.1, 0.3, 1.0]))
            with fails:
                accepted = attempt(db, operation)
            if accepted:
                state.apply(operation)
                done += 1
            else:
                refused += 1
            if not accepted or number % 20 == 0:
                assert observe(db) == state, where
            if chance.random() < 0.03:
                db.close()
                db = SessionDB(memory_path)
                assert db.salvage_report is None, where
        assert refused > 20 and done > 200, (refused, done)
        check_whole(db, state)
        check_well(db)
        db.close()
    with SessionDB(memory_path) as db:
        assert observe(db) == state
        check_well(db)


def work_until_refused(path: Path, state: State, seed: str, out: int) -> None:
    """In a child: operations on a disk that fails; says each outcome, and is killed thereafter."""
    chance = random.Random(seed)
    with faulty_disk(path.parent, chance.randrange(10**6)) as disk:
        db = SessionDB(path)
        with disk.failing(chance.choice([*NAMES]), chance.choice([0.01, 0.05, 0.3])):
            for number in range(60):
                operation = choose(chance, state, f"{seed}-{number}")
                accepted = attempt(db, operation)
                os.write(out, b"+" if accepted else b"-")
                if not accepted:
                    break
                state.apply(operation)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fuzz
def test_killed_right_after_a_refusal_it_is_whole_or_nothing(memory_path: Path) -> None:
    """A refused write may be in the log already; after a kill it counts wholly or not at all."""
    memory_path.parent.mkdir()
    state = State()
    refused = 0
    for round_ in range(seeds.times(16, 80)):
        seed = f"{SEED}/{round_}"
        reader, writer = os.pipe()
        child = Child(functools.partial(work_until_refused, memory_path, state, seed, writer))
        os.close(writer)
        assert child.outcome()[0] == "died", seed
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        chance = random.Random(seed)
        chance.randrange(10**6), chance.choice([*NAMES]), chance.choice([0, 0, 0])
        undone = None
        for number, word in enumerate(said):
            operation = choose(chance, state, f"{seed}-{number}")
            if word == ord("+"):
                state.apply(operation)
            else:
                undone = operation

        def look() -> State:
            db = SessionDB(memory_path)
            assert db.salvage_report is None
            found = observe(db)
            check_whole(db, found)
            return found

        found = in_child(look)
        if undone is not None:
            refused += 1
            whole = state.after(undone)
            state = whole if found == whole else state
        assert found == state, seed
    assert refused > 10
    with SessionDB(memory_path) as db:
        assert observe(db) == state
        check_well(db)


# Real limits of the system


def test_a_limit_on_the_size_of_files_is_met_with_refusal(db_path: Path) -> None:
    def work() -> tuple[str, int, int, int]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with SessionDB(db_path) as db:
            db.create_session("s", "cli")
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, most))
            accepted, refusal = 0, ""
            for n in range(200):
                try:
                    say(db, f"{n}".ljust(20_000, "x"))
                    accepted += 1
                except StoreError as error:
                    refusal = type(error).__name__
                    break
            during = len(texts(db))
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            for n in range(30):
                say(db, f"later {n}".ljust(20_000, "x"))
            check_well(db)
            return refusal, accepted, during, len(texts(db))

    refusal, accepted, during, later = in_child(work)
    assert refusal == "StoreIOError"
    assert (during, later) == (accepted, accepted + 30)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    made: list[Path] = []

    def mount(size: str) -> Path:
        folder = tmp_path / f"disk{len(made)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            skips.no_mounting()
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_to_the_last_byte(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"b" * 4096)
    return ballast


def test_opening_on_a_full_disk_says_that_it_is_full(
    small_disk: Callable[[str], Path],
) -> None:
    disk = small_disk("1m")
    path = disk / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        say(db, "before")
    ballast = fill_to_the_last_byte(disk)
    with pytest.raises(StoreFullError, match="Free some"):
        SessionDB(path)
    with pytest.raises(StoreFullError, match="Free some"):
        SessionDB(disk / "new.db")
    ballast.unlink()
    for name in ("state.db", "new.db"):
        with SessionDB(disk / name) as db:
            db.ensure_session("s", "cli")
            say(db, "after")
            check_well(db)
            assert texts(db)[-1] == "after"


def test_filled_and_freed_again_and_again_the_same_store_goes_on(
    small_disk: Callable[[str], Path],
) -> None:
    disk = small_disk("8m")
    accepted: list[str] = []
    with SessionDB(disk / "state.db") as db:
        db.create_session("s", "cli")
        for round_ in range(4):
            ballast = fill_to_the_last_byte(disk)
            refused = 0
            while not refused:
                text = f"{round_}:{len(accepted)}".ljust(9000, "x")
                try:
                    say(db, text)
                    accepted.append(text)
                except StoreFullError:
                    refused += 1
            assert texts(db) == accepted
            with contextlib.suppress(StoreFullError):
                db.search_messages(f"{round_}")
            ballast.unlink()
            accepted.append(f"{round_} room")
            say(db, accepted[-1])
            assert len(db.search_messages("room")) == round_ + 1
        assert texts(db) == accepted
        check_well(db)
        assert shutil.disk_usage(disk).free > 1_000_000, "the log stays small"


def test_a_file_that_was_read_only_is_written_once_it_may_be(
    shared_folder: Path,  # noqa: F811
) -> None:
    """The same SessionDB goes on: it was opened when it could only read."""
    path = shared_folder / "state.db"
    shared_folder.chmod(0o777)

    def work() -> object:
        with SessionDB(path) as db:
            db.create_session("s", "cli")
            say(db, "before")
        path.chmod(0o444)
        with SessionDB(path) as db:
            refused = raised(lambda: say(db, "no"))
            for file in path.parent.glob("state.db*"):
                file.chmod(0o644)
            say(db, "after")
            return refused, texts(db)

    assert as_a_stranger(work) == ("StoreReadOnlyError", ["before", "after"])


def test_connecting_anew_makes_no_file_where_it_was_deleted(disk: Disk, db_path: Path) -> None:
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        with disk.failing("read-only"), pytest.raises(StoreReadOnlyError):
            say(db, "during")
        db._database._writer_is_spoilt = True
        for file in db_path.parent.glob("state.db*"):
            file.unlink()
        with pytest.raises(StoreUnavailableError, match="moved, deleted"):
            say(db, "gone")
        assert not db_path.exists()
