"""Two writes at once about a row, a counter, a title, a binding: each told, taken or counted once.

The turns and their compression are in `test_interleavings`, which says how these tests work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hermes_state import LinkOffer, NoLink, SessionDB, UnknownSessionError

from .interleaving import Outcome, Pair, append, chat, live, nothing, one_of, say
from .raw import query, tamper

# Told once, taken once


def with_notes(db: SessionDB, name: str) -> None:
    chat(db, name)
    db.add_note(f"{name}-note", name, "a note")
    db.create_delegation(f"{name}-work", name, {"goals": ["g"]})
    db.finish_delegation(f"{name}-work", "completed", "the report")


def test_a_note_is_told_once(pair: Pair) -> None:
    def tell(db: SessionDB, name: str) -> Any:
        return db.deliver_results(name)

    def begin_unleased(db: SessionDB, name: str) -> Any:
        return db.begin_turn(name, say("next")[0], source="cli", facts={})

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert not first.is_error and not second.is_error
        said = live(db, name)
        assert said.count("a note") == 1
        assert sum("the report" in text for text in said) == 1

    pair.every_way(with_notes, tell, tell, check)
    pair.every_way(with_notes, tell, begin_unleased, check)


def prepare_answer(db: SessionDB, name: str) -> None:
    chat(db, name)
    new = db.create_approval(
        session_id=name, command="c", description="d", pattern_keys=["k"], ttl_seconds=1e6
    )
    db.decide_approval(new.id, new.token, "once")


def test_a_late_answer_is_taken_once(pair: Pair) -> None:
    def take(db: SessionDB, name: str) -> Any:
        return db.take_late_answer(
            session_id=name, command="c", description="d", pattern_keys=["k"]
        )

    pair.every_way(prepare_answer, take, take, lambda db, name, *both: one_of(*both) and None)


def test_of_two_late_answers_each_takes_one(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        prepare_answer(db, name)
        new = db.create_approval(
            session_id=name, command="c", description="d", pattern_keys=["k"], ttl_seconds=1e6
        )
        db.decide_approval(new.id, new.token, "deny")

    def take(db: SessionDB, name: str) -> Any:
        return db.take_late_answer(
            session_id=name, command="c", description="d", pattern_keys=["k"]
        )

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert {first.result["choice"], second.result["choice"]} == {"once", "deny"}

    pair.every_way(prepare, take, take, check)


def test_a_token_that_was_renewed_decides_nothing(pair: Pair) -> None:
    made: dict[str, Any] = {}

    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        made[name] = db.create_approval(
            session_id=name, command="c", description="d", pattern_keys=["k"], ttl_seconds=1e6
        )

    def decide(db: SessionDB, name: str) -> Any:
        return db.decide_approval(made[name].id, made[name].token, "once")

    def renew(db: SessionDB, name: str) -> Any:
        return db.renew_approval_token(made[name].id, None)

    pair.every_way(prepare, decide, renew, lambda db, name, *both: one_of(*both) and None)


def prepare_one_of_each(db: SessionDB, name: str) -> None:
    chat(db, name)
    db.request_handoff(name, "telegram")
    db.accept_message(f"{name}-in", name, "hello")
    db.add_delivery(f"{name}-out", "text", session_key="k", platform="local", chat_id="1")
    db.create_delegation(f"{name}-work", name, {"goals": ["g"]})


ONE_GETS: dict[str, Callable[[SessionDB, str], Any]] = {
    "claim_handoff": lambda db, name: db.claim_handoff(name),
    "begin_command": lambda db, name: db.begin_command(f"{name}-in"),
    "drop_message": lambda db, name: db.drop_message(f"{name}-in"),
    "accept_message": lambda db, name: db.accept_message(f"{name}-new", name, "hello"),
    "add_note": lambda db, name: db.add_note(f"{name}-new", name, "note"),
    "begin_delivery": lambda db, name: db.begin_delivery(f"{name}-out"),
    "finish_delegation": lambda db, name: db.finish_delegation(f"{name}-work", "failed", "r"),
    "lose_delegation": lambda db, name: db.lose_delegation(f"{name}-work"),
    "claim_review": lambda db, name: db.claim_review(name, 1) == 0,
    "create_bindings": lambda db, name: db.create_bindings({name: {"session_id": name}}),
    "offer_pairing": lambda db, name: db.offer_pairing("telegram", name),
    "set_auto_title_if_empty": lambda db, name: db.set_auto_title_if_empty(name, f"Title {name}"),
    "delete_session": lambda db, name: db.delete_session(name),
}


@pytest.mark.parametrize("what", ONE_GETS)
def test_one_of_two_gets_what_there_is_once(pair: Pair, what: str) -> None:
    get = ONE_GETS[what]
    pair.every_way(prepare_one_of_each, get, get, lambda db, name, *both: one_of(*both) and None)


def test_one_of_two_holds_the_compression_lock(pair: Pair) -> None:
    def by(holder: str) -> Callable[[SessionDB, str], bool]:
        return lambda db, name: db.try_acquire_compression_lock(name, holder)

    pair.every_way(nothing, by("a"), by("b"), lambda db, name, *both: one_of(*both) and None)


def test_one_of_two_prunes(pair: Pair) -> None:
    def forget(db: SessionDB, name: str) -> None:
        tamper(db, "DELETE FROM state_meta WHERE key = 'last_auto_prune'")

    def prune(db: SessionDB, name: str) -> bool:
        return not db.maybe_auto_prune_and_vacuum(vacuum=False)["skipped"]

    pair.every_way(forget, prune, prune, lambda db, name, *both: one_of(*both) and None)


# Counters and facts


def test_counters_are_right_when_messages_are_taken_back_meanwhile(pair: Pair) -> None:
    first: dict[str, int] = {}

    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        first[name] = db.append_message(name, "user", "three")

    def rewind(db: SessionDB, name: str) -> Any:
        return db.rewind_to_message(name, first[name])["rewound_count"]

    def check(db: SessionDB, name: str, rewound: Outcome, said: Outcome) -> None:
        # Whatever was there when it was gone back is taken back, and nothing that came later.
        session = db.get_session(name) or {}
        expected = ["one", "two"] if rewound.result == 2 else ["one", "two", "late"]
        assert live(db, name) == expected
        assert session["message_count"] == len(expected)

    pair.every_way(prepare, rewind, append, check)


def test_counters_are_right_when_messages_are_replaced_meanwhile(pair: Pair) -> None:
    def replace(db: SessionDB, name: str) -> None:
        db.replace_messages(name, say("new"))

    def check(db: SessionDB, name: str, replaced: Outcome, said: Outcome) -> None:
        assert not replaced.is_error and not said.is_error
        session = db.get_session(name) or {}
        assert live(db, name) in (["new"], ["new", "late"])
        assert session["message_count"] == len(live(db, name))

    pair.every_way(chat, replace, append, check)


def test_what_is_missing_is_appended_once(pair: Pair) -> None:
    def add(db: SessionDB, name: str) -> Any:
        return db.append_missing(name, say("one", "three"), source="cli", facts={})

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert not first.is_error and not second.is_error
        assert live(db, name) == ["one", "two", "three"]

    pair.every_way(chat, add, add, check)


def test_totals_and_models_agree_when_two_set_them(pair: Pair) -> None:
    def set_to(total: int, model: str) -> Callable[[SessionDB, str], None]:
        return lambda db, name: db.update_token_counts(name, total, model=model, absolute=True)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert not first.is_error and not second.is_error
        total = (db.get_session(name) or {})["input_tokens"]
        ((sum_of_models,),) = query(
            db, "SELECT SUM(input_tokens) FROM session_model_usage WHERE session_id = ?", (name,)
        )
        assert total == sum_of_models
        assert total in (10, 25)

    pair.every_way(chat, set_to(10, "a"), set_to(25, "b"), check)


def test_two_that_create_a_session_fill_one_row(pair: Pair) -> None:
    def create(**facts: Any) -> Callable[[SessionDB, str], Any]:
        return lambda db, name: db.create_session(name, "cli", **facts)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert (first.result, second.result) == (name, name)
        session = db.get_session(name) or {}
        assert (session["model"], session["cwd"], session["conversation_id"]) == ("m", "/w", name)

    pair.every_way(nothing, create(model="m"), create(cwd="/w"), check)


def test_two_sessions_do_not_become_each_others_parent(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        chat(db, f"{name}-other")

    def under(db: SessionDB, name: str) -> Any:
        return db.create_session(name, "cli", parent_session_id=f"{name}-other")

    def above(db: SessionDB, name: str) -> Any:
        return db.create_session(f"{name}-other", "cli", parent_session_id=name)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        one_of(first, second)
        (error,) = (outcome.error for outcome in (first, second) if outcome.is_error)
        assert isinstance(error, ValueError)

    pair.every_way(prepare, under, above, check)


def test_a_compressed_session_adopts_one_child(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        db.create_session(f"{name}-a", "cli", parent_session_id=name)

    def end(db: SessionDB, name: str) -> None:
        db.end_session(name, "compression")

    def create(db: SessionDB, name: str) -> Any:
        return db.create_session(f"{name}-b", "cli", parent_session_id=name)

    def check(db: SessionDB, name: str, ended: Outcome, created: Outcome) -> None:
        assert not ended.is_error and not created.is_error
        assert len(db.get_compression_lineage(name)) == 2

    pair.every_way(prepare, end, create, check)


def test_a_title_has_one_holder(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        chat(db, f"{name}-other")

    def take(db: SessionDB, name: str) -> Any:
        return db.set_session_title(name, f"Title {name}")

    def take_other(db: SessionDB, name: str) -> Any:
        return db.set_session_title(f"{name}-other", f"Title {name}")

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        one_of(first, second)
        (error,) = (outcome.error for outcome in (first, second) if outcome.is_error)
        assert isinstance(error, ValueError) and "already in use" in str(error)

    pair.every_way(prepare, take, take_other, check)


def test_continuations_of_two_conversations_get_two_titles(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        for one in (name, f"{name}-other"):
            chat(db, one)
        db.set_session_title(name, f"Plan {name}")
        db.set_session_title(f"{name}-other", f"Plan {name} #2")

    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-2", say("sum"))

    def rotate_other(db: SessionDB, name: str) -> Any:
        return db.rotate_session(f"{name}-other", f"{name}-other-2", say("sum"))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        titles = {first.result.title, second.result.title}
        assert titles == {f"Plan {name} #3", f"Plan {name} #4"}

    pair.every_way(prepare, rotate, rotate_other, check)


def test_a_branch_stays_one_when_two_replace_its_configuration(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        chat(db, name)
        db.branch_session(name, f"{name}-b")

    def set_to(key: str) -> Callable[[SessionDB, str], None]:
        return lambda db, name: db.update_session_meta(f"{name}-b", json.dumps({key: 1}))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        config = json.loads((db.get_session(f"{name}-b") or {})["model_config"])
        assert config.pop("_branched_from") == name
        assert config in ({"a": 1}, {"b": 1})

    pair.every_way(prepare, set_to("a"), set_to("b"), check)


def test_mode_and_folders_of_a_wall_are_both_kept(pair: Pair) -> None:
    def mode(db: SessionDB, name: str) -> None:
        db.set_wall_mode(name, "plan")

    def folders(db: SessionDB, name: str) -> None:
        db.set_wall_folders(name, ["/srv"])

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert db.get_wall_settings(name) == {"mode": "plan", "folders": ["/srv"]}

    pair.every_way(chat, mode, folders, check)


def test_a_message_goes_with_its_session_or_finds_none(pair: Pair) -> None:
    def delete(db: SessionDB, name: str) -> Any:
        return db.delete_session(name)

    def check(db: SessionDB, name: str, deleted: Outcome, said: Outcome) -> None:
        assert deleted.result is True
        assert said.result or isinstance(said.error, UnknownSessionError)
        assert db.message_count(name) == 0

    pair.every_way(chat, delete, append, check)


# Bindings


def bound(db: SessionDB, name: str) -> None:
    chat(db, name)
    db.create_bindings({f"{name}-key": {"session_id": name}, f"{name}-key2": {"session_id": name}})


def entry(db: SessionDB, name: str, key: str = "key") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(db.load_gateway_routing_entries()[f"{name}-{key}"])
    return found


def set_field(field: str, key: str = "key") -> Callable[[SessionDB, str], Any]:
    return lambda db, name: db.update_binding(f"{name}-{key}", {field: 1})


def test_two_that_change_an_entry_change_their_fields(pair: Pair) -> None:
    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert first.result and second.result and first.result != second.result
        assert entry(db, name) == {"session_id": name, "a": 1, "b": 1}

    pair.every_way(bound, set_field("a"), set_field("b"), check)


def test_one_of_two_changes_what_must_still_be_so(pair: Pair) -> None:
    def move(to: str) -> Callable[[SessionDB, str], Any]:
        return lambda db, name: db.update_binding(
            f"{name}-key", {"session_id": to}, expected={"session_id": name}
        )

    pair.every_way(bound, move("a"), move("b"), lambda db, name, *both: one_of(*both) and None)


@pytest.mark.parametrize("key", ["key", "key2"])
def test_bindings_follow_a_rotation_and_keep_what_others_set(pair: Pair, key: str) -> None:
    def rotate(db: SessionDB, name: str) -> Any:
        return db.rotate_session(name, f"{name}-2", say("sum"))

    def check(db: SessionDB, name: str, rotated: Outcome, changed: Outcome) -> None:
        assert rotated.result.created and changed.result
        assert entry(db, name, key) == {"session_id": f"{name}-2", "a": 1}
        assert entry(db, name)["session_id"] == f"{name}-2"

    pair.every_way(bound, rotate, set_field("a", key), check)


def test_one_of_two_binds_a_key_to_a_new_session(pair: Pair) -> None:
    def rebind(to: str) -> Callable[[SessionDB, str], Any]:
        return lambda db, name: db.rebind_key(
            f"{name}-key", {"session_id": f"{name}-{to}"}, instead_of=name,
            along=[f"{name}-key2"], end_reason="session_reset",
        )  # fmt: skip

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        one_of(first, second)
        assert entry(db, name)["session_id"] == entry(db, name, "key2")["session_id"]
        assert (db.get_session(name) or {})["end_reason"] == "session_reset"

    pair.every_way(bound, rebind("a"), rebind("b"), check)


def test_changes_of_bindings_are_numbered_in_the_order_of_their_commits(pair: Pair) -> None:
    name = pair.fresh()
    bound(pair.one, name)
    known = pair.one.list_binding_changes()
    assert known is not None
    held = pair.hold(lambda db: db.update_binding(f"{name}-key", {"a": 1}))
    other = pair.start(lambda db: db.update_binding(f"{name}-key2", {"b": 1}))
    # Nobody can see the other's number before the held one, and lose that for good.
    assert pair.one.list_binding_changes(known.version) is None
    assert held.let_go().result < other.outcome().result
    changes = pair.one.list_binding_changes(known.version)
    assert changes is not None and set(changes.changed) == {f"{name}-key", f"{name}-key2"}


# Who may talk


def test_every_wrong_code_is_counted(pair: Pair) -> None:
    def forget(db: SessionDB, name: str) -> None:
        tamper(db, "DELETE FROM state_meta WHERE key = 'pairing:wrong_tries'")

    def guess(db: SessionDB, name: str) -> Any:
        return db.approve_pairing("WRONG")

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert (first.result, second.result) == (None, None)
        assert (db.get_meta("pairing:wrong_tries") or "").partition(":")[2] == "2"

    pair.every_way(forget, guess, guess, check)


def test_every_wrong_link_code_is_counted(pair: Pair) -> None:
    def forget(db: SessionDB, name: str) -> None:
        tamper(db, "DELETE FROM state_meta WHERE key = 'link:wrong_tries'")

    def guess(db: SessionDB, name: str) -> Any:
        return db.take_link("WRONG", name)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert first.result is second.result is NoLink.WRONG
        tries = json.loads(db.get_meta("link:wrong_tries") or "")
        assert [who for _, who in tries] == [name, name]

    pair.every_way(forget, guess, guess, check)


def test_a_link_code_lets_one_of_two_in(pair: Pair) -> None:
    codes: dict[str, str] = {}

    def offer(db: SessionDB, name: str) -> None:
        codes[name] = db.offer_link("key", name, name) or ""

    def take(db: SessionDB, name: str) -> Any:
        return db.take_link(codes[name], f"{name}-taker")

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert {first.result, second.result} == {LinkOffer("key", name, name), NoLink.WRONG}

    pair.every_way(offer, take, take, check)
