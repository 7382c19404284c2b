"""What a person decided about a conversation's wall is a fact of the store."""

from __future__ import annotations

import pytest

from hermes_state import SessionDB


def test_a_conversation_has_a_mode_and_folders_for_life(db: SessionDB) -> None:
    db.create_session("first", "cli")
    assert db.get_wall_settings("first") == {"mode": "", "folders": []}
    db.set_wall_mode("first", "plan")
    db.set_wall_folders("first", ["/srv", "/srv", "/data"])
    db.append_message("first", "user", "hello")
    tip = db.rotate_session("first", "second", [{"role": "user", "content": "hello"}]).session_id
    assert tip != "first"
    assert db.get_wall_settings(tip) == {"mode": "plan", "folders": ["/srv", "/data"]}
    db.set_wall_mode(tip, "")
    assert db.get_wall_settings("first")["mode"] == ""


def test_before_its_first_message_a_session_can_be_told(db: SessionDB) -> None:
    db.set_wall_mode("new", "full")
    db.create_session("new", "cli")
    assert db.get_wall_settings("new")["mode"] == "full"


def test_what_is_no_mode_is_refused(db: SessionDB) -> None:
    with pytest.raises(ValueError, match="plan, guarded, full"):
        db.set_wall_mode("s", "free")


def test_a_deleted_conversation_leaves_nothing(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.set_wall_mode("s", "plan")
    db.delete_session("s")
    assert db.get_meta("wall:s") is None


def test_a_branch_is_as_confined_as_what_it_branches_from(db: SessionDB) -> None:
    db.create_session("first", "cli", user_id="ada")
    db.append_message("first", "user", "hello")
    db.set_wall_mode("first", "plan")
    db.set_wall_folders("first", ["/srv"])
    db.branch_session("first", "own")
    assert db.get_wall_settings("own") == {"mode": "plan", "folders": ["/srv"]}
    db.branch_session("first", "theirs", new_owner={"user_id": "bob"})
    assert db.get_wall_settings("theirs") == {"mode": "plan", "folders": []}
    db.set_wall_mode("first", "full")
    db.branch_session("first", "later", new_owner={"user_id": "bob"})
    assert db.get_wall_settings("later") == {"mode": "", "folders": []}
    assert db.get_wall_settings("own")["mode"] == "plan", "each has its own from then on"
