"""Several processes, one store: nothing is lost, nobody is in the way, a race has one winner."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_state import Rotation, SessionDB

from .. import seeds
from . import old_store
from .children import Child, in_child, race
from .kill_model import check_whole, observe

PROCESSES = 8


@pytest.fixture
def chat(db_path: Path) -> Path:
    """A closed store with one session of three messages; opened by each process for itself."""
    with SessionDB(db_path) as db:
        db.create_session("s", "cli")
        db.set_session_title("s", "Plan")
        for text in ("one", "two", "three"):
            db.append_message("s", "user", text)
    return db_path


def compete(path: Path, *works: Callable[[SessionDB], Any]) -> list[Any]:
    """Run each work in a process that already has the store open, all at the same moment."""
    return race(works, prepare=lambda: SessionDB(path))


def test_eight_processes_append_and_nothing_is_lost(chat: Path) -> None:
    each = 60
    with SessionDB(chat) as db:
        for number in range(PROCESSES):
            db.create_session(f"own{number}", "cli")

    def append(number: int) -> Callable[[SessionDB], list[int]]:
        def work(db: SessionDB) -> list[int]:
            ids = []
            for n in range(each):
                calls = [{"id": "c"}] if n % 2 else None
                ids += [
                    db.append_message(f"own{number}", "user", f"{number}.{n}", tool_calls=calls),
                    db.append_message("s", "user", f"{number}.{n}"),
                ]
            return ids

        return work

    ids = [one for mine in compete(chat, *map(append, range(PROCESSES))) for one in mine]
    assert len(set(ids)) == PROCESSES * each * 2
    with SessionDB(chat) as db:
        assert db.message_count() == PROCESSES * each * 2 + 3
        said = [message["content"] for message in db.get_messages("s")]
        for number in range(PROCESSES):
            mine = [f"{number}.{n}" for n in range(each)]
            assert [m["content"] for m in db.get_messages(f"own{number}")] == mine
            assert [text for text in said if text.startswith(f"{number}.")] == mine
            own = db.get_session(f"own{number}")
            assert own and own["version"] == each + 1
            assert (own["message_count"], own["tool_call_count"]) == (each, each // 2)
        check_whole(db, observe(db))


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_rotating_at_once_makes_one_continuation(chat: Path, processes: int) -> None:
    with SessionDB(chat) as db:
        db.save_gateway_routing_entry("key", json.dumps({"session_id": "s"}))

    def rotate(number: int) -> Callable[[SessionDB], Rotation]:
        return lambda db: db.rotate_session(
            "s", f"c{number}", [{"role": "user", "content": f"by {number}"}]
        )

    results = compete(chat, *map(rotate, range(processes)))
    assert [result.created for result in results].count(True) == 1
    (winner,) = {result.session_id for result in results}
    with SessionDB(chat) as db:
        assert db.get_compression_lineage("s") == ["s", winner]
        assert [m["content"] for m in db.get_messages(winner)] == [f"by {winner[1:]}"]
        assert db.load_gateway_routing_entries() == {"key": json.dumps({"session_id": winner})}
        assert db.session_count() == 2
        assert {result.title for result in results} == {"Plan #2"}
        check_whole(db, observe(db))


def test_a_title_goes_to_one_of_those_who_want_it(chat: Path) -> None:
    with SessionDB(chat) as db:
        for number in range(PROCESSES):
            db.create_session(f"t{number}", "cli")

    def take(number: int) -> Callable[[SessionDB], str]:
        def work(db: SessionDB) -> str:
            try:
                return str(db.set_session_title(f"t{number}", "Wanted"))
            except ValueError as error:
                assert "already in use" in str(error)
                return "refused"

        return work

    results = compete(chat, *map(take, range(PROCESSES)))
    assert sorted(results) == ["True"] + ["refused"] * (PROCESSES - 1)


@pytest.mark.parametrize("what", ["hand-off", "compression lock", "upkeep"])
def test_what_one_may_have_one_gets(chat: Path, what: str) -> None:
    with SessionDB(chat) as db:
        db.request_handoff("s", "telegram")

    def take(number: int) -> Callable[[SessionDB], bool]:
        def work(db: SessionDB) -> bool:
            if what == "hand-off":
                return db.claim_handoff("s")
            if what == "compression lock":
                return db.try_acquire_compression_lock("s", f"holder {number}")
            return not db.maybe_auto_prune_and_vacuum()["skipped"]

        return work

    assert compete(chat, *map(take, range(PROCESSES))).count(True) == 1


@pytest.mark.fuzz
def test_opening_a_new_store_at_once_works_for_all(tmp_path: Path) -> None:
    for attempt in range(seeds.times(4, 24)):
        path = tmp_path / str(attempt) / "home" / "state.db"

        def begin(number: int, path: Path = path) -> Callable[[], int]:
            def work() -> int:
                with SessionDB(path) as db:
                    db.create_session(f"s{number}", "cli")
                    return db.append_message(f"s{number}", "user", "hello")

            return work

        ids = race([begin(number) for number in range(6)])
        assert sorted(ids) == [1, 2, 3, 4, 5, 6]
        with SessionDB(path) as db:
            assert db.session_count() == 6
            check_whole(db, observe(db))
        assert not (path.parent / "backups").exists()


def test_opening_and_closing_all_the_time_disturbs_nobody(chat: Path) -> None:
    each = 15

    def come_and_go() -> None:
        for _ in range(each):
            with SessionDB(chat) as db:
                db.append_message("s", "user", "hello")
                assert db.get_session("s")

    race([come_and_go] * 6)
    with SessionDB(chat) as db:
        assert db.message_count() == 6 * each + 3
        check_whole(db, observe(db))


@pytest.mark.sqlite
@pytest.mark.fuzz
def test_upgrading_an_old_store_at_once_works_for_all(tmp_path: Path) -> None:
    for attempt in range(seeds.times(2, 8)):
        path = tmp_path / str(attempt) / "state.db"
        old_store.build(path)
        before = old_store.contents(path)

        def upgrade(path: Path = path) -> tuple[str, int]:
            with SessionDB(path) as db:
                return db.get_compression_tip("c1"), db.session_count()

        results = race([upgrade] * 4)
        assert len(set(results)) == 1
        assert results[0] == ("c3", len(before["sessions"]))
        after = old_store.contents(path)
        added = {"store_id", "model_calls_since"}
        assert [row for row in after["state_meta"] if row[0] not in added] == before["state_meta"]
        assert after["messages"] == before["messages"]
        assert after["sessions"] == before["sessions"]
        backups = sorted((path.parent / "backups").iterdir())
        assert any(old_store.contents(backup) == before for backup in backups)
        assert {backup.suffix for backup in backups} == {".db"}


def test_whatever_is_said_while_others_rotate_is_kept_once(chat: Path) -> None:
    each = 25

    def talk(number: int) -> Callable[[SessionDB], None]:
        def work(db: SessionDB) -> None:
            for n in range(each):
                message = {"role": "user", "content": f"{number}.{n}"}
                db.begin_turn("s", message, source="cli", facts={})

        return work

    def rotate(db: SessionDB) -> None:
        for n in range(12):
            live = db.load_live("s")
            assert live is not None
            seen = live.messages[-1]["_row"]
            summary = [{"role": "user", "content": f"summary {n}"}]
            db.rotate_session(live.session_id, f"r{n}", summary, covers_until=seen)

    compete(chat, talk(0), rotate, talk(1), talk(2))
    with SessionDB(chat) as db:
        tip = db.get_compression_tip("s")
        assert tip == "r11"
        said = [m["content"] for m in db.get_messages_as_conversation(tip, include_ancestors=True)]
        for number in range(3):
            mine = [text for text in said if text.startswith(f"{number}.")]
            assert mine == [f"{number}.{n}" for n in range(each)]
        check_whole(db, observe(db))


class Conversation:
    """Two processes that take turns, a byte at a time."""

    def __init__(self) -> None:
        self.here, self.there = os.pipe(), os.pipe()

    def tell_child(self) -> None:
        os.write(self.here[1], b".")

    def tell_parent(self) -> None:
        os.write(self.there[1], b".")

    def hear_parent(self) -> None:
        assert os.read(self.here[0], 1)

    def hear_child(self) -> None:
        os.close(self.there[1])  # only the child can speak now, and its death is heard
        assert os.read(self.there[0], 1), "the child died"

    def close(self) -> None:
        for end in (*self.here, self.there[0]):
            os.close(end)


def test_a_process_that_reads_for_long_holds_nobody_up_and_sees_one_state(chat: Path) -> None:
    turn = Conversation()

    def read_for_long() -> tuple[int, int, int]:
        with SessionDB(chat) as db:

            def work(conn: Any) -> tuple[int, int]:
                rows = iter(conn.execute("SELECT id FROM messages"))
                next(rows)  # half way through a query
                turn.tell_parent()
                turn.hear_parent()
                count = conn.execute("SELECT COUNT(*) FROM messages").fetchone()[0]
                return 1 + len(list(rows)), count

            return (*db._database.read(work), db.message_count())

    child = Child(read_for_long)
    turn.hear_child()
    with SessionDB(chat, busy_timeout=0.5) as db:
        for n in range(50):
            db.append_message("s", "user", f"meanwhile {n}")
        db.rotate_session("s", "s2", [{"role": "user", "content": "summary"}])
        assert db.message_count() == 54
        turn.tell_child()
        assert child.result() == (3, 3, 54)
    turn.close()


def test_a_process_that_writes_for_long_does_not_hold_up_readers(chat: Path) -> None:
    turn = Conversation()

    def write_for_long() -> None:
        with SessionDB(chat) as db:

            def work(conn: Any) -> None:
                conn.execute("DELETE FROM messages")
                turn.tell_parent()
                turn.hear_parent()
                raise KeyboardInterrupt

            db._execute_write(work)

    child = Child(write_for_long)
    turn.hear_child()
    with SessionDB(chat, busy_timeout=0.5) as db:
        assert [m["content"] for m in db.get_messages("s")] == ["one", "two", "three"]
        assert db.session_count() == 1
        turn.tell_child()
        kind, value = child.outcome()
        assert (kind, value[0]) == ("raised", KeyboardInterrupt)
        assert db.message_count() == 3
    turn.close()


def test_a_reader_elsewhere_sees_each_write_at_once(chat: Path) -> None:
    turn = Conversation()

    def watch() -> list[int]:
        with SessionDB(chat) as db:
            seen = [db.message_count()]
            for _ in range(20):
                turn.tell_parent()
                turn.hear_parent()
                seen.append(db.message_count())
            return seen

    child = Child(watch)
    with SessionDB(chat) as db:
        turn.hear_child()
        for n in range(20):
            db.append_message("s", "user", str(n))
            turn.tell_child()
            if n < 19:
                assert os.read(turn.there[0], 1)
    assert child.result() == list(range(3, 24))
    turn.close()


def test_a_store_closed_by_one_process_stays_open_in_another(chat: Path) -> None:
    with SessionDB(chat) as db:
        for n in range(10):
            in_child(lambda n=n: SessionDB(chat).append_message("s", "user", f"child {n}"))
            db.append_message("s", "user", f"parent {n}")
        said = [m["content"] for m in db.get_messages("s")][3:]
    assert said == [f"{who} {n}" for n in range(10) for who in ("child", "parent")]
