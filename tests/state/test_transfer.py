"""Export and import: a conversation arrives as it left, and a bad payload leaves nothing behind."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import InvalidMessageError, SessionDB, import_check

CALLS = [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]
START = 1_700_000_000.0


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "other" / "state.db") as store:
        yield store


def the(db: SessionDB, session_id: str) -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


def talk(db: SessionDB, session_id: str, *texts: str) -> None:
    for number, text in enumerate(texts):
        db.append_message(session_id, ("user", "assistant")[number % 2], text)


def rotate(db: SessionDB, old: str, new: str, keep: int = 1) -> None:
    tail = db.get_messages_as_conversation(old)[-keep:]
    db.rotate_session(old, new, [{"role": "user", "content": f"summary of {old}"}, *tail])


@pytest.fixture
def lived_in(db: SessionDB) -> SessionDB:
    """A store in which everything has happened that can happen to a conversation."""
    db.create_session(
        "a1", "telegram", user_id="ada", model="m", cwd="/w", system_prompt="be kind",
        model_config={"t": 1}, chat_id="42", session_key="k", display_name="Ada",
    )  # fmt: skip
    talk(db, "a1", "one", "two", "three", "four")
    db.set_session_title("a1", "Plan")
    db.append_message("a1", "assistant", [{"type": "image_url"}], tool_calls=CALLS, reasoning="r")
    db.append_message("a1", "tool", "\ud800 half", tool_call_id="c1", tool_name="ls")
    db.branch_session("a1", "b1", until_message_id=3)
    # A helper that is older than the continuation, and a delegate.
    db.create_session("helper", "telegram", parent_session_id="a1")
    db.create_session("d1", "tool", parent_session_id="a1", model_config={"_delegate_from": "a1"})
    talk(db, "d1", "do it", "done")
    rotate(db, "a1", "a2", keep=2)
    talk(db, "a2", "five", "six")
    rotate(db, "a2", "a3")
    rotate(db, "a3", "a4")
    db.delete_session("a3")
    talk(db, "a4", "seven", "eight")
    db.rewind_to_message("a4", db.list_recent_user_messages("a4")[0]["id"])
    db.append_message("a4", "user", "seven again")
    talk(db, "b1", "aside", "indeed")
    rotate(db, "b1", "b2")  # a branch that was compressed carries its mark along
    rotate(db, "d1", "d2")
    db.create_session("c1", "cli", started_at=START)
    talk(db, "c1", "x", "y", "z", "tail")
    db.archive_and_compact("c1", [*db.get_messages_as_conversation("c1")[-1:]])
    db.update_token_counts("c1", 10, 5, api_call_count=2, estimated_cost_usd=0.5, cost_status="e")
    db.set_session_archived("c1", True)
    db.end_session("c1", "idle")
    db.create_session("empty", "cli")
    return db


FACTS = [
    "id", "source", "user_id", "chat_id", "display_name", "model", "model_config", "system_prompt",
    "cwd", "parent_session_id", "continuation_of", "conversation_id", "started_at", "ended_at",
    "end_reason", "title", "archived", "message_count", "tool_call_count", "last_active",
    "input_tokens", "output_tokens", "api_call_count", "estimated_cost_usd", "cost_status",
]  # fmt: skip


def everything(db: SessionDB) -> dict[str, Any]:
    """All that a person or a model can tell of a store."""
    sessions = sorted(row["id"] for row in db.search_sessions(limit=10_000))
    return {
        "list": [row["id"] for row in db.list_sessions_rich(limit=1000, include_archived=True)],
        **{
            one: {
                "facts": {name: the(db, one)[name] for name in FACTS},
                "tip": db.get_compression_tip(one),
                "lineage": db.get_compression_lineage(one),
                "root": db.get_conversation_root(one),
                "resume": db.resolve_resume_session_id(one),
                "live": db.get_messages_as_conversation(one),
                "all": db.get_messages_as_conversation(one, include_inactive=True),
                "display": db.get_messages_as_conversation(one, include_ancestors=True),
                "prefix": db.get_ancestor_display_prefix(one),
                "rows": [
                    {k: v for k, v in row.items() if k not in ("id", "origin_id")}
                    for row in db.get_messages(one, include_inactive=True)
                ],
            }
            for one in sessions
        },
    }


@pytest.mark.parametrize("redact", [True, False])  # there are no secrets in it
def test_a_store_arrives_as_it_left(lived_in: SessionDB, other: SessionDB, redact: bool) -> None:
    payload = json.loads(json.dumps(lived_in.export_all(redact=redact)))
    report = other.import_sessions(payload)
    assert (report["ok"], report["errors"], report["detached"]) == (True, [], 0)
    assert report["imported"] == len(payload) == lived_in.session_count(include_archived=True)
    assert everything(other) == everything(lived_in)


def test_the_order_of_an_import_does_not_matter(lived_in: SessionDB, other: SessionDB) -> None:
    payload = lived_in.export_all()[::-1]
    for number, session in enumerate(payload):
        session["started_at"] = START + number  # even if a clock was wrong
    other.import_sessions(payload)
    before, after = everything(lived_in), everything(other)
    for one in before:
        if one != "list":
            for view in ("tip", "lineage", "live", "display"):
                assert after[one][view] == before[one][view]


def test_importing_again_skips_what_is_there(lived_in: SessionDB, other: SessionDB) -> None:
    payload = lived_in.export_all()
    other.import_sessions(payload)
    other.append_message("a4", "assistant", "written here")
    before = everything(other)
    report = other.import_sessions(payload)
    assert (report["ok"], report["imported"], report["skipped"]) == (True, 0, len(payload))
    assert sorted(report["skipped_ids"]) == sorted(session["id"] for session in payload)
    assert everything(other) == before


def test_live_state_stays_where_it_was(lived_in: SessionDB, other: SessionDB) -> None:
    lived_in.request_handoff("a4", "slack")
    lived_in.try_acquire_compression_lock("a4", "me")
    other.import_sessions(lived_in.export_all())
    assert the(other, "a4")["session_key"] is None
    assert other.list_pending_handoffs() == []
    assert other.get_compression_lock_holder("a4") is None


def test_one_session_is_exported_with_all_its_rows(lived_in: SessionDB) -> None:
    exported = lived_in.export_session("a4")
    assert exported and exported["id"] == "a4"
    assert exported["messages"] == lived_in.get_messages("a4", include_inactive=True)
    assert {row["active"] for row in exported["messages"]} == {0, 1}
    assert lived_in.export_session("nobody") is None
    assert lived_in.export_session_lineage("nobody") is None


def test_a_lineage_is_exported_as_one_conversation(lived_in: SessionDB) -> None:
    lineage = lived_in.export_session_lineage("a2")
    assert lineage and lineage["id"] == "a2"
    assert lineage["lineage_session_ids"] == ["a1", "a2", "a4"]
    assert [segment["id"] for segment in lineage["segments"]] == ["a1", "a2", "a4"]
    said = [message["content"] for message in lineage["messages"]]
    assert said.count("six") == said.count("four") == 1
    assert lineage["message_count"] == len(said)


@pytest.mark.parametrize(("tip", "once"), [("c1", "tail"), ("b2", "indeed"), ("b2", "one")])
def test_a_lineage_tells_each_message_once(lived_in: SessionDB, tip: str, once: str) -> None:
    lineage = lived_in.export_session_lineage(tip)
    assert lineage
    assert [message["content"] for message in lineage["messages"]].count(once) == 1


def test_one_source_can_be_exported(lived_in: SessionDB) -> None:
    assert {one["id"] for one in lived_in.export_all(source="cli")} == {"c1", "empty"}
    assert lived_in.export_all(source="nowhere") == []


def test_a_title_that_is_taken_gets_a_number(lived_in: SessionDB, other: SessionDB) -> None:
    other.create_session("here", "cli", user_id=the(lived_in, "a1")["user_id"])
    other.set_session_title("here", "Plan")
    other.import_sessions(lived_in.export_all())
    assert the(other, "here")["title"] == "Plan"
    before = {row["id"]: row["title"] for row in lived_in.search_sessions(limit=99)}
    after = {row["id"]: row["title"] for row in other.search_sessions(limit=99)}
    assert before.pop("a1") == "Plan"
    assert after.pop("a1") == "Plan #7"
    assert after.items() > before.items()  # the others keep theirs


def test_a_child_without_its_parent_is_detached(lived_in: SessionDB, other: SessionDB) -> None:
    report = other.import_sessions([one for one in lived_in.export_all() if one["id"] == "a2"])
    assert (report["imported"], report["detached"]) == (1, 1)
    assert the(other, "a2")["parent_session_id"] is None
    texts = [m["content"] for m in other.get_messages_as_conversation("a2", include_ancestors=True)]
    assert "one" not in texts and "five" in texts
    # What its copies repeated did not come along: they are the first telling here.
    assert {row["origin_id"] for row in other.get_messages("a2")} == {None}


def test_a_parent_that_is_there_is_found(lived_in: SessionDB, other: SessionDB) -> None:
    payload = {one["id"]: one for one in lived_in.export_all()}
    other.import_sessions([payload["a1"]])
    other.import_sessions([payload["a2"]])
    assert other.get_compression_tip("a1") == "a2"
    assert the(other, "a2")["conversation_id"] == "a1"


def test_an_open_session_is_not_continued_by_an_import(db: SessionDB) -> None:
    db.create_session("a1", "cli")
    child = {"id": "a2", "parent_session_id": "a1", "continuation_of": "a1", "messages": []}
    assert db.import_sessions([child])["ok"]
    assert db.get_compression_tip("a1") == "a1"
    assert the(db, "a2")["conversation_id"] == "a2"


def test_an_export_without_our_own_columns_finds_its_continuations(
    lived_in: SessionDB, other: SessionDB
) -> None:
    lived_in.delete_session("helper")
    payload = lived_in.export_all()
    for session in payload:
        for name in ("conversation_id", "continuation_of", "version", "last_active"):
            del session[name]
        for message in session["messages"]:
            del message["origin_id"]
    other.import_sessions(payload)
    for one in ("a1", "b1"):
        assert other.get_compression_lineage(one) == lived_in.get_compression_lineage(one)


def test_parents_that_go_in_circles_are_cut(db: SessionDB) -> None:
    circle = [
        {"id": one, "parent_session_id": parent, "end_reason": "compression", "ended_at": 5}
        for one, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "d"))
    ]
    report = db.import_sessions(circle)
    assert (report["ok"], report["imported"], report["detached"]) == (True, 4, 1)
    for one in "abcd":
        assert one in db.get_compression_lineage(one)
        assert db.get_compression_tip(one) in "abcd"


@pytest.mark.parametrize("parent", [5, [], {}, "", None, True])
def test_a_parent_that_is_no_id_is_none(db: SessionDB, parent: Any) -> None:
    assert db.import_sessions([{"id": "a", "parent_session_id": parent}])["imported"] == 1
    assert the(db, "a")["parent_session_id"] is None


def test_the_least_that_can_be_imported(db: SessionDB) -> None:
    report = db.import_sessions([{"id": "a"}, {"id": "b", "messages": [{"role": "user"}]}])
    assert report == {
        "ok": True,
        "imported": 2,
        "skipped": 0,
        "detached": 0,
        "imported_ids": ["a", "b"],
        "skipped_ids": [],
        "renamed": {},
        "errors": [],
    }
    assert the(db, "a")["source"] == "import"
    assert the(db, "b")["message_count"] == 1
    assert db.import_sessions([])["ok"]


def test_an_id_that_comes_twice_is_imported_once(db: SessionDB) -> None:
    twice = [{"id": "a", "title": "first"}, {"id": "a", "title": "second"}]
    report = db.import_sessions(twice)
    assert (report["imported_ids"], report["skipped_ids"]) == (["a"], ["a"])
    assert the(db, "a")["title"] == "first"


def test_a_copy_that_says_something_else_is_no_copy(db: SessionDB) -> None:
    messages = [
        {"id": 1, "role": "user", "content": "one"},
        {"id": 2, "role": "user", "content": "two", "origin_id": 1},
        {"id": 3, "role": "user", "content": "itself", "origin_id": 3},
        {"id": 4, "role": "user", "content": "gone", "active": 0},
        {"id": 5, "role": "user", "content": "gone", "origin_id": 4},
        {"id": 6, "role": "user", "content": "one", "origin_id": 1},
        {"id": 7, "role": "user", "content": "one", "origin_id": 6},
    ]
    db.import_sessions([{"id": "a", "messages": messages}])
    shown = db.get_messages_as_conversation("a", include_ancestors=True)
    assert [m["content"] for m in shown] == ["one", "two", "itself", "gone", "one"]


GOOD: dict[str, Any] = {
    "id": "good",
    "title": "Good",
    "started_at": START,
    "messages": [{"id": 1, "role": "user", "content": "fine"}],
}

MALFORMED: list[Any] = [
    None,
    "text",
    5,
    [],
    {},
    {"id": None},
    {"id": ""},
    {"id": 5},
    {"id": ["x"]},
    {"id": "half \ud800"},
    {"messages": "text"},
    {"messages": 5},
    {"messages": {"role": "user"}},
    {"messages": [None]},
    {"messages": ["text"]},
    {"messages": [{}]},
    {"messages": [{"content": "no role"}]},
    {"messages": [{"role": ""}]},
    {"messages": [{"role": 5}]},
    {"messages": [{"role": "user", "timestamp": "yesterday"}]},
    {"messages": [{"role": "user", "timestamp": {}}]},
    {"messages": [{"role": "user", "token_count": "many"}]},
    {"messages": [{"role": "user", "token_count": 2**70}]},
    {"messages": [{"role": "user", "tool_call_id": {}}]},
    {"messages": [{"role": "user", "tool_name": []}]},
    {"messages": [{"role": "user", "content": ...}]},
    {"messages": [{"role": "user", "content": b"bytes"}]},
    {"messages": [{"role": "user", "id": []}]},
    {"messages": [{"role": "user", "origin_id": {}}]},
    {"started_at": "yesterday"},
    {"started_at": {}},
    {"started_at": float("nan")},
    {"ended_at": "tomorrow"},
    {"model": ["m"]},
    {"cwd": {}},
    {"title": ["T"]},
    {"source": {}},
    {"source": True},
    {"end_reason": [], "ended_at": 5},
    {"input_tokens": "many"},
    {"input_tokens": [1]},
    {"estimated_cost_usd": "free"},
    {"estimated_cost_usd": float("inf")},
    {"archived": "yes"},
    {"cost_status": {}},
    {"model_config": ...},
]


@pytest.mark.parametrize("bad", MALFORMED, ids=str)
def test_a_malformed_session_leaves_nothing_behind(db: SessionDB, bad: Any) -> None:
    if isinstance(bad, dict) and bad and "id" not in bad:
        bad = {"id": "bad", **bad}
    before = dict(everything(db), messages=db.message_count())
    try:
        report = db.import_sessions([copy.deepcopy(GOOD), bad, copy.deepcopy(GOOD)])
    except InvalidMessageError:
        pass
    else:
        assert (report["ok"], report["imported"], report["imported_ids"]) == (False, 0, [])
        assert [error["index"] for error in report["errors"]] == [1]
        assert report["errors"][0]["error"]
    assert dict(everything(db), messages=db.message_count()) == before
    assert db.import_sessions([GOOD])["imported"] == 1


@pytest.mark.parametrize("payload", [None, {}, "text", {"id": "a"}, 5])
def test_a_payload_must_be_a_list(db: SessionDB, payload: Any) -> None:
    with pytest.raises(ValueError, match="must be a list"):
        db.import_sessions(payload)


def test_the_limits_are_the_known_ones() -> None:
    assert import_check.MAX_SESSIONS == 500
    assert import_check.MAX_MESSAGES_PER_SESSION == 10_000
    assert import_check.MAX_MESSAGES == 50_000
    assert import_check.MAX_SESSION_BYTES == 5 * 2**20
    assert import_check.MAX_BYTES == 25 * 2**20


@pytest.mark.parametrize(
    ("limit", "value", "index"),
    [
        ("MAX_SESSIONS", 1, None),
        ("MAX_MESSAGES_PER_SESSION", 2, 1),
        ("MAX_MESSAGES", 4, None),
        ("MAX_SESSION_BYTES", 300, 1),
        ("MAX_BYTES", 400, None),
    ],
)
def test_each_limit_refuses_the_whole_payload(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, index: int | None
) -> None:
    payload = [
        {"id": "a", "messages": [{"role": "user", "content": "x"}] * 2},
        {"id": "b", "messages": [{"role": "user", "content": "x" * 100}] * 3},
    ]
    monkeypatch.setattr(import_check, limit, value)
    report = db.import_sessions(payload)
    assert (report["ok"], report["imported"]) == (False, 0)
    assert [error["index"] for error in report["errors"]] == [index]
    assert db.session_count() == 0
    monkeypatch.undo()
    assert db.import_sessions(payload)["imported"] == 2


def test_just_within_the_limits(db: SessionDB) -> None:
    payload = [{"id": f"s{number}"} for number in range(500)]
    payload[0]["messages"] = [{"role": "user", "content": "x"}] * 10_000  # type: ignore[assignment]
    assert db.import_sessions(payload)["imported"] == 500
    assert db.message_count() == 10_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.mark.long
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_change_to_an_export_is_taken_whole_or_not_at_all(
    lived_in: SessionDB, tmp_path: Path, data: st.DataObject
) -> None:
    payload = lived_in.export_all()
    for _ in range(data.draw(st.integers(1, 3))):
        session = data.draw(st.sampled_from(payload))
        victim = data.draw(st.sampled_from([session, *session["messages"]]))
        victim[data.draw(st.sampled_from(sorted(victim)))] = data.draw(json_values)
        if not isinstance(session.get("messages"), list) or not all(
            isinstance(one, dict) for one in session["messages"]
        ):
            break
    path = tmp_path / "fuzz" / "state.db"
    path.unlink(missing_ok=True)
    with SessionDB(path) as store:
        try:
            ok = store.import_sessions(payload)["ok"]
        except InvalidMessageError:
            ok = False
        if not ok:
            assert store.session_count(include_archived=True) == store.message_count() == 0
            return
        # Whatever was let in can be read, listed, used, exported and deleted.
        view = everything(store)
        tips = [the(store, one) for one in view["list"]]
        assert len({tip["conversation_id"] for tip in tips}) == len(tips)
        store.list_prune_candidates(older_than_days=0)
        for one in sorted(set(view) - {"list"}):
            store.update_token_counts(one, 1, absolute=True)
            store.append_message(one, "user", "still writable")
        assert len(store.export_all()) == len(view) - 1
        store.delete_sessions([one for one in view if one != "list"])
        assert store.session_count(include_archived=True) == store.message_count() == 0


# Put together here, so that no scanner takes this file for a leak.
SECRET = "sk-ant-" + "A1b2C3d4E5f6G7h8I9j0"
IMAGE = "data:image/png;base64," + "AIza" * 300


@pytest.fixture
def telling(db: SessionDB) -> SessionDB:
    """A conversation that was compressed, in every column of which somebody told a secret."""
    db.create_session(
        "s1", "cli", system_prompt=f"Use {SECRET}.", model_config={"api_key": SECRET, "t": 1}
    )
    db.set_session_title("s1", "token=hunter22")
    arguments = json.dumps({"command": 'echo "password=hunter22" > x', "token": "hunter22"})
    call = {"id": "call_password=x1", "function": {"name": "terminal", "arguments": arguments}}
    content = [
        {"type": "text", "text": f"my key: {SECRET}"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ]
    db.append_message("s1", "user", content, api_content=f"my key: {SECRET}")
    db.append_message(
        "s1", "assistant", "x", tool_calls=[call], reasoning=f"They gave {SECRET}",
        reasoning_details=[{"text": SECRET, "signature": SECRET}],
    )  # fmt: skip
    db.append_message("s1", "tool", "password=hunter22", tool_call_id="call_password=x1")
    db.append_message("s1", "user", f"again {SECRET}")
    rotate(db, "s1", "s2")
    return db


def leaks(exported: Any) -> int:
    text = json.dumps(exported)
    return text.count(SECRET) + text.count("hunter22")


def test_what_is_given_away_has_no_secrets(telling: SessionDB) -> None:
    sealed = 1  # a provider's signature, which is none
    assert leaks(telling.export_session("s1")) == sealed
    assert leaks(telling.export_session("s2")) == 0
    assert leaks(telling.export_session_lineage("s2")) == 2 * sealed  # its segments repeat it
    assert leaks(telling.export_all()) == sealed
    assert leaks(telling.export_all("cli")) == sealed
    exported = telling.export_session("s1")
    assert exported is not None
    (call,) = exported["messages"][1]["tool_calls"]
    assert call["id"] == exported["messages"][2]["tool_call_id"] == "call_password=x1"
    assert json.loads(call["function"]["arguments"]) == {
        "command": 'echo "password=***" > x',
        "token": "***",
    }
    assert exported["messages"][0]["content"][1]["image_url"]["url"] == IMAGE
    assert json.loads(exported["model_config"]) == {"api_key": "***", "t": 1}
    assert leaks(telling.get_messages("s1")) > sealed  # the store itself is as it was


def test_a_backup_loses_nothing(telling: SessionDB, other: SessionDB) -> None:
    assert other.import_sessions(telling.export_all(redact=False))["ok"]
    assert everything(other) == everything(telling)
    assert leaks(telling.export_session("s1", redact=False)) > 5
    assert leaks(telling.export_session_lineage("s1", redact=False)) > 5


def test_what_has_no_secrets_can_be_imported(telling: SessionDB, other: SessionDB) -> None:
    payload = json.loads(json.dumps(telling.export_all()))
    report = other.import_sessions(payload)
    assert (report["ok"], report["imported"], report["errors"]) == (True, 2, [])
    assert other.get_compression_lineage("s2") == ["s1", "s2"]
    shown = [row["content"] for row in other.get_messages_as_conversation("s2", True)]
    assert len(shown) == len(telling.get_messages_as_conversation("s2", True))
    assert "again sk-ant-***" in shown
    assert other.export_all()[0]["messages"] == [
        {**row, "id": mine["id"]}
        for row, mine in zip(payload[0]["messages"], other.get_messages("s1", True), strict=True)
    ]
