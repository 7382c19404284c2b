"""Reads outside of a transaction: one statement each, of what is committed at that moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_state import LOCAL_DOOR, ModelCall, SessionDB
from hermes_state.db import ONE_STATEMENT

CALLS: dict[str, list[tuple[Any, ...]]] = {
    "find_person": [("telegram:42",), ("telegram:7",), (LOCAL_DOOR,)],
    "get_binding_version": [()],
    "get_compression_tip": [("s",), ("unknown",)],
    "get_kept_head": [()],
    "get_meta": [("kept",), ("unknown",)],
    "get_person": [("telegram:42",), ("operator",)],
    "get_session": [("s",), ("unknown",)],
    "get_turn": [("s",), ("unknown",)],
    "get_wall_settings": [("s",), ("t",), ("unknown",)],
    "list_delegations": [("s",), ("s", "running"), ("unknown",)],
    "find_device": [("unknown",)],
    "get_device": [("unknown",)],
    "list_devices": [("unknown",)],
    "get_job": [("unknown",)],
    "list_jobs": [("unknown",)],
    "list_due_jobs": [(0.0,)],
    "list_job_runs": [("unknown",)],
    "list_memory_spaces": [("telegram:42",), ("operator",)],
    "list_open_runs": [()],
    "list_running": [()],
    "next_job_at": [()],
}


class Counting:
    """A connection that counts what it is told."""

    def __init__(self, connection: Any, told: list[str]) -> None:
        self._connection, self._told = connection, told

    def execute(self, statement: str, *values: Any) -> Any:
        self._told.append(statement)
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_every_one_of_them_is_tried_here() -> None:
    assert set(CALLS) == ONE_STATEMENT


@pytest.mark.parametrize("name", sorted(CALLS))
def test_it_is_one_statement(db: SessionDB, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    db.ensure_person("telegram:42", "Ada")
    db.create_session("s", "cli")
    db.append_message("s", "user", "hello")
    db.end_session("s", "compression")
    db.create_session("t", "cli", parent_session_id="s")
    db.set_meta("kept", "so")
    told: list[str] = []
    read = db._database.read

    def counted(work: Callable[[Any], Any], *, one_statement: bool = False) -> Any:
        assert one_statement
        return read(lambda conn: work(Counting(conn, told)), one_statement=True)

    monkeypatch.setattr(db._database, "read", counted)
    for arguments in CALLS[name]:
        told.clear()
        getattr(db, name)(*arguments)
        assert len(told) == 1


def test_what_another_process_commits_is_seen_by_the_next_read(
    db: SessionDB, db_path: Path
) -> None:
    with SessionDB(db_path) as other:
        ada = db.ensure_person("telegram:42", "Ada")
        same = db.ensure_person("matrix:ada", "Ada, at home")
        assert db.find_person("matrix:ada") == same
        merge = other.merge_persons(same.id, ada.id)
        assert db.find_person("matrix:ada") == ada
        other.unmerge_persons(merge.id)
        assert db.find_person("matrix:ada") == same
        other.remove_person(same.id)
        assert db.find_person("matrix:ada") is None
        db.create_session("s", "cli")
        before = db.list_binding_changes()
        assert before is not None and db.list_binding_changes(before.version) is None
        other.create_bindings({"key": {"session_id": "s"}})
        changes = db.list_binding_changes(before.version)
        assert changes is not None and set(changes.changed) == {"key"}
        other.set_wall_mode("s", "plan")
        assert db.get_wall_settings("s")["mode"] == "plan"


def test_the_connection_holds_no_old_state_afterwards(db: SessionDB) -> None:
    db.create_session("s", "cli")
    for number in range(3):  # the same connections are used again
        db.set_meta("kept", str(number))
        assert db.get_meta("kept") == str(number)
        with pytest.raises(TypeError):
            db.get_session()  # type: ignore[call-arg]
        session = db.get_session("s")
        assert session is not None and session["ended_at"] is None


@pytest.mark.sqlite
def test_no_statement_is_prepared_anew_for_another_value(db: SessionDB) -> None:
    """SQLite does so where a value might lead to another plan, a few times in each turn."""
    prepared: list[tuple[Any, ...]] = []

    def note(*about: Any) -> int:  # SQLite asks whether it may, while it prepares
        prepared.append(about)
        return int(apsw.SQLITE_OK)

    def use(name: str) -> None:
        facts = {"user_id": f"telegram:{name}", "session_key": f"k:{name}"}
        message = {"role": "user", "content": name}
        lease = db.begin_turn(name, message, source="telegram", facts=facts, leased=True).lease
        answer = {"role": "assistant", "content": "yes"}
        call = ModelCall(task="turn", model="m")
        db.record_step(name, [answer], usage={"model": "m"}, lease=lease, ends=True, call=call)

    db._database.write(lambda conn: setattr(conn, "authorizer", note))
    for name in ("first", "second"):  # what is prepared once
        use(name)
    assert prepared
    prepared.clear()
    for name in ("third", "fourth", "fifth"):
        use(name)
    db._database.write(lambda conn: setattr(conn, "authorizer", None))
    assert {what[0] for what in prepared} <= {apsw.SQLITE_SAVEPOINT, apsw.SQLITE_TRANSACTION}
