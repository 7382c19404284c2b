"""What is sent with a message and not stored with it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agent.overlay import overlay_last_user


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


ANSWER = {"role": "assistant", "content": "ok"}
TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("a", "a\n\nX"),
        ("", "X"),
        (None, "X"),
        ([TEXT], [TEXT, {"type": "text", "text": "X"}]),
    ],
)
def test_it_is_appended_to_the_last_message_of_the_user(content: Any, sent: Any) -> None:
    messages = [user("first"), ANSWER, user(content), ANSWER]
    before = copy.deepcopy(messages)
    assert overlay_last_user(messages, "X") == [user("first"), ANSWER, user(sent), ANSWER]
    assert messages == before


def test_it_stays_with_the_question_when_the_user_adds_something() -> None:
    asked = user("question")
    messages = [asked, ANSWER, user("one more thing")]
    assert overlay_last_user(messages, "X", asked)[0]["content"] == "question\n\nX"
    gone = user("question")
    assert overlay_last_user(messages, "X", gone)[2]["content"] == "one more thing\n\nX"


def test_nothing_to_add_and_nobody_to_add_it_to() -> None:
    messages = [ANSWER]
    assert overlay_last_user(messages, "X") is messages
    assert overlay_last_user([user("a")], "") == [user("a")]
