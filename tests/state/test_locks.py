"""The table of locks: every write is in it once, and says which conversation it is about."""

from __future__ import annotations

from collections import Counter

import pytest

from hermes_state import SessionDB, locks
from hermes_state.turns import Lease

pytestmark = pytest.mark.both_databases


def writing_methods() -> set[str]:
    return {
        name
        for name, member in vars(SessionDB).items()
        if getattr(getattr(member, "__code__", None), "co_qualname", "")
        == "_writes.<locals>.method"
    }


def test_every_write_has_one_lock() -> None:
    classes = (
        set(locks.CONVERSATION), set(locks.ROWS), set(locks.NAMED), set(locks.WHOLE_STORE),
    )  # fmt: skip
    named = Counter(name for one in classes for name in one)
    assert {name for name, times in named.items() if times > 1} == set()
    assert set(named) == writing_methods()
    assert writing_methods() >= locks.QUIET


@pytest.mark.parametrize("name", sorted(locks.CONVERSATION))
def test_a_write_about_a_conversation_says_which(name: str) -> None:
    scope = locks.scope_of(getattr(SessionDB, name), name)
    wanted = locks.CONVERSATION[name]
    if wanted == "lease":
        assert scope(lease=Lease("c", 1, "me")) == scope(Lease("c", 1, "me")) == "c"
    else:
        assert scope("c", "x", "y") == scope(**{wanted: "c"}) == "c"
    is_conversation = wanted != "session_id"
    assert (
        isinstance(scope(**{wanted: Lease("c", 1, "me")}), locks.ConversationId) == is_conversation
    )
    assert scope(**{wanted: 5}) is locks.STORE  # nothing is known of it; it will be refused


def test_what_moves_sessions_is_alone_in_the_store() -> None:
    create = locks.scope_of(SessionDB.create_session, "create_session")
    assert create("s", "cli", parent_session_id="p") is locks.STORE
    begin = locks.scope_of(SessionDB.begin_turn, "begin_turn")
    assert begin("s", {}, source="cli", facts={"parent_session_id": "p"}) is locks.STORE
    end = locks.scope_of(SessionDB.end_session, "end_session")
    assert end("s", "compression") is locks.STORE
    assert end("s", end_reason="compression") is locks.STORE
    assert end("s", "cli_close") == "s"
