"""Rotation, tips and branches: a conversation is one chain, whoever rotates it and when."""

import threading

import pytest

from hermes_state import SessionDB, SessionEndedError, UnknownSessionError


def talk(db: SessionDB, session_id: str, *texts: str) -> list[int]:
    """Alternate user and assistant messages."""
    roles = ("user", "assistant")
    return [
        db.append_message(session_id, roles[index % 2], text) for index, text in enumerate(texts)
    ]


def said(db: SessionDB, session_id: str, **kwargs: bool) -> list[str]:
    return [m["content"] for m in db.get_messages_as_conversation(session_id, **kwargs)]


@pytest.fixture
def chat(db: SessionDB) -> SessionDB:
    db.create_session(
        "s1", "telegram", user_id="ada", chat_id="c1", session_key="k", model="m", cwd="/w"
    )
    talk(db, "s1", "one", "two", "three", "four")
    return db


def rotate(db: SessionDB, parent: str = "s1", child: str = "s2", keep: int = 2) -> str:
    history = db.get_messages_as_conversation(parent)
    summary = [{"role": "user", "content": f"summary of {parent}"}]
    return db.rotate_session(parent, child, summary + history[-keep:]).session_id


def test_rotation_moves_the_conversation_to_its_continuation(chat: SessionDB) -> None:
    chat.set_session_title("s1", "Plan")
    chat.set_meta("goal:s1", "ship it")
    chat.save_gateway_routing_entry("k", '{"session_id": "s1", "x": 1}', scope="a")
    chat.save_gateway_routing_entry("other", '{"session_id": "s9"}', scope="a")

    assert rotate(chat) == "s2"

    parent, child = chat.get_session("s1"), chat.get_session("s2")
    assert parent and child
    assert (parent["end_reason"], child["end_reason"]) == ("compression", None)
    assert child["parent_session_id"] == child["continuation_of"] == "s1"
    assert child["conversation_id"] == parent["conversation_id"] == "s1"
    for fact in ("source", "user_id", "chat_id", "session_key", "model", "cwd"):
        assert child[fact] == parent[fact]
    assert (parent["title"], child["title"]) == ("Plan", "Plan #2")
    assert (chat.get_meta("goal:s1"), chat.get_meta("goal:s2")) == (None, "ship it")
    assert chat.load_gateway_routing_entries(scope="a") == {
        "k": '{"session_id": "s2", "x": 1}',
        "other": '{"session_id": "s9"}',
    }
    assert said(chat, "s2") == ["summary of s1", "three", "four"]
    assert said(chat, "s1") == ["one", "two", "three", "four"]
    assert (parent["message_count"], child["message_count"]) == (4, 3)


def test_everything_said_is_shown_once(chat: SessionDB) -> None:
    rotate(chat)
    talk(chat, "s2", "five", "six")
    rotate(chat, "s2", "s3", keep=1)
    talk(chat, "s3", "seven")
    assert said(chat, "s3", include_ancestors=True) == [
        "one", "two", "three", "four", "summary of s1", "five", "six", "summary of s2", "seven",
    ]  # fmt: skip
    assert [m["content"] for m in chat.get_ancestor_display_prefix("s3")][-1] == "six"


def test_a_second_rotation_gets_the_first_result(chat: SessionDB) -> None:
    first = chat.rotate_session("s1", "s2", [{"role": "user", "content": "a"}])
    second = chat.rotate_session("s1", "s3", [{"role": "user", "content": "b"}])
    assert (first.created, second.created) == (True, False)
    assert second.session_id == "s2"
    assert chat.get_session("s3") is None
    assert said(chat, "s2") == ["a"]


def test_threads_that_race_to_rotate_agree(chat: SessionDB) -> None:
    results: list[str] = []
    barrier = threading.Barrier(8)

    def race(number: int) -> None:
        barrier.wait()
        message = [{"role": "user", "content": f"by {number}"}]
        results.append(chat.rotate_session("s1", f"c{number}", message).session_id)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
    assert chat.get_compression_lineage("s1") == ["s1", results[0]]
    assert chat.session_count() == 2


def test_messages_that_the_compressor_did_not_see_are_carried_over(chat: SessionDB) -> None:
    seen = chat.get_messages("s1")[-1]["id"]
    chat.append_message("s1", "user", "meanwhile")
    unsaved = [{"role": "assistant", "content": "unsaved"}]
    chat.rotate_session(
        "s1", "s2", [{"role": "user", "content": "sum"}], unsaved=unsaved, covers_until=seen
    )
    assert said(chat, "s2") == ["sum", "meanwhile"]
    assert said(chat, "s1")[-2:] == ["meanwhile", "unsaved"]
    assert said(chat, "s2", include_ancestors=True).count("meanwhile") == 1


def test_a_session_that_was_reset_meanwhile_is_not_brought_back(chat: SessionDB) -> None:
    chat.end_session("s1", "session_reset")
    with pytest.raises(SessionEndedError):
        rotate(chat)
    assert chat.session_count() == 1


def test_rotating_an_unknown_session_says_so(db: SessionDB) -> None:
    with pytest.raises(UnknownSessionError):
        db.rotate_session("nobody", "s2", [])


def test_a_rotation_that_fails_leaves_nothing(chat: SessionDB) -> None:
    chat.create_session("taken", "cli")
    before = (chat.get_session("s1"), chat.session_count(), chat.message_count())
    with pytest.raises(ValueError):
        chat.rotate_session("s1", "s2", [{"content": "no role"}])
    assert (chat.get_session("s1"), chat.session_count(), chat.message_count()) == before


def test_the_tip_is_reached_from_every_session(chat: SessionDB) -> None:
    rotate(chat)
    rotate(chat, "s2", "s3")
    assert [chat.get_compression_tip(one) for one in ("s1", "s2", "s3")] == ["s3"] * 3
    assert chat.get_compression_tip("nobody") == "nobody"
    assert chat.get_compression_lineage("s2") == ["s1", "s2", "s3"]
    assert chat.get_compression_lineage("nobody") == []
    assert {chat.get_conversation_root(one) for one in ("s1", "s2", "s3")} == {"s1"}
    assert chat.resolve_resume_session_id("s1") == "s3"


def test_resuming_passes_over_an_empty_continuation(chat: SessionDB) -> None:
    chat.end_session("s1", "compression")
    chat.create_session("s2", "telegram", parent_session_id="s1")
    assert chat.get_compression_tip("s1") == "s2"
    assert chat.resolve_resume_session_id("s1") == "s1"


def test_a_child_made_before_the_parent_ended_becomes_the_continuation(chat: SessionDB) -> None:
    chat.create_session("s2", "telegram", parent_session_id="s1")
    assert chat.get_compression_tip("s1") == "s1"
    chat.end_session("s1", "compression")
    assert chat.get_compression_tip("s1") == "s2"
    child = chat.get_session("s2")
    assert child and child["conversation_id"] == "s1"


def test_a_compressed_session_cannot_be_forked(chat: SessionDB) -> None:
    rotate(chat)
    chat.create_session("stray", "telegram", parent_session_id="s1")
    chat.reopen_session("s1")
    parent, stray = chat.get_session("s1"), chat.get_session("stray")
    assert parent and stray
    assert parent["end_reason"] == "compression"
    assert (stray["continuation_of"], stray["conversation_id"]) == (None, "stray")
    assert chat.get_compression_tip("s1") == "s2"


@pytest.mark.parametrize("mark", ["_branched_from", "_delegate_from"])
def test_branches_and_delegates_are_no_continuations(chat: SessionDB, mark: str) -> None:
    chat.create_session("b", "telegram", parent_session_id="s1", model_config={mark: "s1"})
    chat.end_session("s1", "compression")
    assert chat.get_compression_tip("s1") == "s1"
    chat.create_session("c", "telegram", parent_session_id="s1", model_config={mark: "s1"})
    assert chat.get_compression_tip("s1") == "s1"


def test_a_delegate_belongs_to_the_conversation_that_started_it(chat: SessionDB) -> None:
    rotate(chat)
    chat.create_session("d", "tool", parent_session_id="s2", model_config={"_delegate_from": "s2"})
    assert chat.get_conversation_root("d") == "s1"


def test_branching_copies_up_to_a_message(chat: SessionDB) -> None:
    ids = [m["id"] for m in chat.get_messages("s1")]
    chat.set_session_title("s1", "Plan")
    assert chat.branch_session("s1", "b1", until_message_id=ids[1]) == "b1"
    branch, parent = chat.get_session("b1"), chat.get_session("s1")
    assert branch and parent
    assert said(chat, "b1", include_ancestors=True) == said(chat, "b1") == ["one", "two"]
    assert (branch["title"], branch["message_count"]) == ("Plan #2", 2)
    assert (branch["conversation_id"], branch["user_id"]) == ("b1", "ada")
    assert parent["ended_at"] is None
    chat.append_message("b1", "user", "elsewhere")
    assert "elsewhere" not in said(chat, "s1")


def test_branching_twice_at_one_point_gives_the_same(chat: SessionDB) -> None:
    until = chat.get_messages("s1")[2]["id"]
    chat.branch_session("s1", "b1", until_message_id=until)
    talk(chat, "s1", "more")
    chat.branch_session("s1", "b2", until_message_id=until)
    assert chat.get_messages_as_conversation("b1") == chat.get_messages_as_conversation("b2")


def test_a_branch_can_be_compressed_too(chat: SessionDB) -> None:
    chat.branch_session("s1", "b1")
    rotate(chat, "b1", "b2")
    tip = chat.get_session("b2")
    assert tip and tip["conversation_id"] == "b1"
    assert chat.get_compression_tip("b1") == "b2"
    assert {row["id"] for row in chat.list_sessions_rich()} == {"s1", "b2"}


def test_compaction_in_place_keeps_what_was_said(chat: SessionDB) -> None:
    seen = chat.get_messages("s1")[-1]["id"]
    late = chat.append_message("s1", "user", "late")
    history = chat.get_messages_as_conversation("s1")
    compact = [{"role": "user", "content": "sum"}, history[3]]
    assert chat.archive_and_compact("s1", compact, covers_until=seen) == 2
    assert said(chat, "s1") == ["sum", "four", "late"]
    rows = chat.get_messages("s1", include_inactive=True)
    assert [m["content"] for m in rows if m["compacted"]] == ["one", "two", "three", "four", "late"]
    assert all(not m["active"] for m in rows if m["compacted"])
    assert next(m for m in rows if m["id"] == late)["compacted"] == 1
    session = chat.get_session("s1")
    assert session and session["message_count"] == 3
    assert chat.has_archived_messages("s1")
    assert said(chat, "s1", include_ancestors=True) == [
        "one", "two", "three", "four", "late", "sum",
    ]  # fmt: skip


def test_deleting_in_the_middle_closes_the_gap(chat: SessionDB) -> None:
    rotate(chat)
    rotate(chat, "s2", "s3")
    assert chat.delete_session("s2")
    assert chat.get_compression_lineage("s1") == ["s1", "s3"]
    assert chat.delete_session("s1")
    tip = chat.get_session("s3")
    assert tip and tip["conversation_id"] == "s1"
    assert [row["id"] for row in chat.list_sessions_rich()] == ["s3"]


def test_deleting_a_conversation_takes_all_of_it(chat: SessionDB) -> None:
    chat.branch_session("s1", "b1")
    rotate(chat)
    assert chat.delete_conversation("s2") == 2
    assert [row["id"] for row in chat.list_sessions_rich()] == ["b1"]
    assert said(chat, "b1") == ["one", "two", "three", "four"]


def test_a_session_is_not_its_own_ancestor(chat: SessionDB) -> None:
    chat.create_session("s2", "telegram", parent_session_id="s1")
    with pytest.raises(ValueError, match="descends"):
        chat.create_session("s1", "telegram", parent_session_id="s2")


def _said(db: SessionDB, *texts: str) -> list[int]:
    db.create_session("seen", "cli")
    for text in texts:
        db.append_message("seen", "user", text)
    return [int(one["id"]) for one in db.get_messages("seen")]


@pytest.mark.parametrize("target", [None, "seen2"])
def test_what_was_taken_back_meanwhile_is_not_compressed(db: SessionDB, target: str | None) -> None:
    seen = _said(db, "one", "two", "three")
    db.rewind_to_message("seen", seen[-1])
    done = db.compact_seen("seen", seen, [{"role": "user", "content": "sum"}], target)
    assert (done.session_id, done.created) == ("seen", False)
    assert [one["content"] for one in db.get_messages("seen")] == ["one", "two"]
    assert db.get_session("seen2") is None


@pytest.mark.parametrize("target", [None, "seen2"])
def test_what_came_meanwhile_stays_behind_what_stands_for_the_rest(
    db: SessionDB, target: str | None
) -> None:
    seen = _said(db, "one", "two", "three")
    done = db.compact_seen("seen", seen[:2], [{"role": "user", "content": "sum"}], target)
    assert (done.session_id, done.created) == (target or "seen", True)
    assert [one["content"] for one in db.get_messages(done.session_id)] == ["sum", "three"]


def test_a_tool_call_that_is_carried_over_is_known_as_the_one_it_repeats(db: SessionDB) -> None:
    db.create_session("old", "cli")
    calls = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
    db.append_message("old", "user", "go")
    db.append_message("old", "assistant", "", tool_calls=calls)
    db.append_message("old", "tool", "done", tool_call_id="c")
    originals = [one["id"] for one in db.get_messages("old")]
    carried = db.get_messages("old")[1:]
    db.rotate_session("old", "new", carried)
    assert [one["origin_id"] for one in db.get_messages("new")] == originals[1:]
    told = db.get_messages_as_conversation("new", include_ancestors=True)
    assert [one["role"] for one in told] == ["user", "assistant", "tool"], "each once"
