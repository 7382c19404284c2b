"""Session search: find in past conversations, read around a hit, never somebody else's."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from hermes_state import SessionDB
from tools.base import ToolContext, ToolError
from tools.past_sessions import session_search


@pytest.fixture
def past(context: ToolContext, db: SessionDB) -> ToolContext:
    for session, owner, topic in (("old", "ada", "zebra"), ("other", "bob", "zebra yak")):
        db.create_session(session, "cli", user_id=owner)
        db.set_session_title(session, f"About {topic} {session}")
        for number in range(12):
            db.append_message(session, "user", f"question {number}")
            db.append_message(session, "assistant", f"the {topic} number {number}")
    return dataclasses.replace(context, db=db, user_id="ada", owner="ada")


def search(context: ToolContext, **arguments: Any) -> str:
    return str(session_search.run(context, **arguments))


def test_find_then_read_around(past: ToolContext) -> None:
    found = search(past, query='"zebra number 6"')
    match = re.search(r"session_id=(\S+) around_message_id=(\d+)", found)
    assert match and match[1] == "old"
    text = search(past, session_id=match[1], around_message_id=int(match[2]), window=2)
    assert f"→ [{match[2]}] assistant: the zebra number 6" in text
    assert "question 6" in text and "question 7" in text
    assert "The session began:" in text and "The session ended:" in text
    assert "question 0" in text and "zebra number 11" in text


def test_one_hit_per_conversation_unless_one_is_chosen(past: ToolContext) -> None:
    assert search(past, query="zebra number").count("session_id=") == 1
    assert search(past, query="number", session_id="old", limit=3).count("session_id=") == 3


def test_nothing_of_anybody_else(past: ToolContext) -> None:
    assert "Nothing was found" in search(past, query="yak")
    with pytest.raises(ToolError, match="There is no session 'other'"):
        search(past, session_id="other", around_message_id=30)
    with pytest.raises(ToolError, match="There is no session 'other'"):
        search(past, query="zebra", session_id="other")
    assert "other" not in search(past)


def test_recent_conversations(past: ToolContext) -> None:
    assert "About zebra old (session_id=old)" in search(past)
    inside = dataclasses.replace(past, session_id="old")
    assert search(inside) == "There are no other conversations yet."


def test_what_is_missing_is_said(past: ToolContext, context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no session store"):
        search(context, query="x")
    with pytest.raises(ToolError, match="needs the session_id"):
        search(past, around_message_id=1)
    with pytest.raises(ToolError, match="has no message"):
        search(past, session_id="old", around_message_id=99999)


def test_what_was_compressed_away_is_found(past: ToolContext) -> None:
    assert past.db is not None
    past.db.rotate_session("old", "new", [{"role": "user", "content": "summary"}])
    found = search(past, query='"zebra number 6"', session_id="new")
    assert "session_id=old" in found


def test_a_pointer_of_the_record_needs_no_session(past: ToolContext) -> None:
    """`#n` in a compressed conversation is read from wherever that message stands."""
    assert past.db is not None
    inside = dataclasses.replace(past, session_id="old")
    sixth = past.db.get_messages("old")[13]
    past.db.rotate_session("old", "new", [{"role": "user", "content": "summary"}])
    past.db.archive_and_compact("new", [{"role": "user", "content": "shorter"}])
    for session in ("old", "new"):  # an agent that has not noticed yet, and one that has
        inside = dataclasses.replace(past, session_id=session)
        assert "zebra number 6" in search(inside, around_message_id=sixth["id"], window=1)
        named = search(inside, session_id="new", around_message_id=sixth["id"], window=1)
        assert "→" in named and "zebra number 6" in named
    archived = past.db.get_messages("new", include_inactive=True)[0]
    assert "summary" in search(inside, around_message_id=archived["id"])
    assert "shorter" in search(inside, around_message_id=archived["id"] + 1)


def test_a_pointer_does_not_lead_to_anybody_else(past: ToolContext) -> None:
    assert past.db is not None
    foreign = past.db.get_messages("other")[0]["id"]
    inside = dataclasses.replace(past, session_id="old")
    with pytest.raises(ToolError, match="needs the session_id"):
        search(inside, around_message_id=foreign)
    with pytest.raises(ToolError, match="has no message"):
        search(inside, session_id="old", around_message_id=foreign)
    stranger = dataclasses.replace(past, session_id="other")
    with pytest.raises(ToolError, match="There is no session 'other'"):
        search(stranger, around_message_id=foreign)
