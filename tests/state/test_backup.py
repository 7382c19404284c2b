"""Copies of the store: whole while others write, refused where they would not be."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hermes_state import SessionDB, StoreError
from hermes_state.backup.copies import check_copy, copy_store, is_in_use

pytestmark = pytest.mark.sqlite


def test_a_copy_taken_amid_writes_is_one_state_of_the_store(db: SessionDB, tmp_path: Path) -> None:
    db.create_session("s", "cli")
    stop, started = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            db.append_messages("s", [{"role": "user", "content": "x" * 500}] * 20)
            started.set()

    thread = threading.Thread(target=write)
    thread.start()
    started.wait(60)
    try:
        for number in range(5):
            target = tmp_path / f"copy{number}.db"
            copied = copy_store(db.db_path, target)
            with SessionDB(target) as opened:
                session = opened.get_session("s")
                assert session is not None
                # Twenty at a time: a torn copy would have another count.
                assert session["message_count"] == copied.messages == opened.message_count()
                assert copied.messages % 20 == 0
                assert opened.check_store() == []
            assert stat.S_IMODE(target.stat().st_mode) == 0o600
    finally:
        stop.set()
        thread.join()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no session store"):
        copy_store(tmp_path / "none.db", tmp_path / "copy.db")
    (tmp_path / "text.db").write_text("not a database " * 100)
    with pytest.raises(StoreError):
        copy_store(tmp_path / "text.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="no session store"):
        check_copy(tmp_path / "empty.db")


def test_a_damaged_copy_is_noticed(db: SessionDB, tmp_path: Path) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": "x" * 3000}] * 50)
    copy = tmp_path / "copy.db"
    copy_store(db.db_path, copy)
    content = bytearray(copy.read_bytes())
    for page in range(10, len(content) // 4096 - 2, 3):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    copy.write_bytes(content)
    with pytest.raises(StoreError):
        check_copy(copy)


def test_a_store_in_use_is_known(db_path: Path) -> None:
    assert not is_in_use(db_path)
    SessionDB(db_path).close()
    assert not is_in_use(db_path)
    code = (
        "import sys; from hermes_state import SessionDB; db = SessionDB(sys.argv[1]);"
        "print('open', flush=True); sys.stdin.read(); db.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(db_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "open\n"
        assert is_in_use(db_path)
        other.stdin.close()
        other.wait(60)
    assert not is_in_use(db_path)
    with SessionDB(db_path) as again:
        again.create_session("s", "cli")
        assert is_in_use(db_path)
