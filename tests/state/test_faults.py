"""What the world does to a file: locks, full disks, permissions, forks. Each has a named error."""

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from hermes_state import (
    SessionDB,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UnsafeSQLiteError,
)
from hermes_state.connection import (
    has_wal_reset_bug,
    patient_busy_handler,
    require_safe_sqlite,
)
from hermes_state.opening import FileConnection

from .. import skips
from . import old_store
from .children import in_child

pytestmark = pytest.mark.sqlite


NOBODY = 65534


def talk(path: Path, *texts: str) -> None:
    with SessionDB(path) as db:
        db.ensure_session("s", "cli")
        for text in texts:
            db.append_message("s", "user", text)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[FileConnection]:
    """Another connection holds the write lock.

    One of apsw: within a process, the locks of two SQLite libraries do not see each other.
    """
    other = FileConnection(str(path))
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def texts_of(db: SessionDB) -> list[str]:
    return [message["content"] for message in db.get_messages("s")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Locks


def test_a_locked_store_is_named_and_works_again_when_it_is_free(db_path: Path) -> None:
    talk(db_path, "before")
    with SessionDB(db_path, busy_timeout=0.2) as db:
        with locked(db_path):
            with pytest.raises(StoreBusyError, match="nothing was written"):
                db.append_message("s", "user", "too early")
            assert texts_of(db) == ["before"], "readers do not wait"
        db.append_message("s", "user", "after")
        assert texts_of(db) == ["before", "after"]


def test_a_short_lock_is_waited_for(db_path: Path) -> None:
    talk(db_path, "before")
    with SessionDB(db_path) as db:
        met = threading.Event()
        handler = patient_busy_handler(30)

        def tell(prior_calls: int) -> bool:
            met.set()
            return handler(prior_calls)

        db._database._writer.set_busy_handler(tell)
        writer = threading.Thread(target=db.append_message, args=("s", "user", "after"))
        with locked(db_path):
            writer.start()
            assert met.wait(30), "the writer never met the lock"
        writer.join(30)
        assert texts_of(db) == ["before", "after"]


def test_an_open_store_that_is_locked_can_be_opened_and_read(db_path: Path) -> None:
    talk(db_path, "before")
    with locked(db_path), SessionDB(db_path, busy_timeout=0.2) as db:
        assert texts_of(db) == ["before"]


def test_an_old_store_that_is_locked_is_not_upgraded_until_it_is_free(db_path: Path) -> None:
    old_store.build(db_path)
    with locked(db_path), pytest.raises(StoreBusyError):
        SessionDB(db_path, busy_timeout=0.2)
    with SessionDB(db_path) as db:
        assert db.get_compression_tip("c1") == "c3"


# Full disks


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system of its own; skips where that is not allowed."""
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


def check_fills_up(db: SessionDB, make_room: Callable[[], None]) -> None:
    db.create_session("s", "cli")
    accepted = []
    with pytest.raises(StoreFullError, match="nothing was written"):
        for n in range(2000):
            text = f"{n} ".ljust(20_000, "x")
            db.append_message("s", "user", text)
            accepted.append(text)
    assert accepted
    assert texts_of(db) == accepted
    with pytest.raises(StoreFullError):
        db.append_messages("s", [{"role": "user", "content": "y" * 20_000}] * 50)
    assert texts_of(db) == accepted
    session = db.get_session("s")
    assert session and session["message_count"] == len(accepted)
    make_room()
    for n in range(20):
        db.append_message("s", "user", f"room {n}".ljust(20_000, "z"))
    assert len(texts_of(db)) == len(accepted) + 20
    assert db._database.read(lambda conn: conn.pragma("integrity_check")) == "ok"


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(
    mounted: Callable[[str], Path],
) -> None:
    disk = mounted("4m")
    ballast = disk / "ballast"
    ballast.write_bytes(b"b" * 2_000_000)
    with SessionDB(disk / "state.db") as db:
        check_fills_up(db, ballast.unlink)
    with SessionDB(disk / "state.db") as db:
        assert db.salvage_report is None
        assert len(texts_of(db)) > 20


def test_a_store_that_may_not_grow_refuses_and_goes_on_when_it_may(db: SessionDB) -> None:
    writer = db._database._writer
    writer.execute("PRAGMA max_page_count = 200")
    check_fills_up(db, lambda: writer.execute("PRAGMA max_page_count = 100000") and None)


def test_no_room_for_the_backup_leaves_an_old_store_as_it_was(
    mounted: Callable[[str], Path],
) -> None:
    disk = mounted("1m")
    path = disk / "state.db"
    old_store.build(path)
    before = old_store.contents(path)
    free = shutil.disk_usage(disk).free
    ballast = disk / "ballast"
    ballast.write_bytes(b"b" * (free - 130_000))
    with pytest.raises(StoreError):
        SessionDB(path)
    assert old_store.contents(path) == before
    assert not list((disk / "backups").glob("*"))
    ballast.unlink()
    with SessionDB(path) as db:
        assert db.get_compression_tip("c1") == "c3"


def test_opening_on_a_disk_that_is_full_is_named(mounted: Callable[[str], Path]) -> None:
    disk = mounted("1m")
    talk(disk / "state.db", "before")
    ballast = disk / "ballast"
    with pytest.raises(OSError, match="No space"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"b" * 4096)
    try:
        with SessionDB(disk / "state.db") as db:
            assert texts_of(db) == ["before"]
            db.append_message("s", "user", "no room")
    except StoreError:
        pass
    ballast.unlink()
    with SessionDB(disk / "state.db") as db:
        assert texts_of(db) == ["before"]
        db.append_message("s", "user", "after")


# Permissions


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike the temporary folders of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    shutil.rmtree(folder)


def as_a_stranger(work: Callable[[], object]) -> object:
    """What `work` gives in a process that permissions bind, whoever runs the tests."""
    import hermes_state.salvage  # noqa: F401 - its file may be out of reach later

    def run() -> object:
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_child(run)


def raised(work: Callable[[], object]) -> str:
    """The name of the error that `work` raises."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the test compares its name
        return type(error).__name__
    return "nothing"


def test_a_file_that_cannot_be_written_can_be_read(shared_folder: Path) -> None:
    path = shared_folder / "state.db"
    talk(path, "before")
    path.chmod(0o444)
    shared_folder.chmod(0o777)

    def work() -> object:
        with SessionDB(path) as db:
            refused = raised(lambda: db.append_message("s", "user", "no"))
            return refused, texts_of(db)

    assert as_a_stranger(work) == ("StoreReadOnlyError", ["before"])
    with SessionDB(path) as db:
        assert texts_of(db) == ["before"]


@pytest.mark.parametrize("file_mode", [0o444, 0o666])
def test_a_folder_that_cannot_be_written_is_named(shared_folder: Path, file_mode: int) -> None:
    path = shared_folder / "state.db"
    talk(path, "before")
    path.chmod(file_mode)
    shared_folder.chmod(0o555)
    assert as_a_stranger(lambda: raised(lambda: SessionDB(path))) == "StoreReadOnlyError"
    shared_folder.chmod(0o755)
    with SessionDB(path) as db:
        assert texts_of(db) == ["before"]


def test_a_disk_that_cannot_be_written_is_named(mounted: Callable[[str], Path]) -> None:
    disk = mounted("2m")
    talk(disk / "state.db", "before")
    remount = ["mount", "-o", "remount,ro", str(disk)]
    if subprocess.run(remount, capture_output=True).returncode:
        skips.no_mounting()
    with pytest.raises(StoreUnavailableError, match="is read-only"):
        SessionDB(disk / "state.db")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with SessionDB(disk / "state.db") as db:
        assert texts_of(db) == ["before"]


def test_files_and_folders_out_of_reach_are_named(shared_folder: Path) -> None:
    secret = shared_folder / "secret"
    talk(secret / "state.db", "before")
    secret.chmod(0)
    shared_folder.chmod(0o555)
    paths = {
        "unreadable folder": secret / "state.db",
        "no such folder, none can be made": shared_folder / "new" / "state.db",
        "no such file, none can be made": shared_folder / "state.db",
    }
    found = as_a_stranger(
        lambda: {why: raised(lambda path=path: SessionDB(path)) for why, path in paths.items()}
    )
    assert found == dict.fromkeys(paths, "StoreUnavailableError")


# Paths


def test_missing_folders_are_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with SessionDB(tmp_path / "a" / "b" / "c" / "state.db") as db:
            db.create_session("s", "cli")
            db.append_message("s", "user", "x")
            for name in ("state.db", "state.db-wal", "state.db-shm"):
                assert mode(db.db_path.with_name(name)) == 0o600, name
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert mode(folder) == 0o700
    assert mode(tmp_path / "a" / "b" / "c" / "state.db") == 0o600


def test_existing_folders_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o750)
    talk(tmp_path / "home" / "state.db")
    assert mode(tmp_path / "home") == 0o750


def test_a_file_that_a_crash_left_empty_is_made_private(db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.touch()
    db_path.chmod(0o644)
    talk(db_path, "x")
    assert mode(db_path) == 0o600


@pytest.mark.parametrize(
    "name", ["file/state.db", "file/deeper/state.db", "folder", "x" * 300, "x" * 300 + "/state.db"]
)
def test_paths_that_cannot_be_a_store_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("I am a file")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailableError):
        SessionDB(tmp_path / name)
    assert (tmp_path / "file").read_text() == "I am a file"


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
def test_nothing_is_written_into_a_file_that_is_gone(db_path: Path, how: str) -> None:
    talk(db_path, "before")
    with SessionDB(db_path) as db:
        if how == "deleted":
            for path in db_path.parent.iterdir():
                path.unlink()
        elif how == "replaced":
            talk(db_path.with_name("other.db"), "other")
            db_path.with_name("other.db").replace(db_path)
        else:
            db_path.rename(db_path.with_name("moved.db"))
        with pytest.raises(StoreUnavailableError, match="Open the store anew"):
            db.append_message("s", "user", "lost?")


# Processes and threads


def test_a_closed_store_says_so(db_path: Path) -> None:
    db = SessionDB(db_path)
    db.create_session("s", "cli")
    db.close()
    db.close()
    for use in (
        lambda: db.append_message("s", "user", "x"),
        lambda: db.get_messages("s"),
        lambda: db.delete_session("s"),
        lambda: db.vacuum(),
        lambda: db._execute_write(lambda conn: None),
    ):
        with pytest.raises(StoreClosedError, match="closed"):
            use()


def test_a_fork_needs_a_store_of_its_own(db_path: Path) -> None:
    talk(db_path, "before")
    with SessionDB(db_path) as db:
        assert texts_of(db) == ["before"]

        def use_in_child() -> list[str]:
            errors = [
                raised(lambda: db.append_message("s", "user", "x")),
                raised(lambda: db.get_messages("s")),
                raised(lambda: db.vacuum()),
            ]
            db.close()
            with SessionDB(db_path) as own:
                own.append_message("s", "user", "from the child")
            return errors

        assert in_child(use_in_child) == ["StoreClosedError"] * 3
        db.append_message("s", "user", "after")
        assert texts_of(db) == ["before", "from the child", "after"]
    with SessionDB(db_path) as db:
        assert texts_of(db) == ["before", "from the child", "after"]


def test_a_fork_during_a_write_does_not_hang(db_path: Path) -> None:
    talk(db_path)
    with SessionDB(db_path) as db:
        inside, leave = threading.Event(), threading.Event()

        def slow(_: FileConnection) -> None:
            inside.set()
            assert leave.wait(30)

        writer = threading.Thread(target=db._execute_write, args=(slow,), daemon=True)
        writer.start()
        assert inside.wait(30)

        def use_in_child() -> str:
            error = raised(lambda: db.append_message("s", "user", "x"))
            db.close()
            return error

        assert in_child(use_in_child) == "StoreClosedError"
        leave.set()
        writer.join(30)
        db.append_message("s", "user", "after")
        assert texts_of(db) == ["after"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, apsw.FullError])
def test_an_error_inside_a_write_takes_all_of_it_back(
    db: SessionDB, error: type[BaseException]
) -> None:
    db.create_session("s", "cli")

    def work(conn: FileConnection) -> None:
        conn.execute("UPDATE sessions SET title = 'half' WHERE id = 's'")
        conn.execute("INSERT INTO state_meta VALUES ('half', 'done')")
        raise error("stop")

    with pytest.raises(StoreFullError if error is apsw.FullError else error):
        db._execute_write(work)
    assert (db.get_session_title("s"), db.get_meta("half")) == (None, None)
    assert db._execute_write(lambda conn: 5) == 5


# SQLite itself


@pytest.mark.parametrize(
    ("version", "unsafe"),
    [
        ("3.6.23", False), ("3.7.0", True), ("3.40.1", True), ("3.44.5", True), ("3.44.6", False),
        ("3.44.9", False), ("3.45.0", True), ("3.49.2", True), ("3.50.6", True), ("3.50.7", False),
        ("3.51.0", True), ("3.51.2", True), ("3.51.3", False), ("3.52.0", False), ("4.0.0", False),
    ],
)  # fmt: skip
def test_versions_of_sqlite_that_can_corrupt_are_refused(version: str, unsafe: bool) -> None:
    assert has_wal_reset_bug(version) is unsafe
    if unsafe:
        with pytest.raises(UnsafeSQLiteError, match="pip install"):
            require_safe_sqlite(version)
    else:
        require_safe_sqlite(version)


def test_no_store_is_opened_with_such_a_version(
    db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(UnsafeSQLiteError):
        SessionDB(db_path)
    assert not db_path.exists()


def test_every_write_is_on_disk_when_it_returns(db: SessionDB) -> None:
    pragmas = [
        db._database.outside_transaction(lambda conn, name=name: conn.pragma(name))
        for name in ("journal_mode", "synchronous", "foreign_keys")
    ]
    assert pragmas == ["wal", 2, 1]
