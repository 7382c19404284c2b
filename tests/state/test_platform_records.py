"""What adapters keep by name: all or nothing, under the lease of their platform."""

from __future__ import annotations

import pytest

from hermes_state import LeaseLostError, SessionDB


def test_records_are_written_read_and_deleted(db: SessionDB) -> None:
    db.keep_platform_records("matrix", {"a 1": "one", "a 2": "two", "b": "'; é\U0001f600"})
    assert db.get_platform_records("matrix") == {"a 1": "one", "a 2": "two", "b": "'; é\U0001f600"}
    assert db.get_platform_records("matrix", "a ") == {"a 1": "one", "a 2": "two"}
    assert db.get_platform_records("other") == {}
    db.keep_platform_records("matrix", {"a 1": "new", "a 2": None, "missing": None})
    assert db.get_platform_records("matrix", "a ") == {"a 1": "new"}
    assert db.add_platform_records("matrix", {"a 1": "not this", "c": "added"}) == 1
    assert db.get_platform_records("matrix")["a 1"] == "new"


def test_whoever_lost_the_platform_writes_nothing(db: SessionDB) -> None:
    lease = db.take_platform("matrix:@a:x")
    assert lease is not None
    db.keep_platform_records("matrix", {"key": "1"}, lease)
    later = db.take_platform("matrix:@a:x")
    assert later is not None and later.fence > lease.fence
    with pytest.raises(LeaseLostError):
        db.keep_platform_records("matrix", {"key": "2", "other": "3"}, lease)
    assert db.get_platform_records("matrix") == {"key": "1"}
    db.keep_platform_records("matrix", {"key": "4"}, later)
    assert db.get_platform_records("matrix") == {"key": "4"}
