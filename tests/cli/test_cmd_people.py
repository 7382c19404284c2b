"""`hermes people`: who there is, two who are one, and what is found from the terminal then."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_state import SessionDB


@pytest.fixture
def chats(cli: Any) -> Any:
    """A home with a conversation of the terminal and those of two accounts."""
    with SessionDB(cli.home / "state.db") as db:
        for session, owner, source in (
            ("here", None, "cli"), ("t42", "telegram:42", "telegram"), ("s7", "slack:7", "slack"),
        ):  # fmt: skip
            db.create_session(session, source, user_id=owner)
            db.append_message(session, "user", f"about zebras in {session}")
        db.ensure_person("telegram:42", "Ada")
    return cli


def everybody(cli: Any) -> dict[str, list[str]]:
    return {one["name"]: one["doors"] for one in cli("people", "list", "--json").json}


def test_whoever_has_conversations_is_listed(chats: Any) -> None:
    assert everybody(chats) == {
        "operator": ["terminal:local"], "Ada": ["telegram:42"], "7": ["slack:7"],
    }  # fmt: skip
    shown = chats("people").out
    assert "Ada" in shown and "telegram:42" in shown
    assert "operator" in chats("people", "show", "me").out


def test_an_account_is_mine_and_is_not(chats: Any) -> None:
    said = chats("people", "merge", "telegram:42", "me").out
    assert "Ada is operator now" in said and "1 conversations" in said
    assert everybody(chats)["operator"] == ["terminal:local", "telegram:42"]
    assert "Merged with Ada (telegram:42)" in chats("people", "show", "operator").out
    found = chats("sessions", "search", "zebras", "--json").json
    assert {hit["session_id"] for hit in found} == {"here", "t42", "s7"}, (
        "the file is the operator's"
    )
    assert "of their own again" in chats("people", "unmerge", "ada").out
    assert everybody(chats)["Ada"] == ["telegram:42"]
    assert "no merge" in chats.fails("people", "unmerge", "ada")


def test_a_code_is_given_and_taken(chats: Any) -> None:
    assert "/link person " in chats("people", "code").out
    with SessionDB(chats.home / "state.db") as db:
        code = db.offer_person_code("telegram:42")
    assert code is not None
    assert "Ada is operator now" in chats("people", "join", code).out
    assert "wrong, used or too old" in chats.fails("people", "join", code)


def test_names_roles_limits_and_going(chats: Any) -> None:
    assert "guest" in chats("people", "add", "Eve", "--role", "guest").out
    assert "called 'eve' already" in chats.fails("people", "add", "eve")
    assert "Eve is called Eva now" in chats("people", "rename", "Eve", "Eva").out
    assert "Eva is a member now" in chats("people", "role", "Eva", "member").out
    assert "A role is one of" in chats.fails("people", "role", "Eva", "boss")
    assert "usd_per_day 2.5" in chats("people", "limit", "Eva", "usd_per_day", "2.5").out
    assert "Limits: usd_per_day 2.5" in chats("people", "show", "Eva").out
    for amount in ("-1", "much", "inf", "nan"):
        assert "no amount" in chats.fails("people", "limit", "--", "Eva", "usd_per_day", amount)
    assert "no amount" in chats.fails("people", "limit", "Eva", "tokens_per_day", "1.5")
    assert "A limit is one of" in chats.fails("people", "limit", "Eva", "beer", "2")
    assert "no limit" in chats("people", "limit", "Eva", "usd_per_day", "none").out
    assert "works for Eva in" in chats("people", "workspace", "Eva", str(chats.home)).out
    assert f"Workspace: {chats.home}" in chats("people", "show", "Eva").out
    assert "is no folder" in chats.fails("people", "workspace", "Eva", "work")
    assert "as everybody has" in chats("people", "workspace", "Eva", "default").out
    assert "Ada is forgotten" in chats("people", "remove", "Ada").out
    assert "nobody called 'nobody'" in chats.fails("people", "show", "nobody")
    assert "cannot be removed" in chats.fails("people", "remove", "me")


def test_pairing_joins_somebody_known(chats: Any) -> None:
    with SessionDB(chats.home / "state.db") as db:
        codes = [db.offer_pairing("matrix", f"@{name}:x", name) for name in ("me", "ada", "new")]
    for code, person, told in zip(
        codes, ("me", "Ada", "Zoe"), ("operator (operator)", "Ada (member)", "Zoe"), strict=True
    ):
        assert told in chats("pairing", "approve", code, "--as", person).out
    assert everybody(chats) == {
        "operator": ["terminal:local", "matrix:@me:x"],
        "Ada": ["telegram:42", "matrix:@ada:x"],
        "Zoe": ["matrix:@new:x"],
        "7": ["slack:7"],
    }
