"""Keys, sources and entries: what is kept of a chat, and that it comes back as it was."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Platform
from gateway.session import SessionEntry, SessionSource, build_session_key

names = st.none() | st.text(max_size=12)
sources = st.builds(
    SessionSource,
    platform=st.sampled_from(list(Platform)),
    chat_id=st.text(max_size=12),
    chat_name=names,
    chat_type=st.sampled_from(["dm", "group", "channel", "thread"]),
    user_id=names,
    user_name=names,
    thread_id=names,
    user_id_alt=names,
    scope_id=names,
    is_bot=st.booleans(),
)


def source(chat_type: str = "dm", **more: Any) -> SessionSource:
    return SessionSource(Platform.TELEGRAM, chat_type=chat_type, **more)


@pytest.mark.parametrize(
    ("given_source", "key"),
    [
        (source(chat_id="42"), "agent:main:telegram:dm:42"),
        (source(chat_id="42", thread_id="7"), "agent:main:telegram:dm:42:7"),
        (source(user_id="u"), "agent:main:telegram:dm:u"),
        (source(user_id="u", thread_id="7"), "agent:main:telegram:dm:u:7"),
        (source(thread_id="7"), "agent:main:telegram:dm:7"),
        (source(), "agent:main:telegram:dm"),
        (source("group", chat_id="g", user_id="u"), "agent:main:telegram:group:g:u"),
        (source("group", chat_id="g", user_id_alt="a"), "agent:main:telegram:group:g:a"),
        (source("group", chat_id="g", thread_id="7", user_id="u"), "agent:main:telegram:group:g:7"),
        (source("channel", chat_id="c"), "agent:main:telegram:channel:c"),
        (source(chat_id="42", profile="work"), "agent:work:telegram:dm:42"),
        (source(chat_id="42", profile="default"), "agent:main:telegram:dm:42"),
    ],
)  # fmt: skip
def test_the_key_of_a_chat(given_source: SessionSource, key: str) -> None:
    assert build_session_key(given_source) == key


def test_groups_may_be_shared_and_threads_private() -> None:
    group = source("group", chat_id="g", user_id="u")
    thread = source("group", chat_id="g", thread_id="7", user_id="u")
    assert build_session_key(group, group_sessions_per_user=False).endswith(":group:g")
    assert build_session_key(thread, thread_sessions_per_user=True).endswith(":group:g:7:u")
    assert build_session_key(source(chat_id="1"), profile="p") == "agent:p:telegram:dm:1"


@given(sources)
def test_a_source_comes_back_as_it_was(one: SessionSource) -> None:
    kept = SessionSource.from_dict(one.to_dict())
    assert build_session_key(kept) == build_session_key(one)
    assert kept.owner == one.owner
    assert kept.to_dict() == one.to_dict()


@given(sources, st.booleans(), st.datetimes())
def test_an_entry_comes_back_as_it_was(origin: SessionSource, flag: bool, when: datetime) -> None:
    entry = SessionEntry(
        "key", "20260101_000000_abcdef01", when, when, platform=origin.platform, suspended=flag,
        origin=origin, model_override={"model": "m"} if flag else None, last_resume_marked_at=when,
    )  # fmt: skip
    assert SessionEntry.from_dict(entry.to_dict()).to_dict() == entry.to_dict()


def test_the_older_name_of_a_flag_is_understood() -> None:
    kept = {"session_key": "k", "session_id": "s", "memory_flushed": True}
    assert SessionEntry.from_dict(kept).expiry_finalized
    assert not SessionEntry.from_dict({**kept, "expiry_finalized": False}).expiry_finalized


@pytest.mark.parametrize("bad", ["../x", "a/b", "..", "", "a\\b", "C:x", ".hidden", "a\0b"])
def test_an_id_that_could_be_a_path_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="not a session id"):
        SessionEntry.from_dict({"session_key": "k", "session_id": bad})


def test_an_unknown_platform_does_not_cost_the_entry() -> None:
    kept = {
        "session_key": "k",
        "session_id": "s",
        "platform": "pigeon",
        "origin": {"platform": "p"},
    }
    entry = SessionEntry.from_dict(kept)
    assert (entry.platform, entry.origin) == (None, None)


def test_whose_history_it_is() -> None:
    assert source(chat_id="1", user_id="u").owner == "telegram:u"
    assert source(chat_id="1").owner is None
