"""What is another's takes the work of what does not exist: time does not tell of it either.

Every function of a view that takes the name of something is called with another person's and with
one that nobody has. The statements must be the same, one by one; so must the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_state import NOBODY, NewDevice, PersonView, SessionDB, UnknownSessionError

from .test_one_statement import Counting

pytestmark = pytest.mark.sqlite

NAMED = {
    "session": (), "resolve_id": (), "has": (), "tip": (), "tip_to_resume": (), "root": (),
    "lineage": (), "waiting": (), "branch": ("new",), "delete": (), "archive": (True,),
    "export": (), "move_to_folder": ("/", None), "messages": (), "conversation": (), "page": (),
    "family": (), "turns": (), "to_resume": (), "around_message": (1,), "rewind": (1,),
    "title": (), "set_title": ("Mine",), "delegations": (), "handoff": (),
    "hand_over": ("telegram",), "give_up_handoff": ("x",), "choose_mode": ("plan",), "goal": (),
    "begin_goal": ("t", "p"), "go_on_with_goal": ("p",), "divide_goal": ((),), "rest_goal": ("r",),
    "drop_goal": (),
    "asked": (), "pending_approvals": (), "approvals": (),
}  # fmt: skip
"""Functions that take a session's id, and what else they are given."""
OTHERS = {
    "find_title", "resolve_title", "next_title", "session_of_message", "approval", "answer_asked",
    "name_device", "drop_device", "revoke",
}  # fmt: skip
"""Those that take another name: tried below."""
WITHOUT = {"list_sessions", "search", "usage", "grants", "devices", "owner"}


class Noted:
    """A store that notes which of its functions are called."""

    def __init__(self, db: SessionDB, told: list[str]) -> None:
        self._db, self._told = db, told

    def __getattr__(self, name: str) -> Any:
        self._told.append(name)
        return getattr(self._db, name)


@pytest.fixture
def told(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ada has one of everything; what is done from then on is noted here."""
    for person in ("telegram:ada", "telegram:eve"):
        db.ensure_person(person)
    db.create_session("adas", "telegram", user_id="telegram:ada")
    db.set_session_title("adas", "Secret")
    db.append_message("adas", "user", "a secret")
    db.create_session("mine", "telegram", user_id="telegram:eve")
    db.append_message("mine", "user", "hello")
    db.grant_patterns(["rm"], "telegram:ada")
    told: list[str] = []
    read = db._database.read

    def counted(work: Callable[[Any], Any], *, one_statement: bool = False) -> Any:
        return read(lambda conn: work(Counting(conn, told)), one_statement=one_statement)

    monkeypatch.setattr(db._database, "read", counted)
    return told


def same(
    db: SessionDB, told: list[str], name: str, theirs: tuple[Any, ...], nobodys: tuple[Any, ...]
) -> None:
    for owner in ("telegram:eve", NOBODY):
        for within in (None, "mine"):
            outcomes = []
            for given in (theirs, nobodys):
                view = db.view(owner, within)
                view._db = Noted(db, told)  # type: ignore[assignment]
                told.clear()
                try:
                    answer = repr(getattr(view, name)(*given))
                except (ValueError, UnknownSessionError) as error:
                    answer = repr(error)
                outcomes.append(([*told], answer.replace(str(given[0]), "?")))
            assert outcomes[0] == outcomes[1], (name, owner, within)


def test_every_function_of_a_view_is_tried_here() -> None:
    public = {name for name in vars(PersonView) if not name.startswith("_")}
    assert public - NAMED.keys() - OTHERS <= WITHOUT, "what does it name?"


@pytest.mark.parametrize("name", NAMED)
def test_a_session_of_anothers(db: SessionDB, told: list[str], name: str) -> None:
    more = NAMED[name]
    same(db, told, name, ("adas", *more), ("none", *more))
    same(db, told, name, ("ada", *more), ("non", *more))  # the beginning of an id


def test_other_things_of_anothers(db: SessionDB, told: list[str]) -> None:
    asked = db.create_approval(
        session_id="adas", command="rm", description="", pattern_keys=["rm"], ttl_seconds=9e6,
        user_id="telegram:ada",
    ).id  # fmt: skip
    code = db.offer_device_code("telegram:ada")
    assert code is not None
    made = db.make_device(code, "phone", "here")
    assert isinstance(made, NewDevice)
    message = db.get_messages("adas")[-1]["id"]
    same(db, told, "approval", (asked,), ("none",))
    same(db, told, "answer_asked", (asked, "adas", "once", "x"), ("none", "none", "once", "x"))
    same(db, told, "answer_asked", (asked, "mine", "once", "x"), ("none", "mine", "once", "x"))
    same(db, told, "session_of_message", (message,), (10**6,))
    same(db, told, "find_title", ("Secret",), ("Nothing",))
    same(db, told, "resolve_title", ("Secret",), ("Nothing",))
    same(db, told, "next_title", ("Secret",), ("Nothing",))
    same(db, told, "name_device", (made.device.id, "x"), ("none", "x"))
    same(db, told, "drop_device", (made.device.id,), ("none",))
    grants = [{"pattern_key": key, "granted_by": "telegram:ada"} for key in ("rm", "none")]
    same(db, told, "revoke", (grants[0],), (grants[1],))
