"""Persons and doors: who somebody is, two who turn out to be one, owners of older stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_state import (
    EVERYONE,
    LOCAL_DOOR,
    NOBODY,
    OPERATOR,
    Limit,
    ModelCall,
    NoLink,
    PersonError,
    SessionDB,
)


def said(db: SessionDB, session_id: str, owner: str | None, text: str, **facts: Any) -> str:
    """A conversation of somebody's in which something was said."""
    db.create_session(session_id, facts.pop("source", "telegram"), user_id=owner, **facts)
    db.append_message(session_id, "user", text)
    return session_id


def seen(db: SessionDB, owner: Any, query: str = "apples") -> tuple[set[str], set[str]]:
    """What somebody finds: in their list, and by searching."""
    view = db.view(owner)
    listed = {session["id"] for session in view.list_sessions(limit=-1)}
    return listed, {hit["session_id"] for hit in view.search(query, limit=50)}


def test_the_operator_is_there_without_being_set_up(db: SessionDB) -> None:
    operator = db.find_person(LOCAL_DOOR)
    assert operator is not None and operator.id == OPERATOR and operator.is_operator
    (listed,) = db.list_persons()
    assert (listed["name"], listed["doors"]) == (OPERATOR, [LOCAL_DOOR])
    assert db.resolve_person("Operator") == operator
    said(db, "here", None, "apples", source="cli")
    assert seen(db, OPERATOR) == ({"here"}, {"here"})
    assert db.list_persons()[0]["conversations"] == 1


def test_whoever_comes_by_a_new_door_is_a_new_person(db: SessionDB, db_path: Path) -> None:
    assert db.find_person("telegram:42") is None
    ada = db.ensure_person("telegram:42", "Ada")
    assert (ada.id, ada.name, ada.role) == ("telegram:42", "Ada", "member")
    with SessionDB(db_path) as other:
        assert other.find_person("telegram:42") == ada == other.ensure_person("telegram:42", "X")
        assert other.ensure_person("slack:42", "ada").name == "ada 2", "names are told apart"
    assert db.resolve_person("ADA") == db.resolve_person("telegram:42") == ada
    assert db.resolve_person("Bob") is None is db.resolve_person("telegram:7")


@pytest.mark.parametrize("door", ["", "telegram", "telegram:", ":42"])
def test_what_is_no_door_is_refused(db: SessionDB, door: str) -> None:
    with pytest.raises(PersonError, match="no door"):
        db.ensure_person(door)


def test_names_roles_and_limits_are_kept(db: SessionDB) -> None:
    ada = db.add_person("  Ada\nLovelace ")
    assert ada.name == "Ada Lovelace" and db.list_doors(ada.id) == []
    assert db.set_person_role(ada.id, "guest").role == "guest"
    assert db.set_person_limit(ada.id, "usd_per_day", 2.5).limits == {"usd_per_day": 2.5}
    assert db.set_person_limit(ada.id, "usd_per_day", None).limits == {}
    assert db.rename_person(ada.id, "ada lovelace").name == "ada lovelace"
    db.set_person_limit(OPERATOR, "tokens_per_day", 7)
    operator = db.get_person(OPERATOR)
    assert operator and operator.limits == {"tokens_per_day": 7} and operator.is_operator


@pytest.mark.parametrize(
    "refused",
    [
        lambda db: db.add_person("ADA"),
        lambda db: db.add_person("operator"),
        lambda db: db.add_person(" \n"),
        lambda db: db.set_person_role("telegram:42", "boss"),
        lambda db: db.set_person_role(OPERATOR, "guest"),
        lambda db: db.set_person_role("nobody", "guest"),
        lambda db: db.rename_person("telegram:42", "Bob"),
        lambda db: db.remove_person(OPERATOR),
        lambda db: db.merge_persons(OPERATOR, "telegram:42"),
        lambda db: db.merge_persons("telegram:42", "telegram:42"),
        lambda db: db.unmerge_persons("none"),
    ],
)
def test_what_cannot_be_done_is_refused(
    db: SessionDB, refused: Callable[[SessionDB], object]
) -> None:
    db.ensure_person("telegram:42", "Ada")
    db.add_person("Bob")
    before = db.list_persons()
    with pytest.raises(PersonError):
        refused(db)
    assert db.list_persons() == before


def test_a_removed_person_is_let_in_no_longer_and_nobody_gets_their_things(db: SessionDB) -> None:
    code = db.offer_pairing("telegram", "42", "Ada")
    assert code and db.approve_pairing(code)
    ada = db.ensure_person("telegram:42")
    said(db, "hers", ada.id, "apples")
    assert db.remove_person(ada.id) == ["telegram:42"]
    assert not db.is_paired("telegram", "42") and db.get_person(ada.id) is None
    assert seen(db, OPERATOR) == (set(), set()) and seen(db, EVERYONE)[0] == {"hers"}
    again = db.ensure_person("telegram:42", "Ada")
    assert seen(db, again.id) == ({"hers"}, {"hers"})


def test_one_person_finds_what_was_said_by_each_of_their_doors(db: SessionDB) -> None:
    ada, key = db.ensure_person("telegram:42", "Ada"), db.ensure_person("api_server:work")
    bob = db.ensure_person("slack:42", "Bob")
    for person, name in ((ada, "a"), (key, "k"), (bob, "b")):
        said(db, name, person.id, f"apples of {name}")
        db.set_session_title(name, "Plan")
    merge = db.merge_persons(key.id, ada.id)
    assert (merge.merged, merge.doors, merge.conversations) == ("work", ["api_server:work"], 1)
    assert db.find_person("api_server:work") == ada and db.get_person(key.id) is None
    assert seen(db, ada.id) == ({"a", "k"}, {"a", "k"}) and seen(db, key.id) == (set(), set())
    assert seen(db, bob.id) == ({"b"}, {"b"})
    titles = {name: db.get_session_title(name) for name in "akb"}
    assert titles == {"a": "Plan", "k": "Plan #2", "b": "Plan"}


def test_titles_are_numbered_so_that_neither_has_one_twice(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:42", "Ada"), db.ensure_person("slack:7", "Bob")
    for owner, name, title in (
        (ada, "a", "Plan"), (bob, "b1", "Plan"), (bob, "b2", "Plan #2"), (bob, "b3", "Plan #3"),
    ):  # fmt: skip
        said(db, name, owner.id, "apples")
        db.set_session_title(name, title)
    db.merge_persons(bob.id, ada.id)
    titles = {name: db.get_session_title(name) for name in ("a", "b1", "b2", "b3")}
    assert titles == {"a": "Plan", "b1": "Plan #4", "b2": "Plan #2", "b3": "Plan #3"}


def test_what_is_joined_to_the_operator_is_theirs(db: SessionDB) -> None:
    said(db, "here", None, "apples", source="cli")
    ada = db.ensure_person("telegram:42", "Ada")
    said(db, "there", ada.id, "apples")
    db.grant_patterns(["rm"], ada.id)
    db.merge_persons(ada.id, OPERATOR)
    assert seen(db, OPERATOR) == ({"here", "there"}, {"here", "there"})
    session = db.get_session("there")
    assert session and session["user_id"] is None
    assert db.list_patterns_granted_by(OPERATOR) == ["rm"] == db.list_patterns_granted_by(None)
    assert db.list_doors(OPERATOR) == [LOCAL_DOOR, "telegram:42"]
    # A turn that had begun before does not take it back, and what it begins is the operator's.
    db.create_session("there", "telegram", user_id=ada.id)
    said(db, "begun", ada.id, "apples")
    db.grant_patterns(["late"], ada.id)
    assert seen(db, ada.id) == (set(), set()) and "begun" in seen(db, OPERATOR)[1]
    assert db.list_patterns_granted_by(OPERATOR) == ["late", "rm"]


def test_a_merge_is_undone(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:42", "Ada"), db.ensure_person("slack:7", "Bob")
    db.set_person_limit(bob.id, "usd_per_day", 1)
    said(db, "a", ada.id, "apples")
    said(db, "b", bob.id, "apples")
    db.grant_patterns(["rm", "both"], bob.id)
    db.grant_patterns(["both", "own"], ada.id)
    db.create_approval(
        session_id="b", command="rm x", description="", pattern_keys=["rm"], user_id=bob.id
    )
    merge = db.merge_persons(bob.id, ada.id)
    said(db, "after", ada.id, "apples")
    db.append_message("b", "user", "more apples")
    assert len(db.view(ada.id).pending_approvals()) == 1
    assert [one.id for one in db.list_merges(ada.id)] == [merge.id] == [db.find_merge("slack:7").id]  # type: ignore[union-attr]
    back = db.unmerge_persons(merge.id)
    assert (back.id, back.name, back.limits) == (bob.id, "Bob", {"usd_per_day": 1})
    assert seen(db, ada.id)[0] == {"a", "after"} and seen(db, bob.id) == ({"b"}, {"b"})
    assert db.list_patterns_granted_by(bob.id) == ["rm"]
    assert db.list_patterns_granted_by(ada.id) == ["both", "own"]
    assert len(db.view(bob.id).pending_approvals()) == 1
    assert db.list_merges() == [] and db.find_person("slack:7") == back
    with pytest.raises(PersonError, match="undone already"):
        db.unmerge_persons(merge.id)


def test_what_was_spent_outside_of_conversations_goes_back_too(db: SessionDB) -> None:
    """Or a limit would be anew for whoever lets themselves be merged and parted."""
    for door in ("telegram:1", "telegram:2"):
        db.ensure_person(door)
        db.create_session(f"of {door}", "telegram", user_id=door)
        call = ModelCall(task="turn", model="m", cost_usd=2.0)
        db.settle_call(f"of {door}", call)
        db.settle_call(None, call._replace(cost_usd=3.0), door)
    db.delete_conversation("of telegram:1")

    def spent(person: str) -> float:
        (use,) = db.list_limit_uses([Limit("person", person, "dollars", "month", 1)])
        return use.spent

    merge = db.merge_persons("telegram:1", "telegram:2")
    assert (spent("telegram:1"), spent("telegram:2")) == (0, 10)
    db.unmerge_persons(merge.id)
    assert (spent("telegram:1"), spent("telegram:2")) == (5, 5)


def test_merges_are_undone_from_the_last_on(db: SessionDB) -> None:
    people = [db.ensure_person(f"telegram:{number}", f"P{number}") for number in range(3)]
    for person in people:
        said(db, person.name, person.id, "apples")
    first = db.merge_persons(people[0].id, people[1].id)
    second = db.merge_persons(people[1].id, people[2].id)
    assert [merge.id for merge in db.list_merges()] == [second.id]
    with pytest.raises(PersonError, match="later merge first"):
        db.unmerge_persons(first.id)
    db.unmerge_persons(second.id)
    db.unmerge_persons(first.id)
    for person in people:
        assert seen(db, person.id) == ({person.name}, {person.name})


def test_a_code_makes_one_person_of_two_once(db: SessionDB, db_path: Path) -> None:
    ada, bob = db.ensure_person("telegram:42", "Ada"), db.ensure_person("slack:7", "Bob")
    code = db.offer_person_code(ada.id)
    assert code
    assert db.take_link(code, bob.id) is NoLink.WRONG, "it is not for a conversation"
    link = db.offer_link("key", "s", ada.id)
    assert link and db.join_by_code(link, bob.id) is NoLink.WRONG, "nor the other way round"
    with SessionDB(db_path) as other:
        merge = other.join_by_code(f" {code.lower()} ", bob.id)
    assert merge is not None and not isinstance(merge, NoLink)
    assert merge.person == ada and db.list_doors(ada.id) == ["telegram:42", "slack:7"]
    assert db.join_by_code(code, "telegram:1") is NoLink.WRONG


def test_the_operator_stays_whoever_gave_the_code(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:42", "Ada"), db.ensure_person("slack:7", "Bob")
    for giver, taker in ((ada.id, OPERATOR), (OPERATOR, bob.id)):
        code = db.offer_person_code(giver)
        assert code
        merge = db.join_by_code(code, taker)
        assert merge is not None and not isinstance(merge, NoLink) and merge.person.id == OPERATOR
    code = db.offer_person_code(OPERATOR)
    assert code and db.join_by_code(code, OPERATOR) is None, "they are one already"
    assert db.list_doors(OPERATOR) == [LOCAL_DOOR, "telegram:42", "slack:7"]


def test_a_door_is_given_to_a_known_person(db: SessionDB) -> None:
    ada = db.add_person("Ada")
    assert db.join_door("telegram:42", ada.id, "ada_l") is None
    assert db.find_person("telegram:42") == ada
    other = db.ensure_person("slack:7", "Bob")
    said(db, "b", other.id, "apples")
    merge = db.join_door("slack:7", ada.id)
    assert merge is not None and seen(db, ada.id)[0] == {"b"}
    assert db.join_door("slack:7", ada.id) is None


def test_nobody_sees_nothing_and_has_no_titles(db: SessionDB) -> None:
    said(db, "here", None, "apples", source="cli")
    db.set_session_title("here", "Plan")
    view = db.view(NOBODY)
    assert seen(db, NOBODY) == (set(), set()) and view.session("here") is None
    assert view.find_title("Plan") is None is view.export("here")
    assert view.usage(0)["conversations"] == 0 and view.grants() == []


def test_another_persons_things_are_as_if_they_were_not_there(db: SessionDB) -> None:
    ada, bob = db.ensure_person("telegram:42", "Ada"), db.ensure_person("slack:7", "Bob")
    said(db, "b", bob.id, "apples")
    db.set_session_title("b", "Plan")
    view = db.view(ada.id)
    assert view.session("b") == view.session("none") is None
    assert view.find_title("Plan") is None is view.resolve_title("Plan")
    assert view.next_title("Plan") == "Plan", "and whether others have it is not told"
    assert view.export("b") is None
    assert db.view(bob.id).export("b") is not None


def test_owners_of_an_older_store_become_persons(db: SessionDB) -> None:
    """What an earlier version, or the public system, had written."""
    db.create_session("cli", "cli")
    db.create_session("ours", "telegram", user_id="telegram:42", chat_type="dm", display_name="Ada")
    db.create_session("theirs", "telegram", user_id="7", chat_type="dm", display_name="Bob")
    db.create_session("slack", "slack", user_id="7")
    db.create_session("matrix", "matrix", user_id="@eve:example.org")
    db.create_session("sub", "tool", user_id="telegram:42")
    db.create_session("tui", "tui", user_id="carol")
    db.grant_patterns(["rm"], "irc:dan")
    for _ in range(2):
        db.adopt_owners()
    doors = {person["id"]: person["doors"] for person in db.list_persons()}
    assert doors == {
        OPERATOR: [LOCAL_DOOR],
        "carol": [],
        **{
            owner: [owner]
            for owner in (
                "telegram:42", "telegram:7", "slack:7", "matrix:@eve:example.org", "irc:dan",
            )
        },
    }  # fmt: skip
    owned = {
        session["id"]: session["user_id"]
        for session in db.list_sessions_rich(limit=-1, include_children=True)
    }
    assert owned == {
        "cli": None, "ours": "telegram:42", "theirs": "telegram:7", "slack": "slack:7",
        "matrix": "matrix:@eve:example.org", "sub": "telegram:42", "tui": "carol",
    }  # fmt: skip
    names = {person["id"]: person["name"] for person in db.list_persons()}
    assert names["telegram:42"] == "Ada" and names["telegram:7"] == "Bob"


def test_rows_that_were_imported_are_their_owners_when_they_come(db: SessionDB) -> None:
    said(db, "old", "7", "apples")
    person = db.ensure_person("telegram:7")
    assert seen(db, person.id) == ({"old"}, {"old"})


def test_nobody_has_a_wider_limit_by_being_merged(db: SessionDB) -> None:
    for door in ("telegram:1", "telegram:2"):
        db.ensure_person(door)
    db.set_person_limit("telegram:1", "usd_per_day", 1)
    db.set_person_limit("telegram:1", "tokens_per_day", 100)
    db.set_person_limit("telegram:2", "tokens_per_day", 50)

    def limits(person_id: str) -> dict[str, Any]:
        person = db.get_person(person_id)
        assert person is not None
        return person.limits

    merge = db.merge_persons("telegram:1", "telegram:2")
    assert limits("telegram:2") == {"tokens_per_day": 50, "usd_per_day": 1}
    db.unmerge_persons(merge.id)
    assert limits("telegram:2") == {"tokens_per_day": 50}
    assert limits("telegram:1") == {"usd_per_day": 1, "tokens_per_day": 100}
    again = db.merge_persons("telegram:1", "telegram:2")
    db.set_person_limit("telegram:2", "usd_per_day", 3)
    db.unmerge_persons(again.id)
    assert limits("telegram:2")["usd_per_day"] == 3, "it was set since"
    db.merge_persons("telegram:1", OPERATOR)
    assert limits(OPERATOR) == {}
