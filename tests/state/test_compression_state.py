"""What compression remembers: who is at it, how soon it may try again, how often it fell back."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB

from .raw import set_clock


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session("s1", "cli")
    return db


def test_one_holds_the_lock(chat: SessionDB) -> None:
    assert chat.get_compression_lock_holder("s1") is None
    assert chat.try_acquire_compression_lock("s1", "a") is True
    assert chat.try_acquire_compression_lock("s1", "b") is False
    assert chat.try_acquire_compression_lock("s2", "b") is True  # another session's
    assert chat.get_compression_lock_holder("s1") == "a"
    assert chat.try_acquire_compression_lock("s1", "a") is True  # still ours
    chat.release_compression_lock("s1", "b")
    assert chat.get_compression_lock_holder("s1") == "a"
    chat.release_compression_lock("s1", "a")
    assert chat.get_compression_lock_holder("s1") is None
    assert chat.try_acquire_compression_lock("s1", "b") is True


def test_an_expired_lock_is_free(chat: SessionDB) -> None:
    assert chat.try_acquire_compression_lock("s1", "a", ttl_seconds=0)
    assert chat.get_compression_lock_holder("s1") is None
    assert chat.refresh_compression_lock("s1", "a") is False  # too late: somebody may have had it
    assert chat.try_acquire_compression_lock("s1", "b") is True
    assert chat.refresh_compression_lock("s1", "a") is False
    chat.release_compression_lock("s1", "a")
    assert chat.get_compression_lock_holder("s1") == "b"


def test_a_lock_can_be_held_for_longer(chat: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    set_clock(monkeypatch, lambda: now[0])
    chat.try_acquire_compression_lock("s1", "a", ttl_seconds=300)
    now[0] += 299
    assert chat.refresh_compression_lock("s1", "a", ttl_seconds=300) is True
    assert chat.refresh_compression_lock("s1", "b", ttl_seconds=300) is False
    now[0] += 299
    assert chat.get_compression_lock_holder("s1") == "a"
    assert chat.try_acquire_compression_lock("s1", "b") is False
    now[0] += 1
    assert chat.get_compression_lock_holder("s1") is None
    assert chat.try_acquire_compression_lock("s1", "b") is True


def test_a_lock_goes_with_its_session(chat: SessionDB) -> None:
    chat.try_acquire_compression_lock("s1", "a")
    chat.delete_session("s1")
    assert chat.get_compression_lock_holder("s1") is None


def test_one_of_many_gets_the_lock(chat: SessionDB, db_path: Path) -> None:
    won: list[str] = []
    barrier = threading.Barrier(4)

    def compete(name: str) -> None:
        with SessionDB(db_path) as store:
            barrier.wait()
            if store.try_acquire_compression_lock("s1", name):
                won.append(name)

    threads = [threading.Thread(target=compete, args=(f"p{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [chat.get_compression_lock_holder("s1")]


def test_a_cooldown_runs_until_its_time(chat: SessionDB) -> None:
    assert chat.get_compression_failure_cooldown("s1") is None
    until = time.time() + 1000
    chat.record_compression_failure_cooldown("s1", until, "no model")
    cooldown = chat.get_compression_failure_cooldown("s1")
    assert cooldown
    assert (cooldown["cooldown_until"], cooldown["error"]) == (until, "no model")
    assert 0 < cooldown["remaining_seconds"] <= 1000
    chat.record_compression_failure_cooldown("s1", until + 5)
    cooldown = chat.get_compression_failure_cooldown("s1")
    assert cooldown and cooldown["error"] is None
    chat.record_compression_failure_cooldown("s1", time.time() - 1, "over")
    assert chat.get_compression_failure_cooldown("s1") is None


def test_a_cooldown_can_be_cleared(chat: SessionDB) -> None:
    chat.record_compression_failure_cooldown("s1", time.time() + 1000, "no model")
    chat.clear_compression_failure_cooldown("s1")
    assert chat.get_compression_failure_cooldown("s1") is None
    session = chat.get_session("s1")
    assert session and session["compression_failure_error"] is None


@pytest.mark.parametrize(("given_streak", "kept"), [(0, 0), (2, 2), (-1, 0), ("3", 3)])
def test_the_fallback_streak_is_kept(chat: SessionDB, given_streak: Any, kept: int) -> None:
    chat.set_compression_fallback_streak("s1", given_streak)
    assert chat.get_compression_fallback_streak("s1") == kept


def test_an_unknown_session_has_nothing_to_remember(db: SessionDB) -> None:
    assert db.get_compression_fallback_streak("nobody") == 0
    assert db.get_compression_failure_cooldown("nobody") is None
    assert db.get_compression_lock_holder("nobody") is None
    assert db.refresh_compression_lock("nobody", "a") is False


def test_what_is_remembered_survives_a_restart(chat: SessionDB, db_path: Path) -> None:
    chat.try_acquire_compression_lock("s1", "a")
    chat.record_compression_failure_cooldown("s1", time.time() + 1000, "no model")
    chat.set_compression_fallback_streak("s1", 2)
    chat.close()
    with SessionDB(db_path) as again:
        assert again.get_compression_lock_holder("s1") == "a"
        assert again.get_compression_failure_cooldown("s1")
        assert again.get_compression_fallback_streak("s1") == 2
