"""A live session's conversation is compressed: its clients learn the new id as soon as it is so."""

from __future__ import annotations

import itertools

from method_calls import Gateway

from agent.scripted import Call, calls, say

LONG = "granite and slate " * 400


def test_a_live_sessions_agent_tells_it(gateway: Gateway) -> None:
    sid = gateway.open()
    gateway.ask(sid, "Hello")
    assert gateway.live(sid)["agent"].holders.names == [
        "session context", "context engine", "memory providers", "event hooks", "live session",
    ]  # fmt: skip


def test_in_the_middle_of_a_turn_the_clients_are_told_each_time(gateway: Gateway) -> None:
    steps = [
        calls([Call("todo", {"todos": [{"id": "1", "content": LONG, "status": "pending"}]})])
        for _ in range(6)
    ]
    gateway.script([*steps, say("All done.")])
    gateway.model.context_length = 6000
    sid = gateway.open(title="Stones")
    session = gateway.live(sid)
    gateway.ask(sid, LONG)
    lineage = gateway.db.get_compression_lineage(gateway.key(sid))
    assert len(lineage) > 2, "compressed twice at least"
    assert session["session_key"] == gateway.key(sid) == lineage[-1]
    told = [
        (one["type"], (one.get("payload") or {}).get("stored_session_id"))
        for one in gateway.events(sid)
        if one["type"] in ("session.info", "message.complete")
    ]
    end = told.index(("message.complete", None))
    moves = [key for kind, key in told[:end] if kind == "session.info" and key != lineage[0]]
    assert moves == lineage[1:], "before the turn has ended"


def test_a_title_that_waits_outlives_a_compression_within_the_turn(gateway: Gateway) -> None:
    gateway.script(itertools.repeat(say("ok")))
    gateway.model.context_length = 6000
    sid = gateway.open()
    gateway.ask(sid, LONG)
    before = gateway.key(sid)
    gateway.live(sid)["pending_title"] = "Stones"
    gateway.ask(sid, LONG)
    gateway.ask(sid, LONG)
    assert gateway.key(sid) != before
    assert gateway.db.get_session_title(before) or gateway.db.get_session_title(gateway.key(sid))
