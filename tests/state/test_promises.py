"""One table: every method that writes × what every write promises.

Each raises the version of the sessions it concerns, happens as a whole or not at all, wherever it
is stopped, and is seen at once by whoever else has the file open.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

from hermes_base.process import this_process
from hermes_state import (
    EventBatch,
    FileChange,
    Limit,
    LimitUse,
    ModelCall,
    PlatformLease,
    SessionDB,
    StoreFullError,
)
from hermes_state.dialect import Connection
from hermes_state.jobs import Claim, Notice, Settled, Skip
from hermes_state.schema import TABLES
from hermes_state.tool_runs import Started
from hermes_state.turns import Lease
from hermes_state.webhooks import Webhook

from .memory import memory_folder
from .raw import query
from .surface import arguments, dump, method_names

RUNNING = Lease("running", 1, this_process())

DAY = 86_400.0
CALL = ModelCall("turn", "m", cost_usd=0.5)
LIMIT = Limit("person", "ada", "dollars", "day", 2.0)


def say(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def furnish_approvals(conn: Connection) -> None:
    """One that waits, with the token "t", one whose time has passed, one that was answered when
    nobody waited any more, and one grant."""
    for name, expires in (("waiting", 9e9), ("late", 1.0)):
        conn.execute(
            "INSERT INTO approvals (id, token_hash, session_id, command, description,"
            " pattern_keys, state, created_at, expires_at)"
            " VALUES (?, ?, 's', 'c', 'd', '[]', 'pending', 1.0, ?)",
            (name, hashlib.sha256(b"t").hexdigest(), expires),
        )
    conn.execute(
        "INSERT INTO approvals (id, token_hash, session_id, command, description, pattern_keys,"
        " state, choice, how, created_at, expires_at, decided_at)"
        " VALUES ('answered', '', 's', 'c', 'd', '[]', 'approved', 'once', 'person', 1.0, 9e9, 2.0)"
    )
    conn.execute("INSERT INTO approval_grants (pattern_key, granted_at) VALUES ('old', 1.0)")


def furnish(db: SessionDB) -> None:
    """A store in which every method has something to do."""
    old = time.time() - 200 * DAY
    db.create_session("s", "cli", cwd="/w", model="m", user_id="ada")
    db.set_session_title("s", "Plan")
    calls = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
    db.append_message("s", "user", "one")
    db.append_message("s", "assistant", "two", tool_calls=calls)
    db.append_message("s", "tool", "three", tool_call_id="c")
    db.append_message("s", "user", "four")
    db.set_meta("goal:s", "ship")
    db.save_gateway_routing_entry("key", json.dumps({"session_id": "s"}), scope="x")
    db.create_session("ended", "cli")
    db.end_session("ended", "agent_close")
    db.create_session("taken-back", "cli")
    first = db.append_message("taken-back", "user", "x")
    db.rewind_to_message("taken-back", first)
    for name, state in (("wanted", None), ("claimed", "claim")):
        db.create_session(name, "cli")
        db.request_handoff(name, "telegram")
        if state:
            db.claim_handoff(name)
    db.try_acquire_compression_lock("s", "me")
    db.record_compression_failure_cooldown("s", time.time() + 999, "tired")
    db._execute_write(furnish_approvals)
    db.create_session("open", "cli")
    db.append_message("open", "user", "unanswered")
    furnish_turns(db)
    db.accept_message("waiting", "s", "later", source="tui")
    db.accept_message("long gone", "s", "earlier", source="tui")
    db.drop_message("long gone")
    db.add_note("note", "s", "it has ended")
    to = {"session_key": "k", "platform": "local", "chat_id": "1"}
    for name in ("owed", "sending", "settled"):
        db.add_delivery(name, "text", **to)
    db.begin_delivery("sending")
    db.finish_delivery("settled", "delivered")
    db.add_delivery("kept", "text", **{**to, "chat_id": "held"})
    db.hold_delivery("kept", "later")
    db._execute_write(furnish_pairing)
    for number in (1, 2, 3):
        db.create_session(f"of {number}", "local")
    db._execute_write(furnish_persons)
    db._execute_write(furnish_objects)
    db.note_preview("shown", "1")
    db.register_replica()
    db.take_platform("held")
    for number in (1, 2):
        db.add_job(
            f"job{number}", user_id=None, name=f"job{number}", schedule="at 100", timezone="UTC",
            settings={"prompt": "p"}, next_due=100, next_at=100,
        )  # fmt: skip
    db.start_run("job2", 50, "p", "s")
    db.create_delegation("under way", "s", {"goals": ["g"]})
    db.create_delegation("over", "s", {"goals": ["g"]})
    db.finish_delegation("over", "completed", "done")
    db.create_session("miscounted", "cli")
    db.create_session("chain", "cli", started_at=old)
    db.append_message("chain", "user", "long ago", timestamp=old)
    db.rotate_session("chain", "chain2", say("summary"))
    db.branch_session("chain2", "branch")
    db.create_session("ghost", "tui", started_at=old)
    db.create_session("ancient", "cli", started_at=old)
    db.append_message("ancient", "user", "old", timestamp=old)
    db.end_session("ancient", "cli_close")

    def age(conn: Connection) -> None:
        conn.execute("UPDATE sessions SET ended_at = started_at WHERE id = 'ancient'")
        conn.execute("UPDATE sessions SET message_count = 9 WHERE id = 'miscounted'")
        conn.execute("UPDATE inbox SET updated_at = 0 WHERE id = 'long gone'")
        conn.execute(
            "UPDATE delivery_obligations SET updated_at = 0 WHERE obligation_id = 'settled'"
        )
        conn.execute("UPDATE sessions SET started_at = ? WHERE id = 'chain2'", (old,))

    db._execute_write(age)


def furnish_objects(conn: Connection) -> None:
    """One that nothing names any more, one whose bytes are on their way, one that is going."""
    for blob, state in (("old", "kept"), ("new", "arriving"), ("gone", "going")):
        conn.execute(f"INSERT INTO object_blobs VALUES ('{blob}', '{blob}', 1, '', '{state}', 9e9)")
    conn.execute("INSERT INTO objects VALUES ('uploads/old', 'old', 1)")


def furnish_signals(conn: Connection) -> None:
    """What another process tells the one that runs a turn, and one that watches it."""
    conn.execute(
        "INSERT INTO signals (id, conversation_id, started_at, kind, made_at)"
        " SELECT 'signal', conversation_id, started_at, 'stop', started_at FROM turns"
        " WHERE conversation_id = 'running'"
    )
    conn.execute("INSERT INTO watches VALUES ('running', 'v', 0, 9e9)")
    conn.execute("INSERT INTO watched_events VALUES ('running', 3, '', '{}', 9e9)")


def furnish_turns(db: SessionDB) -> None:
    """A turn that runs, with a tool, and one that was cut off in the middle of a tool."""
    ask = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "t", "function": {"name": "send", "arguments": "{}"}}]}  # fmt: skip
    for name in ("running", "cut-off"):
        lease = db.begin_turn(name, say("go")[0], source="cli", facts={}, leased=True).lease
        db.record_step(name, [ask], lease=lease, starts=[Started("t", "send", "effectful")])
    db._execute_write(furnish_signals)
    for name, status in (("s", "active"), ("open", "paused")):
        kept = {"id": "g", "goal": "ship it", "status": status, "step": 1, "owner": None}
        db.set_meta(f"goal:{name}", json.dumps(kept))
    db._execute_write(
        lambda conn: conn.execute(
            "UPDATE turns SET heartbeat_at = 0 WHERE conversation_id = 'cut-off'"
        )
    )


def furnish_pairing(conn: Connection) -> None:
    conn.execute(
        "INSERT INTO pairing_codes VALUES (?, 'telegram', 'guest', NULL, 1, 9e9)",
        (hashlib.sha256(b"hermes-pairing:CODE").hexdigest(),),
    )
    conn.execute("INSERT INTO paired_users VALUES ('telegram', 'friend', 'F', 1)")
    conn.execute(
        "INSERT INTO link_codes VALUES (?, 'key', 's', 'friend', 9e9, NULL, NULL)",
        (hashlib.sha256(b"hermes-link:CODE").hexdigest(),),
    )
    conn.execute(
        "INSERT INTO link_codes VALUES (?, '', '', 'local:1', 9e9, NULL, NULL)",
        (hashlib.sha256(b"hermes-person:CODE").hexdigest(),),
    )
    conn.execute(
        "INSERT INTO link_codes VALUES (?, '', '', 'local:1', 9e9, NULL, 'full')",
        (hashlib.sha256(b"hermes-device:CODE").hexdigest(),),
    )
    conn.execute("INSERT INTO web_devices VALUES ('phone', 'hash', 'full', 1, NULL)")
    conn.execute("INSERT INTO doors VALUES ('web', 'phone', 'local:3', 'a phone', 1)")


def furnish_persons(conn: Connection) -> None:
    """Three with a door and a conversation each, and one who was merged into the first."""
    for number in (1, 2, 3):
        owner = f"local:{number}"
        conn.execute(
            f"INSERT INTO persons VALUES ('{owner}', 'P{number}', 'member', '{{}}', NULL, 1)"
        )
        conn.execute(f"INSERT INTO doors VALUES ('local', '{number}', '{owner}', NULL, 1)")
        conn.execute(f"UPDATE sessions SET user_id = '{owner}' WHERE id = 'of {number}'")
    merged = {
        "person": {"id": "local:0", "name": "P0", "role": "member", "limits": "{}",
                   "workspace": None, "created_at": 1.0},
        "doors": [], "conversations": ["of 1"], "grants": [],
    }  # fmt: skip
    conn.execute(
        "INSERT INTO person_merges VALUES ('merge', 'local:1', ?, 2, NULL)", (json.dumps(merged),)
    )


EXPORT = {"id": "imported", "source": "cli", "started_at": 5.0, "messages": say("a", "b")}


class Mutator(NamedTuple):
    """A method, what to call it with, and the sessions whose version it raises."""

    name: str
    given: dict[str, Any]
    concerned: tuple[str, ...] = ("s",)


def m(name: str, /, *concerned: str, **given: Any) -> Mutator:
    return Mutator(name, given, concerned)


TABLE = [
    m("create_session", "new", session_id="new", source="cli", parent_session_id="s"),
    m("create_session", "s", session_id="s", source="cli", git_branch="main"),
    m("ensure_session", "new", session_id="new"),
    m("give_conversation", "open", session_id="open", person_id="local:1"),
    m("end_session", "s", session_id="s", end_reason="cli_close"),
    m("reopen_session", "ended", session_id="ended"),
    m("promote_to_session_reset", "ended", session_id="ended"),
    m("set_session_archived", "chain", "chain2", session_id="chain2", archived=True),
    m("update_session_cwd", "s", session_id="s", cwd="/elsewhere"),
    m("backfill_repo_roots", "s", cwd_to_root={"/w": "/"}),
    m("update_session_meta", "s", session_id="s", model_config_json='{"a": 1}'),
    m("update_system_prompt", "s", session_id="s", system_prompt="Be kind."),
    m("update_session_model", "s", session_id="s", model="m2"),
    m("update_session_billing_route", "s", session_id="s", provider="p", base_url="u"),
    m("set_expiry_finalized", "s", session_id="s"),
    m("set_meta", key="key", value="value"),
    m("set_session_title", "s", session_id="s", title="New plan"),
    m("set_auto_title_if_empty", "ended", session_id="ended", title="Found"),
    m("rotate_session", "s", "s2", session_id="s", new_session_id="s2", messages=say("sum", "four"),
      unsaved=say("unsaved"), covers_until=2),
    m("archive_and_compact", "s", session_id="s", compacted_messages=say("sum"), covers_until=2),
    m("compact_seen", "s", session_id="s", seen=[1, 2], messages=say("sum")),
    m("compact_seen", "s", "s2", session_id="s", seen=[1], messages=say("sum"),
      new_session_id="s2"),
    m("branch_session", "s", "b", session_id="s", new_session_id="b", end_parent=True),
    m("append_message", "s", session_id="s", role="user", content="x"),
    m("append_messages", "s", session_id="s", messages=say("x", "y")),
    m("set_latest_user_api_content", "s", session_id="s", content="four", api_content="sent"),
    m("rewind_to_message", "s", session_id="s", target_message_id=1),
    m("restore_rewound", "taken-back", session_id="taken-back", since_message_id=1),
    m("replace_messages", "s", session_id="s", messages=say("x", "y")),
    m("clear_messages", "s", session_id="s"),
    m("begin_turn", "s", session_id="s", message=say("x")[0], source="cli", facts={}),
    m("begin_turn", "new", session_id="new", message=say("x")[0], source="cli", facts={}),
    m("record_step", "s", session_id="s", messages=say("x"), usage={"input_tokens": 3}),
    m("begin_turn", "s", session_id="s", message=say("x")[0], source="cli", facts={}, leased=True),
    m("begin_turn", "cut-off", session_id="cut-off", message=say("x")[0], source="cli", facts={},
      leased=True, deliver_to={"id": "x"}),
    m("record_step", "running", session_id="running", lease=RUNNING, ends=True,
      messages=[{"role": "tool", "tool_call_id": "t", "content": "done"}, *say("x")]),
    m("record_step", "running", session_id="running", lease=RUNNING,
      messages=[{"role": "tool", "tool_call_id": "t", "content": "done"}],
      starts=[Started("t2", "send", "none")]),
    m("compact_seen", "s2", session_id="running", seen=[], messages=say("sum"),
      new_session_id="s2", lease=RUNNING),
    m("end_turn", lease=RUNNING),
    m("beat_turns", leases=[RUNNING, Lease("s", 1, "nobody")]),
    m("take_over_turn", "cut-off", conversation_id="cut-off", fence=1),
    m("close_abandoned_turn", "cut-off", conversation_id="cut-off", fence=1, notice="cut off"),
    m("append_missing", "s", session_id="s", messages=say("one", "x"), source="cli", facts={}),
    m("update_token_counts", "s", session_id="s", input_tokens=5, model="m"),
    m("record_auxiliary_usage", session_id="s", task="title", input_tokens=5),
    m("reserve_call", session_id="s", call=CALL, limits=[LIMIT], seconds=60.0),
    m("settle_call", session_id="s", call=CALL),
    m("waive_limit", use=LimitUse(LIMIT, 2.0, 0.0, 1.0)),
    m("claim_review", session_id="s", every=1),
    m("record_gateway_session_peer", "s", session_id="s", source="telegram", chat_id="7"),
    m("save_gateway_routing_entry", session_key="k", entry_json="{}"),
    m("replace_gateway_routing_entries", entries={"a": "{}", "b": "{}"}, scope="x"),
    m("delete_gateway_routing_entries", session_keys=["key"], scope="x"),
    m("create_bindings", entries={"key": {}, "new": {"session_id": "s"}}, scope="x"),
    m("update_binding", session_key="key", changes={"linked": True}, scope="x"),
    m("rebind_key", "s", session_key="key", fields={"session_id": "new"}, instead_of="s",
      end_reason="session_reset", scope="x"),
    m("move_bindings", old_session_id="s", new_session_id="new"),
    m("forget_bindings", seen={"key": 1}, scope="x"),
    m("request_handoff", "s", session_id="s", platform="telegram"),
    m("claim_handoff", "wanted", session_id="wanted"),
    m("complete_handoff", "claimed", session_id="claimed"),
    m("fail_handoff", "claimed", session_id="claimed", error="gone"),
    m("take_over_handoff", "claimed", session_id="claimed", owner=this_process()),
    m("try_acquire_compression_lock", session_id="ended", holder="me"),
    m("refresh_compression_lock", session_id="s", holder="me", ttl_seconds=9000.0),
    m("release_compression_lock", session_id="s", holder="me"),
    m("record_compression_failure_cooldown", "s", session_id="s", cooldown_until=9e9),
    m("clear_compression_failure_cooldown", "s", session_id="s"),
    m("set_compression_fallback_streak", "s", session_id="s", streak=3),
    m("accept_message", inbox_id="new", session_id="s", content="x"),
    m("drop_message", inbox_id="waiting"),
    m("begin_command", inbox_id="waiting"),
    m("claim_message", inbox_id="waiting", owner=this_process()),
    m("forget_taken"),
    m("add_delivery", delivery_id="new", content="x", session_key="k", platform="p", chat_id="1"),
    m("revise_delivery", delivery_id="owed", content="another"),
    m("begin_delivery", delivery_id="owed"),
    m("finish_delivery", delivery_id="sending", state="delivered"),
    m("settle_delivery", delivery_id="sending", owner=this_process(), state="failed"),
    m("hold_delivery", delivery_id="settled", reason="later"),
    m("reject_delivery", delivery_id="settled", reason="never"),
    m("release_deliveries", platform="local", chat_id="held"),
    m("forget_delivered"),
    m("register_replica", version="2"),
    m("beat_replica", leases=[PlatformLease("held", 1, this_process())]),
    m("drain_replica"),
    m("leave_replicas"),
    m("set_running_turns", count=3, limit=4),
    m("take_platform", name="free"),
    m("release_platform", lease=PlatformLease("held", 1, this_process())),
    m("keep_platform_records", platform="matrix", changes={"key": "1", "gone": None}),
    m("add_platform_records", platform="matrix", records={"key": "1"}),
    m("keep_for_platform", lease=PlatformLease("held", 1, this_process()), kept={"place": "2"}),
    m("send_signal", session_id="running", kind="stop", payload={"a": 1}),
    m("take_signal", signal_id="signal"),
    m("settle_signal", signal_id="signal", outcome="stopped"),
    m("withdraw_signal", signal_id="signal"),
    m("watch_turn", conversation_id="running", viewer="w", since=2),
    m("renew_watch", conversation_id="running", viewer="v", since=2),
    m("end_watch", conversation_id="running", viewer="v"),
    m("add_events", conversation_id="running", batches=[EventBatch(4, "", "{}")]),
    m("drop_events", conversation_id="running", until=3),
    m("note_preview", turn="t", message_id="1"),
    m("forget_preview", turn="shown"),
    m("offer_pairing", platform="telegram", user_id="stranger"),
    m("approve_pairing", code="CODE"),
    m("revoke_pairing", platform="telegram", user_id="friend"),
    m("offer_link", session_key="k", session_id="s", owner="friend"),
    m("take_link", code="CODE", taker="guest"),
    m("take_link", code="WRONG", taker="guest"),
    m("ensure_person", door="local:9", name="Nina"),
    m("add_person", name="Olga"),
    m("rename_person", person_id="local:1", name="Paul"),
    m("set_person_role", person_id="local:1", role="guest"),
    m("set_person_workspace", person_id="local:1", folder="/srv/work"),
    m("set_person_limit", person_id="local:1", limit="usd_per_day", amount=2),
    m("remove_person", person_id="local:3"),
    m("adopt_owners"),
    m("merge_persons", "of 2", merged_id="local:2", into_id="local:3"),
    m("unmerge_persons", "of 1", merge_id="merge"),
    m("join_door", "of 2", door="local:2", person_id="local:3"),
    m("join_door", door="local:9", person_id="local:3"),
    m("offer_person_code", person_id="local:2"),
    m("join_by_code", "of 2", code="CODE", person_id="local:2"),
    m("join_by_code", code="WRONG", person_id="local:2"),
    m("show_memory", person_id="local:1", chat="local:-1", shown=True),
    m("offer_device_code", person_id="local:2"),
    m("make_device", code="CODE", name="tablet", taker="here"),
    m("make_device", code="WRONG", name="tablet", taker="here"),
    m("note_device_used", device_id="phone"),
    m("rename_device", device_id="phone", name="mine", owner="local:3"),
    m("revoke_device", device_id="phone", owner="local:3"),
    m("change_kept_files", changes=[FileChange("memories/a", b"a"), FileChange("skills/b", b"b")]),
    m("begin_blob", blob="next", digest="d", size=1),
    m("add_chunk", blob="new", number=0, content=b"bytes"),
    m("put_object", name="uploads/new", blob="new", session_id="s"),
    m("release_objects"),
    m("drop_blob", blob="gone"),
    m("begin_turn", "s", session_id="s", source="cli", facts={},
      message={**say("later")[0], "_inbox": "waiting"}),
    m("begin_noted_turn", "s", session_id="s", source="cli", facts={}),
    m("add_note", note_id="new", session_id="s", text="it has ended"),
    m("drop_notes", session_id="s"),
    m("add_job", job_id="new", user_id=None, name="n", schedule="at 5", timezone="UTC",
      settings={"prompt": "p"}, next_due=5, next_at=5.0),
    m("change_job", job_id="job1", version=1, state="paused", settings={"prompt": "q"}),
    m("remove_job", job_id="job2"),
    m("write_notepad", job_id="job1", text="noted"),
    m("claim_job", job_id="job1", version=1, due=100, content="p", session_id="s",
      claim=Claim(200, 200, (100,), (Skip(90, 99, 2, "off"),),
                  (Notice("say:n", "t", {"session_key": "k", "platform": "p", "chat_id": "1"}),))),
    m("start_run", job_id="job1", due=70, content="p", session_id="s", owned=False),
    m("begin_run", job_id="job2", due=50, session_id="s"),
    m("settle_run", job_id="job2", due=50, settled=Settled("failed", "why"),
      notice=Notice("say:f", "t", {"session_key": "k", "platform": "p", "chat_id": "1"})),
    m("set_webhooks", hooks=[Webhook("h", ("turn.ended",), "everybody")]),
    m("set_goal", session_id="s", text="ship it", prompt="work"),
    m("set_subgoals", session_id="s", subgoals=[{"text": "test it", "reached": False}]),
    m("pause_goal", session_id="s", reason="later"),
    m("resume_goal", session_id="open", prompt="work"),
    m("own_goal", session_id="s", goal_id="g", step=1),
    m("judge_goal", session_id="s", goal_id="g", step=1, is_met=False, reason="r", prompt="p"),
    m("advance_goal", session_id="s", goal_id="g", step=1, prompt="p"),
    m("clear_goal", session_id="s"),
    m("create_delegation", delegation_id="new", session_id="s", task={"goals": ["g"]}),
    m("finish_delegation", delegation_id="under way", state="completed", report="r"),
    m("lose_delegation", delegation_id="under way"),
    m("deliver_results", "s", session_id="s"),
    m("create_approval", session_id="s", command="c", description="d", pattern_keys=["k"]),
    m("decide_approval", approval_id="waiting", token="t", choice="once"),
    m("settle_approval", approval_id="waiting", choice="once"),
    m("take_late_answer", session_id="s", command="c", description="d", pattern_keys=[]),
    m("renew_approval_token", approval_id="waiting", owner=None),
    m("decide_asked_approval", approval_id="waiting", session_id="s", choice="once",
      decided_by=None),
    m("record_approval", session_id="s", command="c", description="d", pattern_keys=["k"],
      approved=True, how="off"),
    m("cancel_approval", approval_id="waiting"),
    m("expire_approvals"),
    m("grant_patterns", pattern_keys=["k"], granted_by="me"),
    m("revoke_grant", pattern_key="old", owner=""),
    m("revoke_pattern", pattern_key="old"),
    m("set_wall_mode", session_id="s", mode="plan"),
    m("set_wall_folders", session_id="s", folders=["/srv"]),
    m("fix_store", "miscounted"),
    m("import_sessions", "imported", sessions=[EXPORT]),
    m("archive_sessions", "ancient", older_than_days=90),
    m("finalize_orphaned_compression_sessions", "chain2"),
    m("delete_session", "chain2", session_id="chain"),
    m("delete_conversation", "branch", session_id="chain"),
    m("delete_session_if_empty", session_id="ended"),
    m("delete_sessions", session_ids=["s", "ended"]),
    m("delete_empty_sessions"),
    m("prune_empty_ghost_sessions"),
    m("prune_sessions", older_than_days=90),
]  # fmt: skip

# Several transactions, or none of the tables' content: they have tests of their own.
NOT_ONE_CHANGE = {"maybe_auto_prune_and_vacuum", "settle_at_startup", "vacuum"}


def call(db: SessionDB, mutator: Mutator) -> None:
    getattr(db, mutator.name)(**mutator.given)


def versions(db: SessionDB) -> dict[str, int]:
    rows = db._database.read(
        lambda conn: conn.execute("SELECT id, version FROM sessions").fetchall()
    )
    return dict(rows)


@pytest.fixture
def db_path(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as folder:
        yield folder / "home" / "state.db"


@pytest.fixture(scope="module")
def furnished() -> dict[str, str]:
    """What furnishes a store on a server at once, when that was done step by step before."""
    return {}


@pytest.fixture
def store(db: SessionDB, furnished: dict[str, str]) -> SessionDB:
    if not db.is_on_server:
        furnish(db)
    elif "script" not in furnished:
        furnish(db)
        furnished["script"] = written_as_script(db)
    else:
        db._execute_write(lambda conn: conn.run_script(furnished["script"]))  # type: ignore[attr-defined]
    return db


def written_as_script(db: SessionDB) -> str:
    """Statements that give an empty store on a server what this one holds."""
    statements = ["SET LOCAL session_replication_role = replica", "DELETE FROM state_meta"]
    for table in TABLES:
        if table == "schema_version":
            continue
        for (found,) in query(db, f"SELECT CAST(row_to_json(t) AS text) FROM {table} t"):
            text = found.replace("'", "''")
            statements.append(
                f"INSERT INTO {table} SELECT * FROM json_populate_record(NULL::{table}, '{text}')"
            )
    for name, value in query(
        db,
        "SELECT CAST(CAST(seqrelid AS regclass) AS text),"
        " pg_sequence_last_value(CAST(seqrelid AS regclass)) FROM pg_sequence",
    ):
        if value is not None:
            statements.append(f"SELECT setval('{name}', {value})")
    return "; ".join(statements)


def named(mutator: Mutator) -> str:
    return mutator.name


def test_the_table_has_every_method_that_writes(
    store: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = set()

    class Writes(Exception):
        pass

    def refuse(*_: Any, **__: Any) -> None:
        raise Writes

    monkeypatch.setattr(store, "_execute_write", refuse)
    for name in method_names():
        try:
            getattr(store, name)(**arguments(name))
        except Writes:
            writing.add(name)
    assert writing - NOT_ONE_CHANGE == {mutator.name for mutator in TABLE}


@pytest.mark.parametrize("mutator", TABLE, ids=named)
def test_every_write_raises_the_version_of_what_it_concerns(
    store: SessionDB, mutator: Mutator
) -> None:
    before = versions(store)
    call(store, mutator)
    after = versions(store)
    for session_id in mutator.concerned:
        assert after[session_id] > before.get(session_id, 0), session_id
    assert all(after[one] >= before[one] for one in after.keys() & before.keys())


@pytest.mark.parametrize("mutator", TABLE, ids=named)
def test_every_write_is_seen_at_once_by_others(store: SessionDB, mutator: Mutator) -> None:
    with SessionDB(store.db_path) as other:
        before = dump(other)
        call(store, mutator)
        after = dump(other)
        assert after != before
        assert after == dump(store)


class Failing:
    """A connection that fails at its n-th statement."""

    def __init__(self, real: Any, statements: int) -> None:
        self.real = real
        self.left = statements

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def _count(self, sql: str) -> None:
        if sql != "ROLLBACK":
            self.left -= 1
            if self.left == 0:
                raise apsw.FullError("injected")

    def execute(self, sql: str, *values: Any) -> Any:
        self._count(sql)
        return self.real.execute(sql, *values)

    def executemany(self, sql: str, values: Any) -> Any:
        self._count(sql)
        return self.real.executemany(sql, values)


class FailingOnServer(Failing):
    """The same, of a connection to a server."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("real", "left"):
            self.__dict__[name] = value
        else:
            setattr(self.real, name, value)

    def _count(self, sql: str) -> None:
        if sql != "ROLLBACK":
            self.left -= 1
            if self.left == 0:
                raise psycopg.errors.DiskFull("injected")

    def run_script(self, script: str) -> Any:
        self._count(script)
        return self.real.run_script(script)


def call_failing(db: SessionDB, mutator: Mutator, statement: int) -> None:
    """Call a method whose n-th statement finds the disk full."""
    database: Any = db._database
    if not db.is_on_server:
        real = database._writer
        database._writer = Failing(real, statement)
        try:
            call(db, mutator)
        finally:
            database._writer = real
        return
    with pytest.MonkeyPatch.context() as patch:
        run = database._run
        patch.setattr(
            database, "_run", lambda conn, *args: run(FailingOnServer(conn, statement), *args)
        )
        call(db, mutator)


@pytest.mark.parametrize("mutator", TABLE, ids=named)
def test_every_write_is_whole_or_nothing_wherever_it_fails(
    store: SessionDB, mutator: Mutator
) -> None:
    before = dump(store)
    statement = 0
    while True:
        statement += 1
        try:
            call_failing(store, mutator, statement)
        except StoreFullError:
            assert dump(store) == before, f"stopped at statement {statement}"
        else:
            break
    # A server is told BEGIN with the lock, and COMMIT with the mark.
    assert statement >= 4, "BEGIN, the work and COMMIT were all stopped once"
    assert dump(store) != before
