"""Files that messages name, on several machines over one store: had by whom they were sent to."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hermes_state
from hermes_state import (
    CHUNK_BYTES,
    ObjectLostError,
    SessionDB,
    StoreUnavailableError,
)
from hermes_state.inbox import INBOX_ID
from tools import objects
from tools.base import ToolContext, ToolError, Workspace
from tools.files.read import read_file
from tools.objects.in_texts import localize, put_output, put_pastes
from tools.output import keep
from tools.own_folders import output_folder_of

from ..state.raw import tamper

pytestmark = pytest.mark.postgres

DAY = 86_400


class Machine(NamedTuple):
    """A home of its own, over the store of all."""

    db: SessionDB
    home: Path

    def context(self, session_id: str = "s") -> ToolContext:
        return ToolContext(session_id, "c", workspace=Workspace(self.home, self.home), db=self.db)

    def write(self, name: str, data: bytes = b"the plan\n") -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def put(self, name: str, data: bytes = b"the plan\n", session_id: str | None = None) -> Path:
        path = self.write(name, data)
        assert objects.put_file(self.db, self.home, path, session_id)
        return path

    def lose(self, path: Path) -> str:
        """A path of this machine as another has it in its messages: its disk is not there."""
        path.rename(path.with_name(f"{path.name}.of-a-lost-disk"))
        return str(path)

    def find(self, path: Path | str, session_id: str | None = None) -> Path | None:
        return objects.find_file(self.db, self.home, str(path), session_id)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    made = []
    for name in ("one", "two"):
        home = tmp_path / name
        home.mkdir()
        made.append(Machine(SessionDB(tmp_path / "state.db"), home))
    yield made
    for machine in made:
        machine.db.close()


def rows(db: SessionDB, query: str) -> list[Any]:
    return db._database.read(lambda conn: conn.execute(query).fetchall())


def ask(db: SessionDB, path: Path, session_id: str = "s", **more: Any) -> None:
    """A message with a file comes in, and its turn begins."""
    db.accept_message(
        f"m-{session_id}", session_id, "read it", session_key="k", facts={"media": [str(path)]}
    )
    content = f"read it\n[Attached file: {path}]"
    message = {"role": "user", "content": content, INBOX_ID: f"m-{session_id}"}
    db.begin_turn(session_id, message, source="telegram", facts=more, leased=True)


def test_a_file_that_came_in_on_one_machine_is_read_on_another(machines: list[Machine]) -> None:
    one, two = machines
    path = one.put("media/telegram/42/7-plan.txt", b"dig here\n")
    ask(one.db, path)
    one.lose(path)
    shown = str(read_file.run(two.context(), **localize(two.context(), {"path": str(path)})))
    assert "dig here" in shown
    here = two.home / "media/telegram/42/7-plan.txt"
    assert here.read_bytes() == b"dig here\n"
    assert here.stat().st_mode & 0o077 == 0


def test_who_was_not_sent_a_file_does_not_have_it(machines: list[Machine]) -> None:
    """Also not by naming it: in a message, in a tool call, or by its name on this machine."""
    one, two = machines
    path = one.put("media/telegram/42/7-plan.txt")
    ask(one.db, path)
    one.lose(path)
    named = f"What is in {path}? [Attached file: {path}]"
    two.db.accept_message("x", "other", named, session_key="k2")
    message = {"role": "user", "content": named, INBOX_ID: "x"}
    two.db.begin_turn("other", message, source="telegram", facts={}, leased=True)
    for written in (str(path), str(two.home / "media/telegram/42/7-plan.txt")):
        assert localize(two.context("other"), {"path": written}) == {"path": written}
        assert two.find(written, "other") is None
    assert not (two.home / "media").exists()


def test_sub_agents_and_branches_have_the_files_of_their_conversation(
    machines: list[Machine],
) -> None:
    one, two = machines
    path = one.put("media/telegram/42/7-plan.txt")
    ask(one.db, path)
    one.lose(path)
    two.db.create_session(
        "child", "cli", parent_session_id="s", model_config={"_delegate_from": "s"}
    )
    two.db.branch_session("s", "branch")
    assert (
        two.find(path, "child") == two.find(path, "branch") == two.home / path.relative_to(one.home)
    )


def test_output_of_a_tool_is_read_on_another_machine(machines: list[Machine]) -> None:
    one, two = machines
    one.db.create_session("s", "cli")
    path = keep("line\n" * 9, output_folder_of(one.home, "s"), "terminal")
    text = f"head\n[… read_file {path} shows all …]\ntail"
    assert put_output(one.db, one.home, text, "s") == text
    one.lose(path)
    given = localize(two.context(), {"path": str(path)})
    assert given == {"path": str(two.home / path.relative_to(one.home))}
    assert "line" in str(read_file.run(two.context(), **given))
    two.db.create_session("other", "cli")
    assert localize(two.context("other"), {"path": str(path)}) == {"path": str(path)}
    with pytest.raises(ToolError, match="does not exist"):
        read_file.run(two.context("other"), **given)


def test_output_that_grows_is_put_and_fetched_again(machines: list[Machine]) -> None:
    one, two = machines
    one.db.create_session("s", "cli")
    path = keep("one\n", output_folder_of(one.home, "s"), "process")
    put_output(one.db, one.home, f"in {path}.", "s")
    there = two.find(f"/elsewhere/{path.relative_to(one.home)}", "s")
    assert there is not None
    assert there.read_text() == "one\n"
    with path.open("a") as file:
        file.write("two\n")
    put_output(one.db, one.home, f"in {path}", "s")
    assert two.find(there, "s") == there
    assert there.read_text() == "one\ntwo\n"
    assert len(rows(one.db, "SELECT 1 FROM object_blobs WHERE state = 'kept'")) == 1


def test_output_that_has_not_begun_or_is_too_large_stays_here(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    one.db.create_session("s", "cli")
    monkeypatch.setattr(hermes_state, "OBJECT_BYTES", 3)
    empty = keep("", output_folder_of(one.home, "s"), "process")
    assert put_output(one.db, one.home, f"in {empty}", "s") == f"in {empty}"
    long = keep("long", output_folder_of(one.home, "s"), "process")
    assert put_output(one.db, one.home, f"in {long}", "s") == (
        f"in {long}\n[{long} can be read on this machine only]"
    )
    assert list(objects.walk_objects(one.db)) == []


def test_nothing_of_another_conversations_output_is_put(machines: list[Machine]) -> None:
    one, _ = machines
    for session in ("s", "other"):
        one.db.create_session(session, "cli")
    path = keep("theirs", output_folder_of(one.home, "other"), "terminal")
    put_output(one.db, one.home, f"cat {path}", "s")
    assert rows(one.db, "SELECT * FROM objects") == []


def test_paths_in_commands_and_programs_are_those_of_this_machine(machines: list[Machine]) -> None:
    one, two = machines
    path = one.put("uploads/1a2b-report (1).txt".replace(" ", "_"), session_id="s")
    here = two.home / "uploads" / path.name
    assert localize(one.context(), {"command": f"cat {path}"}) == {"command": f"cat {path}"}
    one.lose(path)
    for template in (
        "cat {}", "wc -l <{}|tail", "cat '{}' > out", "open('{}').read()", "x={};cat $x", "{}",
        "see ({}).", "cp {} {}",
    ):  # fmt: skip
        text = template.format(path, path)
        assert localize(two.context(), {"command": text, "n": 1, "also": [text]}) == {
            "command": template.format(here, here),
            "n": 1,
            "also": [template.format(here, here)],
        }
    for other in ("cat media/logo.png", "/srv/media/a/b/c.png", "uploads/x", "/uploads/", "/media"):
        assert localize(two.context(), {"command": other}) == {"command": other}


def test_a_hostile_name_leads_nowhere_else(machines: list[Machine], tmp_path: Path) -> None:
    one, two = machines
    one.put("uploads/a.txt", session_id="s")
    (two.home / "uploads").mkdir()
    (tmp_path / "target").write_text("mine")
    (two.home / "uploads" / "a.txt").symlink_to(tmp_path / "target")
    assert two.find("/x/uploads/a.txt", "s") is None
    assert two.find("/x/uploads/../uploads/a.txt", "s") is None
    assert two.find("/x/tool-output/../a.txt", "s") is None
    assert (tmp_path / "target").read_text() == "mine"


def test_a_paste_is_put_before_its_prompt(machines: list[Machine]) -> None:
    one, two = machines
    path = one.write("pastes/1a2b3c4d-paste.txt", b"long")
    put_pastes(one.db, one.home, f"[Pasted text: 9 lines in {path}]", "s")
    there = two.find(one.lose(path), "s")
    assert there is not None
    assert there.read_bytes() == b"long"


def test_the_same_content_is_kept_once_and_for_as_long_as_one_needs_it(
    machines: list[Machine],
) -> None:
    one, _ = machines
    one.db.create_session("s", "cli")
    one.put("uploads/a.txt", b"same", session_id="s")
    one.put("uploads/b.txt", b"same")
    assert len(rows(one.db, "SELECT * FROM object_chunks")) == 1
    make_old(one.db, 30)
    assert objects.sweep(one.db) == 1
    assert [known.name for known in objects.walk_objects(one.db)] == ["uploads/a.txt"]
    assert len(rows(one.db, "SELECT * FROM object_chunks")) == 1
    one.db.delete_session("s")
    assert objects.sweep(one.db) == 1
    assert rows(one.db, "SELECT * FROM object_chunks") == []
    assert rows(one.db, "SELECT * FROM object_blobs") == []
    assert rows(one.db, "SELECT * FROM object_links") == []


def make_old(db: SessionDB, days: float) -> None:
    tamper(db, f"UPDATE objects SET put_at = put_at - {days * DAY}")
    tamper(db, f"UPDATE object_blobs SET changed_at = changed_at - {days * DAY}")


def test_what_is_still_to_be_taken_is_not_deleted(machines: list[Machine]) -> None:
    """A message with a file waits for long; then its conversation has it."""
    one, two = machines
    path = one.put("media/telegram/42/7-plan.txt")
    assert objects.sweep(two.db) == 0, "it came a moment ago"
    one.db.accept_message("m", "s", "", session_key="k", facts={"media": [str(path)]})
    make_old(one.db, 30)
    assert objects.sweep(two.db) == 0
    message = {"role": "user", "content": f"[Attached file: {path}]", INBOX_ID: "m"}
    two.db.begin_turn("s", message, source="telegram", facts={}, leased=True)
    assert objects.sweep(two.db) == 0
    there = two.find(one.lose(path), "s")
    assert there == two.home / path.relative_to(one.home)
    two.db.delete_conversation("s")
    assert objects.sweep(one.db) == 1
    assert rows(one.db, "SELECT * FROM object_chunks") == []


def test_what_was_given_to_a_conversation_that_never_began_goes_after_a_week(
    machines: list[Machine],
) -> None:
    one, _ = machines
    one.put("uploads/a.txt", session_id="never")
    make_old(one.db, 6)
    assert objects.sweep(one.db) == 0
    make_old(one.db, 2)
    assert objects.sweep(one.db) == 1


def test_output_goes_after_a_week_or_with_its_conversation(machines: list[Machine]) -> None:
    one, _ = machines
    for session in ("s", "t"):
        one.db.create_session(session, "cli")
        one.put(f"tool-output/{session}/x.txt", session.encode(), session)
    one.db.delete_session("s")
    assert [known.name for known in objects.walk_objects(one.db)] == ["tool-output/t/x.txt"]
    make_old(one.db, 8)
    assert objects.sweep(one.db) == 1
    assert rows(one.db, "SELECT * FROM object_chunks") == []


def test_what_a_process_left_half_way_is_deleted(machines: list[Machine]) -> None:
    one, _ = machines
    one.db.begin_blob("b", "d" * 64, 9)
    one.db.add_chunk("b", 0, b"half")
    assert objects.sweep(one.db) == 0
    assert rows(one.db, "SELECT * FROM object_chunks") != []
    make_old(one.db, 2)
    objects.sweep(one.db)
    assert rows(one.db, "SELECT * FROM object_chunks") == []
    assert not one.db.put_object("uploads/a", "b"), "it is gone"


def test_a_large_file_takes_little_memory(machines: list[Machine]) -> None:
    one, two = machines
    path = one.home / "media" / "telegram" / "42" / "film.bin"
    path.parent.mkdir(parents=True)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(50):
            piece = os.urandom(1 << 20)
            digest.update(piece)
            file.write(piece)
    tracemalloc.start()
    try:
        objects.put_file(one.db, one.home, path)
        there = two.find(one.lose(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert there is not None
    with there.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == digest.digest()
    assert peak < 12 * CHUNK_BYTES
    assert len(rows(one.db, "SELECT number FROM object_chunks")) == 50


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("UPDATE object_chunks SET content = 'xxxx' WHERE number = 1", "bytes are missing"),
        ("DELETE FROM object_chunks WHERE number = 1", "bytes are missing"),
        ("UPDATE object_blobs SET digest = 'f'", "digest is wrong"),
    ],
)
def test_damage_is_told_and_nothing_is_left_here(
    machines: list[Machine], harm: str, told: str
) -> None:
    one, two = machines
    path = one.put("uploads/a.txt", b"x" * (CHUNK_BYTES + 5), "s")
    tamper(one.db, harm)
    one.lose(path)
    with pytest.raises(ObjectLostError, match=told):
        two.find(path, "s")
    with pytest.raises(ToolError, match=told):
        localize(two.context(), {"path": str(path)})
    assert list((two.home / "uploads").iterdir()) == []


def test_without_the_server_nothing_is_put_and_it_is_said(machines: list[Machine]) -> None:
    one, two = machines
    one.db.create_session("s", "cli")
    path = one.put("uploads/a.txt", session_id="s")
    output = keep("long", output_folder_of(one.home, "s"), "terminal")
    for machine in machines:
        machine.db.close()
    with pytest.raises(StoreUnavailableError):
        one.put("uploads/b.txt")
    one.lose(path)
    with pytest.raises(ToolError, match="could not be fetched from the store"):
        localize(two.context(), {"path": str(path)})
    text = put_output(one.db, one.home, f"in {output}", "s")
    assert text.startswith(f"in {output}\n[Long output can be read on this machine only: ")


def test_a_file_that_keeps_changing_is_refused(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    path = one.write("uploads/a.txt", b"1")
    add_chunk = one.db.add_chunk

    def changing(blob: str, number: int, content: bytes) -> None:
        add_chunk(blob, number, content)
        path.write_bytes(os.urandom(1))

    monkeypatch.setattr(one.db, "add_chunk", changing)
    monkeypatch.setattr(objects, "_digest_of", lambda file, size: "0" * 64)
    with pytest.raises(StoreUnavailableError, match="keeps changing"):
        objects.put_file(one.db, one.home, path)
    assert list(objects.walk_objects(one.db)) == []
