"""A conversation is named, read, taken back, branched and compressed."""

from __future__ import annotations

import threading

from method_calls import Gateway

from agent.scripted import say


def test_title_waits_for_the_first_message(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.call("session.title", session_id=sid)["title"] == ""
    given = gateway.call("session.title", session_id=sid, title="  My   plan ")
    assert (given["title"], given["pending"]) == ("My plan", True)
    assert gateway.db.get_session(gateway.key(sid)) is None, "no row before the first message"
    gateway.ask(sid, "hello")
    told = gateway.call("session.title", session_id=sid)
    assert (told["title"], told["pending"]) == ("My plan", False)
    assert gateway.db.get_session_title(gateway.key(sid)) == "My plan"


def test_title_is_set_at_once_later_and_watchers_are_told(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "hello")
    given = gateway.call("session.title", session_id=sid, title="Now")
    assert (given["title"], given["pending"]) == ("Now", False)
    assert gateway.events(sid, "session.title")[-1]["payload"]["title"] == "Now"


def test_titles_that_cannot_be_had(gateway: Gateway) -> None:
    first, second = gateway.open(), gateway.open()
    gateway.ask(first, "hello")
    gateway.call("session.title", session_id=first, title="Taken")
    assert gateway.refused("session.title", session_id=first, title="  ").code == 4021
    assert gateway.refused("session.title", session_id=first, title="x" * 101).code == 4022
    # Also before the second one has a row.
    refusal = gateway.refused("session.title", session_id=second, title="Taken")
    assert refusal.code == 4022 and "Taken #2" in refusal.message
    gateway.ask(second, "hello")
    assert gateway.refused("session.title", session_id=second, title="Taken").code == 4022


def test_history_is_everything_or_the_last(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.call("session.history", session_id=sid) == {"count": 0, "messages": []}
    gateway.ask(sid, "one")
    gateway.ask(sid, "two")
    found = gateway.call("session.history", session_id=sid)
    assert [one["content"] for one in found["messages"]] == ["one", "ok", "two", "ok"]
    last = gateway.call("session.history", session_id=sid, limit=1)
    assert (last["count"], last["messages"][0]["role"]) == (1, "assistant")
    assert gateway.call("session.history", session_id=sid, limit=0)["messages"] == []


def test_undo_takes_back_and_offers_the_text(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "one")
    gateway.ask(sid, "two")
    undone = gateway.call("session.undo", session_id=sid)
    assert undone == {"removed": 2, "text": "two"}
    assert [one["content"] for one in gateway.live(sid)["history"]] == ["one", "ok"]
    gateway.ask(sid, "three")
    texts = [one["content"] for one in gateway.model.requests[-1].messages]
    assert "two" not in texts and "three" in texts, "the model does not see what was taken back"
    assert gateway.refused("session.undo", session_id=sid, count=3).code == 4018
    # What was taken back stays so when the session is closed.
    key = gateway.key(sid)
    gateway.call("session.close", session_id=sid)
    contents = [one["content"] for one in gateway.db.get_messages_as_conversation(key)]
    assert contents == ["one", "ok", "three", "ok"]


def test_nothing_is_taken_back_while_a_turn_runs(gateway: Gateway) -> None:
    go = threading.Event()
    gateway.script([say("a", lambda: go.wait(60), "b")])
    sid = gateway.open()
    gateway.call("prompt.submit", session_id=sid, text="one")
    try:
        for name in ("session.undo", "session.branch", "session.compress"):
            assert gateway.refused(name, session_id=sid).code == 4009
    finally:
        go.set()
    gateway.settle(sid)


def test_branch_is_a_session_of_its_own(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.refused("session.branch", session_id=sid).code == 4008
    gateway.ask(sid, "one")
    made = gateway.call("session.branch", session_id=sid, name="Other way")
    assert made["title"] == "Other way" and made["parent"] == gateway.key(sid)
    gateway.ask(made["session_id"], "two")
    here = gateway.call("session.history", session_id=sid)
    there = gateway.call("session.history", session_id=made["session_id"])
    assert (here["count"], there["count"]) == (2, 4)
    assert gateway.refused("session.branch", session_id=sid, name="Other way").code == 4022


def long_talk(gateway: Gateway, sid: str, turns: int = 30) -> None:
    for number in range(turns):
        gateway.ask(sid, f"Tell me about stone number {number}. " + "granite and slate " * 60)


def test_compress_moves_the_session_on_and_drops_a_waiting_title(gateway: Gateway) -> None:
    sid = gateway.open()
    assert gateway.refused("session.compress", session_id=sid).code == 4008
    long_talk(gateway, sid)
    before = gateway.key(sid)
    preview = gateway.call("session.compress", session_id=sid, dry_run=True)
    assert preview["status"] == "preview" and preview["preview"]["summarised"] > 0
    assert gateway.key(sid) == before
    gateway.live(sid)["pending_title"] = "Never set"
    gateway.script([say("A summary of stones.")] + [say("ok")] * 5)
    gateway.live(sid)["agent"].switch_model(gateway.model)
    done = gateway.call("session.compress", session_id=sid, focus_topic="slate")
    assert done["status"] == "compressed", done["reason"]
    assert done["after_messages"] < done["before_messages"]
    assert done["removed"] == done["before_messages"] - done["after_messages"]
    after = gateway.key(sid)
    assert after != before and gateway.live(sid)["session_key"] == after
    assert gateway.live(sid)["pending_title"] is None
    assert done["info"]["stored_session_id"] == after
    assert gateway.db.get_session(before)["end_reason"] == "compression"
    # Everything stays readable, and the conversation goes on.
    assert gateway.call("session.history", session_id=sid)["count"] >= 60
    gateway.ask(sid, "And now?")
    assert gateway.db.get_session(after)["message_count"] > done["after_messages"]


def test_prompts_that_come_during_a_compression_wait(gateway: Gateway) -> None:
    sid = gateway.open()
    long_talk(gateway, sid)
    asked, go = threading.Event(), threading.Event()

    def hold() -> None:
        asked.set()
        go.wait(60)

    gateway.script([say("A summary", hold, " of stones.")] + [say("after")] * 5)
    gateway.live(sid)["agent"].switch_model(gateway.model)
    gateway.live(sid)["busy_mode"] = "queue"
    results: list[dict[str, object]] = []
    worker = threading.Thread(
        target=lambda: results.append(gateway.call("session.compress", session_id=sid))
    )
    worker.start()
    assert asked.wait(60)
    sent = gateway.call("prompt.submit", session_id=sid, text="and then?")
    assert sent["status"] == "queued"
    go.set()
    worker.join(60)
    gateway.settle(sid)
    assert results[0]["status"] == "compressed"
    texts = [one["content"] for one in gateway.live(sid)["history"]]
    assert texts[-2:] == ["and then?", "after"]
