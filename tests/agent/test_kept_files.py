"""Files that came with messages: deleted when they are old and nothing names them, never before."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.file_parts import file_parts
from agent.kept_files import FOLDERS, limit_media, prune_kept_files
from gateway.media import safe_name
from hermes_state import SessionDB

from ..state.memory import MEMORY


@pytest.fixture
def db(tmp_path: Path) -> SessionDB:
    return SessionDB(tmp_path / "state.db")


def keep(home: Path, name: str, days: float = 100) -> Path:
    """A file of the home that was not touched for so long."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_what_is_named_stays(tmp_path: Path, db: SessionDB) -> None:
    in_text = keep(tmp_path, "media/telegram/42/7-plan.pdf")
    in_parts = keep(tmp_path, "media/telegram/42/8-größe.csv")
    in_call = keep(tmp_path, "uploads/notes.txt")
    waiting = keep(tmp_path, "media/matrix/r/9-late.pdf")
    young = keep(tmp_path, "images/young.png", days=1)
    unnamed = [keep(tmp_path, f"{folder}/a/unnamed.bin") for folder in FOLDERS]
    other = keep(tmp_path, "memories/MEMORY.md")
    db.create_session("s", "telegram")
    db.append_message("s", "user", f"[Attached file: {in_text}]. What is it?")
    db.append_message("s", "user", file_parts("and this", [str(in_parts)]))
    arguments = '{"path": "' + str(in_call) + '"}'
    tool_call = {"id": "1", "function": {"name": "read_file", "arguments": arguments}}
    db.append_message("s", "assistant", "", tool_calls=[tool_call])
    db.accept_message("i", "t", "soon", facts={"media": [str(waiting)]})
    assert prune_kept_files(db, tmp_path, 90) == len(FOLDERS)
    assert not any(path.exists() for path in unnamed)
    for path in (in_text, in_parts, in_call, waiting, young, other):
        assert path.exists(), path
    assert not (tmp_path / "images" / "a").exists(), "folders go when they are empty"
    db.delete_session("s")
    assert prune_kept_files(db, tmp_path, 90) == 3
    assert not in_text.exists() and waiting.exists()


def test_a_link_is_not_followed(tmp_path: Path, db: SessionDB) -> None:
    mine = keep(tmp_path, "mine.txt")
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "link").symlink_to(mine)
    assert prune_kept_files(db, tmp_path, 90) == 0
    assert mine.exists()


def test_nothing_to_do_in_a_new_home(tmp_path: Path, db: SessionDB) -> None:
    assert prune_kept_files(db, tmp_path, 0) == 0


@given(st.text(min_size=1, max_size=20), st.sampled_from(["[{}]", "see {}.", "{}", '"{}"']))
@example("-", "see {}.")
@example("a.-.", "see {}...")
def test_any_name_is_found_again(name: str, frame: str) -> None:
    path = f"media/telegram/42/{safe_name(name)}"
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        SessionDB(Path(folder) / "state.db") as db,
    ):
        db.create_session("s", "telegram")
        db.append_message("s", "user", frame.format(f"/home/x/.hermes/{path}"))
        db.create_session("t", "telegram")
        db.append_message("t", "user", [{"type": "text", "text": frame.format(f"/x/{path}")}])
        assert db.list_named_files([path, "media/other"]) == {path}
        db.delete_session("s")
        assert db.list_named_files([path]) == {path}


def test_files_from_chats_are_limited_by_age_and_for_each_person(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        for owner in ("person:ann", "person:bob"):
            db.create_session(owner, "telegram", user_id=owner)
        paths = {}
        for number, (name, owner) in enumerate(
            [("old", "ann"), ("first", "ann"), ("second", "ann"), ("his", "bob"), ("loose", None)]
        ):
            folder = tmp_path / "media" / "telegram" / (owner or "nobody")
            folder.mkdir(parents=True, exist_ok=True)
            paths[name] = folder / f"{name}.txt"
            paths[name].write_bytes(b"x" * 100)
            days = 400 if name == "old" else 30 - number
            changed = time.time() - days * 86_400
            os.utime(paths[name], (changed, changed))
            if owner:
                db.append_message(f"person:{owner}", "user", f"[Attached file: {paths[name]}]")
        sent = tmp_path / "media" / "sent" / "mine.txt"
        sent.parent.mkdir()
        sent.write_bytes(b"x" * 1000)

        def left() -> set[str]:
            return {name for name, path in paths.items() if path.exists()}

        assert limit_media(db, tmp_path, 0, 0) == 0
        assert limit_media(db, tmp_path, 365, 10_000) == 1
        assert left() == {"first", "second", "his", "loose"}
        assert limit_media(db, tmp_path, 365, 150) == 1
        assert left() == {"second", "his", "loose"}, "hers beyond the limit, the oldest; not his"
        assert limit_media(db, tmp_path, 1, 0) == 3
        assert sent.exists() and not (tmp_path / "media" / "telegram").exists()
