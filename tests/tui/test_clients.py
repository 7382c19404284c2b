"""A client of the session protocol is a person: it sees what is theirs, and calls what it may."""

from __future__ import annotations

import json

import pytest
from method_calls import Gateway, Refusal, until
from people import Client, client, device

from agent.access import AccessTable
from hermes_state import EVERYONE, OPERATOR, SessionDB
from tui_gateway import clients, live, methods, rpc, server
from tui_gateway.permitted import NEEDS, why_not

methods.load_rest()


@pytest.fixture
def ada(gateway: Gateway) -> Client:
    return client(gateway, "telegram:1", "Ada")


@pytest.fixture
def bob(gateway: Gateway) -> Client:
    return client(gateway, "telegram:2", "Bob")


def test_what_a_person_begins_is_theirs(gateway: Gateway, ada: Client, bob: Client) -> None:
    sid = ada.open(title="Zebras")
    ada.ask(sid, "about zebras")
    key = gateway.key(sid)
    row = gateway.db.get_session(key)
    assert row is not None and row["user_id"] == "telegram:1"
    assert [one["id"] for one in ada.call("session.list")["sessions"]] == [key]
    assert bob.call("session.list") == {"sessions": []}
    assert bob.call("session.most_recent")["session_id"] is None
    assert bob.call("session.active_list") == {"sessions": []}
    assert len(ada.call("session.active_list")["sessions"]) == 1
    assert bob.call("session.search", query="zebras")["results"] == []
    assert len(ada.call("session.search", query="zebras")["results"]) > 0
    # The operator sees all of it.
    assert [one["id"] for one in gateway.call("session.list")["sessions"]] == [key]
    assert gateway.call("session.history", session_id=sid)["count"] == 2


def test_anothers_is_answered_as_what_does_not_exist(
    gateway: Gateway, ada: Client, bob: Client
) -> None:
    sid = ada.open(title="Zebras")
    ada.ask(sid, "about zebras")
    key = gateway.key(sid)
    for method, given in (
        ("session.activate", sid), ("session.history", sid), ("session.events.since", sid),
        ("session.resume", key), ("session.resume", key[:-2]), ("session.resume", "Zebras"),
        ("session.delete", key), ("session.close", sid),
    ):  # fmt: skip
        unknown = "nothing-" + "x" * (len(given) - 8) if len(given) > 8 else "x" * len(given)
        asked = bob.request(method, {"session_id": given})
        missing = bob.request(method, {"session_id": unknown})
        asked.pop("id"), missing.pop("id")
        assert json.dumps(asked).replace(given, "?") == json.dumps(missing).replace(unknown, "?")
    assert not gateway.live(sid).get("closing")
    assert ada.call("session.history", session_id=sid)["count"] == 2


def test_a_beginning_of_an_id_is_looked_for_among_one_s_own(
    gateway: Gateway, ada: Client, bob: Client
) -> None:
    for whose, name in (("telegram:1", "20260101_a1"), ("telegram:2", "20260101_b1")):
        gateway.db.create_session(name, "tui", user_id=whose)
        gateway.db.append_message(name, "user", "hello")
    assert ada.call("session.resume", session_id="20260101_")["session_key"] == "20260101_a1"
    assert bob.call("session.resume", session_id="20260101_")["session_key"] == "20260101_b1"
    assert gateway.refused("session.resume", session_id="20260101_").code == 4007


def test_methods_say_who_may_call_them(gateway: Gateway, ada: Client) -> None:
    reader = Client(gateway, device(gateway.db, "telegram:1", "read"))
    operator = Client(gateway, device(gateway.db, OPERATOR))
    operator_reader = Client(gateway, device(gateway.db, OPERATOR, "read"))
    may = {
        clients.READ: {"ada", "reader", "operator", "operator_reader"},
        clients.TALK: {"ada", "operator"},
        clients.OPERATE: {"operator"},
    }
    everybody = {
        "ada": ada, "reader": reader, "operator": operator, "operator_reader": operator_reader
    }  # fmt: skip
    for method in rpc.METHODS.values():
        for name, each in everybody.items():
            # Parameters that nothing takes: it fails behind the gate, or at it.
            error = each.request(method.name, [])["error"]
            assert (error["code"] == rpc.NOT_ALLOWED) is (name not in may[method.scope]), method
    sid = ada.open()
    assert reader.refused("prompt.submit", session_id=sid, text="hi").code == rpc.NOT_ALLOWED
    assert reader.call("session.activate", session_id=sid)["session_id"] == sid


def test_a_revoked_device_is_refused_and_disconnected(gateway: Gateway, ada: Client) -> None:
    sid = ada.open()
    assert gateway.db.view(EVERYONE).drop_device(ada.device.id)
    assert ada.refused("session.list").code == rpc.NOT_KNOWN
    assert ada.is_dropped
    assert live.watchers(gateway.live(sid)) == []


def test_a_device_that_another_process_revoked_hears_nothing_more(
    gateway: Gateway, ada: Client
) -> None:
    ada.open()
    with SessionDB(gateway.home / "state.db") as other:
        other.revoke_device(ada.device.id, "telegram:1")
    server.check_peers()
    assert ada.is_dropped


def test_persons_who_are_parted_do_not_watch_each_other_any_more(
    gateway: Gateway, ada: Client, bob: Client
) -> None:
    sid = ada.open()
    ada.ask(sid, "about zebras")
    merge = gateway.db.merge_persons("telegram:1", "telegram:2")
    bob.call("session.activate", session_id=sid)
    ada.ask(sid, "and yaks")
    until(lambda: bob.told("message.complete"))
    gateway.db.unmerge_persons(merge.id)
    server.check_peers()
    before = len(bob.lines)
    ada.ask(sid, "and geese")
    until(lambda: len(ada.told("message.complete")) == 3)
    bob.peer.drain(10)
    assert len(bob.lines) == before
    assert bob.refused("session.history", session_id=sid).code == rpc.SESSION_NOT_FOUND


def test_events_reach_only_those_who_may_watch(gateway: Gateway, ada: Client, bob: Client) -> None:
    sid = ada.open()
    with pytest.raises(Refusal):
        bob.call("session.activate", session_id=sid)
    with pytest.raises(Refusal):
        bob.call("prompt.submit", session_id=sid, text="mine")
    ada.ask(sid, "about zebras")
    until(lambda: ada.told("message.complete"))
    bob.peer.drain(10)
    assert [line["params"]["type"] for line in bob.lines] == ["gateway.ready"]


def test_two_persons_may_choose_the_same_id_for_a_message(
    gateway: Gateway, ada: Client, bob: Client
) -> None:
    for each in (ada, bob):
        sid = each.open()
        sent = each.call("prompt.submit", session_id=sid, text="hi", message_id="m1")
        assert sent["status"] == "streaming"
        each.settle(sid)
        again = each.call("prompt.submit", session_id=sid, text="hi", message_id="m1")
        assert again["status"] == "known"
        (start,) = each.told("message.start")
        assert start["payload"]["prompt_id"] == "m1"


def test_commands_are_those_of_the_person(gateway: Gateway, ada: Client, bob: Client) -> None:
    mine, theirs = ada.open(), bob.open()
    ada.ask(mine, "about zebras")
    key = gateway.key(mine)

    def run(line: str) -> str:
        try:
            return str(bob.call("slash.exec", session_id=theirs, command=line)["output"])
        except Refusal as error:
            return error.message

    assert "zebras" not in run("/sessions")
    assert run(f"/resume {key}").replace(key, "?") == run("/resume nothing").replace("nothing", "?")
    assert "zebras" not in run("/search zebras").replace("'zebras'", "")
    assert "for the operator" in run("/people list")
    assert "Bob (member)" in run("/whoami")


def test_files_of_this_machine_are_not_reached_by_their_path(gateway: Gateway, ada: Client) -> None:
    (gateway.home.parent / "secret.txt").write_text("secret")
    sid = ada.open()
    there, missing = str(gateway.home.parent / "secret.txt"), "/no/such/file"
    errors = [ada.refused("file.attach", session_id=sid, path=path) for path in (there, missing)]
    assert errors[0].message.replace(there, "?") == errors[1].message.replace(missing, "?")
    assert ada.refused("session.create", cwd=str(gateway.home.parent)).code == 4016


def test_a_guest_talks_and_calls_nothing_else(gateway: Gateway, bob: Client) -> None:
    gateway.db.set_person_role("telegram:2", "guest")
    guest = AccessTable().find("guest")
    refused = {name for name in NEEDS if why_not(name, guest)}
    assert {"process.list", "session.mode.set", "model.options", "rollback.restore"} <= refused
    for name in NEEDS:
        # Parameters that nothing takes: it fails behind the gate, or at it.
        error = bob.request(name, [])["error"]
        assert (error["code"] == rpc.NOT_ALLOWED) is (name in refused), name
    sid = bob.open()
    bob.ask(sid, "hello")
    agent = gateway.live(sid)["agent"]
    assert agent.permissions.role == "guest"
    assert (
        "is not for a guest" in bob.refused("slash.exec", session_id=sid, command="/bg x").message
    )
    approve = {"session_id": sid, "choice": "once"}
    assert bob.refused("approval.respond", **approve).code == rpc.NOT_ALLOWED
    assert bob.call("approval.respond", session_id=sid, choice="deny") == {"resolved": 0}
    assert bob.refused("approval.decide", request_id="x", choice="once").code == rpc.NOT_ALLOWED
    assert bob.call("approval.decide", request_id="x", choice="deny") == {"decided": False}
    gateway.db.set_person_role("telegram:2", "member")
    bob.call("process.list")
    assert bob.refused("session.mode.set", session_id=sid, mode="full").code == rpc.NOT_ALLOWED
    bob.ask(sid, "again")
    assert agent.permissions.role == "member"


def test_stored_conversations_of_others_do_not_exist(
    gateway: Gateway, ada: Client, bob: Client
) -> None:
    """The reads by a stored id answer another's exactly as one that there is not."""
    sid = ada.open()
    ada.ask(sid, "about zebras")
    key = gateway.key(sid)
    for name in ("conversation.messages", "conversation.family", "conversation.turns"):
        assert ada.call(name, id=key)
        refused, unknown = bob.refused(name, id=key), bob.refused(name, id="nobody")
        assert refused.code == unknown.code
        assert refused.message.replace(key, "") == unknown.message.replace("nobody", "")
    assert [one["id"] for one in ada.call("sessions.watch")["sessions"]] == [key]
    assert bob.call("sessions.watch") == {"sessions": []}
    assert bob.call("approval.inbox")["decided"] == []
    assert bob.call("insights.activity")["messages"] == {}
    (today,) = ada.call("insights.activity", by="source")["messages"]
    assert [one["id"] for one in ada.call("insights.day", day=today)["conversations"]] == [key]
    assert bob.call("insights.day", day=today)["conversations"] == []
    assert bob.refused("insights.day", day="no day").code == 4017
    assert [one["id"] for one in bob.call("device.list")["devices"]] == [bob.device.id]
    assert bob.refused("device.revoke", device_id=ada.device.id).code == 4016
    for name in ("state.overview", "backup.verify", "doctor.check", "doctor.mend"):
        assert bob.refused(name).code == rpc.NOT_ALLOWED
