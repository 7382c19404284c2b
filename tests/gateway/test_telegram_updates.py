"""Telegram's updates, read: who is meant, where it belongs, what came with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.telegram.updates import (
    ALLOWED_UPDATES,
    Incoming,
    MalformedUpdateError,
    Me,
    chat_of,
    read_update,
    update_id,
)

from .bot_api import BOT_ID, BOT_NAME, BotApi

ME = Me(BOT_ID, BOT_NAME)
API = BotApi()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["update_id", *ALLOWED_UPDATES, "message_id", "chat", "id", "type", "from", "text",
             "entities", "offset", "length", "photo", "document", "file_id", "date", "data",
             "reply_to_message", "message_thread_id", "is_topic_message", "sender_chat"]
        ),
        inner | st.sampled_from(["private", "group", "mention"]),
        max_size=6,
    ),
    max_leaves=25,
)  # fmt: skip


def read(text: str | None = None, *, require_mention: bool = True, **more: Any) -> Incoming | None:
    return read_update(API.message(text, **more), ME, require_mention=require_mention)


def group(text: str | None = None, **more: Any) -> Incoming | None:
    return read(text, chat_id=-100, chat_type="supergroup", **more)


@given(JSON)
def test_whatever_comes_is_read_or_refused(update: Any) -> None:
    try:
        found = read_update(update, ME)
    except MalformedUpdateError:
        found = None
    assert found is None or found.event.source.chat_id
    assert isinstance(update_id(update), int | None)
    assert isinstance(chat_of(update), str)


def test_a_direct_message() -> None:
    found = read("hello", message_id=7)
    assert found is not None
    event, source = found.event, found.event.source
    assert (event.text, event.message_id, event.is_edit) == ("hello", "7", False)
    assert (source.chat_type, source.chat_id, source.user_id) == ("dm", "42", "42")
    assert source.thread_id is None and source.user_name == "Ann"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("what a day", None),
        ("@hermes_bot what day is it?", "what day is it?"),
        ("😀 well @Hermes_Bot, tell me", "😀 well, tell me"),
        ("@hermes_bot_two hello", None),
        ("/status", "/status"),
        ("/status@hermes_bot now", "/status now"),
        ("/status@other_bot", None),
    ],
)
def test_in_groups_it_answers_when_it_is_meant(text: str, meant: str | None) -> None:
    found = group(text)
    assert (found.event.text if found else None) == meant


def test_without_require_mention_everything_is_meant_but_other_bots_commands() -> None:
    assert group("what a day", require_mention=False) is not None
    assert group("/status@other_bot", require_mention=False) is None


def test_a_reply_to_the_bot_is_meant() -> None:
    ours = {"message_id": 5, "from": {"id": BOT_ID, "is_bot": True}, "text": "I said"}
    found = group("why?", reply_to_message=ours)
    assert found is not None
    assert (found.event.text, found.event.reply_to) == ("why?", "5")


def test_what_somebody_else_said_is_quoted() -> None:
    theirs = {"message_id": 5, "from": {"id": 9, "first_name": "Bob"}, "text": "It rains"}
    found = group("@hermes_bot is that so?", reply_to_message=theirs)
    assert found is not None
    assert found.event.text == "[In reply to Bob]\n> It rains\n\nis that so?"


def test_a_mention_by_name_without_a_user_name() -> None:
    named = {"type": "text_mention", "offset": 0, "length": 6, "user": {"id": BOT_ID}}
    assert group("Hermes, hello", entities=[named]) is not None


def test_topics_are_threads_and_replies_are_not() -> None:
    topic = group("/status", message_thread_id=77, is_topic_message=True)
    reply = group("/status", message_thread_id=77)
    assert topic is not None and topic.event.source.thread_id == "77"
    assert reply is not None and reply.event.source.thread_id is None


def test_edits_and_channels() -> None:
    edit = read("hello again", kind="edited_message", edit_date=1_700_000_100)
    assert edit is not None and edit.event.is_edit
    assert edit.event.timestamp is not None
    assert edit.event.timestamp.timestamp() == 1_700_000_100
    post = read("/status", kind="channel_post", chat_id=-200, chat_type="channel")
    assert post is not None
    assert (post.event.source.chat_type, post.event.source.user_id) == ("channel", "-200")


def test_bots_and_the_bot_itself_are_not_answered() -> None:
    assert read("hi", **{"from": {"id": 8, "is_bot": True, "first_name": "B"}}) is None
    assert read("hi", **{"from": {"id": BOT_ID, "first_name": "B"}}) is None


def test_an_anonymous_administrator_is_the_group() -> None:
    found = group(
        "/status",
        **{"from": {"id": 1087968824, "is_bot": True}, "sender_chat": {"id": -100, "title": "F"}},
    )
    assert found is not None and found.event.source.user_id == "-100"


def test_service_messages_say_nothing() -> None:
    assert read(new_chat_members=[{"id": 5}]) is None
    assert read_update({"update_id": 1, "my_chat_member": {}}, ME) is None


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"photo": [{"file_id": "s", "width": 9, "height": 9}, {"file_id": "f", "width": 90,
          "height": 90, "file_size": 5}]}, "3-photo.jpg"),
        ({"document": {"file_id": "f", "file_name": "a b.pdf", "file_size": 5}}, "3-a_b.pdf"),
        ({"voice": {"file_id": "f", "file_size": 5}}, "3-voice.ogg"),
        ({"video_note": {"file_id": "f", "file_size": 5}}, "3-video_note.mp4"),
        ({"sticker": {"file_id": "f", "file_size": 5, "emoji": "😀"}}, "3-sticker.webp"),
    ],
)  # fmt: skip
def test_files(content: dict[str, Any], name: str) -> None:
    found = read(message_id=3, caption="look", **content)
    assert found is not None and found.event.text == "look"
    assert [(one.file_id, one.name, one.size) for one in found.attachments] == [("f", name, 5)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"location": {"latitude": 1.5, "longitude": 2}}, "[Location: 1.5, 2]"),
        ({"contact": {"phone_number": "+1", "first_name": "Bo"}}, "[Contact: Bo, +1]"),
        ({"poll": {"question": "Tea?", "options": [{"text": "yes"}]}}, "[Poll: Tea? (yes)]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲: 4]"),
    ],
)
def test_messages_without_text_are_described(content: dict[str, Any], text: str) -> None:
    found = read(**content)
    assert found is not None and found.event.text == text
