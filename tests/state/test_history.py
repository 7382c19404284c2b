"""Repairing a history: always valid, nothing said is lost, nothing is touched without need."""

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB
from hermes_state.codec import plain_text
from hermes_state.history import OUTCOME_UNKNOWN, repair_message_sequence

from .. import seeds

Message = dict[str, Any]


def call(call_id: str, name: str = "ls") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def user(content: Any = "question", **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def assistant(content: Any = "answer", *call_ids: str, **more: Any) -> Message:
    calls = {"tool_calls": [call(one) for one in call_ids]} if call_ids else {}
    return {"role": "assistant", "content": content, **calls, **more}


def result(call_id: str | None, content: str = "done") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def problem_with(messages: list[Message]) -> str | None:
    """Why a model provider would refuse this history, or None."""
    expected: list[str] = []  # results that must come next
    previous: Message | None = None
    for position, message in enumerate(messages):
        role = message.get("role")
        if expected:
            if role != "tool" or str(message.get("tool_call_id")) != expected.pop(0):
                return f"message {position} is not the result that must be here"
        elif role == "tool":
            return f"message {position} answers no call"
        elif role not in ("user", "assistant"):
            return f"message {position} has the role {role!r}"
        elif previous is None and role != "user":
            return "the first message is not the user's"
        elif previous is not None and previous["role"] == role:
            return f"message {position} repeats the role {role}"
        if role == "assistant":
            calls = message.get("tool_calls") or []
            if not isinstance(calls, list) or not all(
                isinstance(one, dict) and one.get("id") for one in calls
            ):
                return f"message {position} has a call that cannot be answered"
            expected = [str(one["id"]) for one in calls]
            if len(set(expected)) != len(expected):
                return f"message {position} has a call twice"
            content = message.get("content")
            if not calls and (not content or (isinstance(content, str) and content.isspace())):
                return f"message {position} says nothing"
        previous = message
    return "calls without a result at the end" if expected else None


def test_the_predicate_knows_good_from_bad() -> None:
    good = [user(), assistant("", "a", "b"), result("a"), result("b"), assistant("x"), user()]
    assert problem_with([]) is None
    assert problem_with(good) is None
    for position in range(4):
        assert problem_with(good[:position] + good[position + 1 :])
    assert problem_with([user(), assistant("", "a", "a"), result("a"), result("a")])
    assert problem_with([user(), assistant("", "a"), result("b")])
    assert problem_with([{"role": "system", "content": "x"}])


texts = st.sampled_from(["", " ", "hello", "two\nlines", "\x00", "世界"]) | st.text(max_size=8)
contents = (
    texts
    | st.none()
    | st.lists(
        st.fixed_dictionaries({"type": st.just("text"), "text": texts})
        | st.just({"type": "image_url", "image_url": {"url": "data:"}}),
        max_size=3,
    )
)
call_ids = st.sampled_from(["a", "b", "c", "None", "", None, 5])
calls = st.one_of(
    st.builds(call, call_ids),
    st.just({"function": {"name": "no id"}}),
    st.builds(lambda one: {"id": one, "function": "not a dict"}, call_ids),
    st.builds(lambda one: {"id": one, "name": "flat"}, call_ids),
    st.sampled_from(["not a call", None, 7]),
)
messages_of_any_kind = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": contents}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": contents},
        optional={
            "tool_calls": st.lists(calls, max_size=3) | st.sampled_from([None, "x", {}, 0]),
            "reasoning": texts,
        },
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": contents, "tool_call_id": call_ids}),
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "developer", "session_meta", "", None]),
            "content": contents,
        }
    ),
)
any_history = st.lists(messages_of_any_kind, max_size=12)


def readable(messages: list[Message], role: str) -> str:
    return "\n".join(plain_text(m["content"]) for m in messages if m.get("role") == role)


@settings(max_examples=seeds.examples(100), deadline=None)
@given(any_history)
def test_any_history_becomes_valid_and_keeps_what_was_said(messages: list[Message]) -> None:
    before = copy.deepcopy(messages)
    repaired = repair_message_sequence(messages)
    assert messages == before, "the input was changed"
    assert problem_with(repaired) is None
    assert repair_message_sequence(repaired) == repaired
    for role in ("user", "assistant"):
        left = readable(repaired, role)
        for message in messages:
            if message.get("role") == role:
                for part in plain_text(message["content"]).split():
                    place = left.find(part)
                    assert place >= 0, f"{part!r} was lost"
                    left = left[place + len(part) :]  # in order, and as often as it was said


@settings(max_examples=seeds.examples(100), deadline=None)
@given(any_history)
def test_a_valid_history_is_left_alone(messages: list[Message]) -> None:
    valid = repair_message_sequence(messages)
    again = repair_message_sequence(valid)
    assert all(one is other for one, other in zip(again, valid, strict=True))
    if problem_with(messages) is None:
        assert valid == messages


@settings(max_examples=seeds.examples(100), deadline=None)
@given(any_history)
def test_a_result_that_is_there_is_not_called_unknown(messages: list[Message]) -> None:
    """Each recorded result belongs to the latest call with its id before it."""
    asked: dict[str, int] = {}
    answered: set[tuple[int, str]] = set()
    for position, message in enumerate(messages):
        if message.get("role") == "assistant" and isinstance(message.get("tool_calls"), list):
            for one in message["tool_calls"]:
                if isinstance(one, dict) and one.get("id"):
                    asked[str(one["id"])] = position
        elif message.get("role") == "tool" and message["tool_call_id"]:
            call_id = str(message["tool_call_id"])
            if call_id in asked:
                answered.add((asked[call_id], call_id))
    results = [m for m in repair_message_sequence(messages) if m["role"] == "tool"]
    real = [m for m in results if m["content"] != OUTCOME_UNKNOWN]
    assert len(real) == len(answered)


def test_results_are_put_where_they_belong() -> None:
    history = [
        user(),
        assistant("", "a", "b", "c"),
        result("b", "B"),
        user("hurry"),
        result("a", "A"),
        result("a", "A again"),
        result("x", "nobody asked"),
    ]
    repaired = repair_message_sequence(history)
    assert [m["content"] for m in repaired[2:5]] == ["A", "B", OUTCOME_UNKNOWN]
    assert repaired[4] == {
        "role": "tool",
        "tool_call_id": "c",
        "tool_name": "ls",
        "content": OUTCOME_UNKNOWN,
    }
    assert repaired[5:] == [user("hurry")]


def test_a_late_result_is_still_the_result() -> None:
    history = [user(), assistant("", "a"), user("stop"), assistant("stopped"), result("a", "A")]
    repaired = repair_message_sequence(history)
    assert [m["content"] for m in repaired] == ["question", "", "A", "stop", "stopped"]


def test_an_id_that_is_used_again_has_its_own_result() -> None:
    history = [
        user(), assistant("", "call_0"), result("call_0", "first"),
        assistant("", "call_0"), result("call_0", "second"),
        assistant("", "call_0"),
    ]  # fmt: skip
    repaired = repair_message_sequence(history)
    results = [m["content"] for m in repaired if m["role"] == "tool"]
    assert results == ["first", "second", OUTCOME_UNKNOWN]


@pytest.mark.parametrize("empty", [None, "", "  \n", []])
def test_an_assistant_that_says_nothing_is_left_out(empty: Any) -> None:
    assert repair_message_sequence([user("a"), assistant(empty), user("b")]) == [user("a\n\nb")]
    kept = repair_message_sequence([user(), assistant("", "a"), assistant(empty), result("a", "A")])
    assert kept[-1]["content"] == "A"


def test_a_history_that_the_assistant_began_keeps_its_beginning() -> None:
    repaired = repair_message_sequence([assistant("Good morning."), user("Hello")])
    assert problem_with(repaired) is None
    assert repaired[1:] == [assistant("Good morning."), user("Hello")]


def test_neighbours_of_one_role_are_joined() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    (joined,) = repair_message_sequence(
        [user("a", timestamp=1), user("b", timestamp=2), user([image])]
    )
    assert joined == user([{"type": "text", "text": "a\n\nb"}, image], timestamp=2)
    assert repair_message_sequence([user(), assistant("a"), assistant("b", "c")])[1] == assistant(
        "a\n\nb", "c"
    )


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        (user("a", api_content="a+"), user("b", api_content="b+"), "a+\n\nb+"),
        (user("a", api_content="a+"), user("b"), "a+\n\nb"),
        (user("a"), user("b", api_content="b+"), "a\n\nb+"),
        (user(""), user("b", api_content="b+"), "b+"),
        (user("a"), user("b"), None),
        (user("a", api_content="a+"), user([{"type": "image_url"}]), None),
    ],
)
def test_what_is_sent_for_joined_messages_holds_both(
    first: Message, second: Message, sent: str | None
) -> None:
    (joined,) = repair_message_sequence([first, second])
    assert joined.get("api_content") == sent


def test_what_a_crash_left_is_read_as_a_valid_history(db: SessionDB) -> None:
    db.create_session("s1", "cli")
    steps = [
        user("list the files"),
        assistant("", "a", "b"),
        result("a", "x.txt"),
        user("still there?"),
    ]
    for end in range(len(steps) + 1):
        db.replace_messages("s1", steps[:end])
        stored = db.get_messages_as_conversation("s1")
        model_view, display = db.get_resume_conversations("s1")
        assert problem_with(model_view) is None
        assert model_view == db.get_messages_as_conversation("s1", repair_alternation=True)
        assert display == stored  # people see what there is
        assert db.get_messages_as_conversation("s1") == stored


def test_every_cut_through_a_turn_is_repaired() -> None:
    turn = [
        user(), assistant("", "a", "b"), result("a"), result("b"),
        assistant("thinking", "c"), result("c"), assistant("done"), user("thanks"),
    ]  # fmt: skip
    for start, end in itertools.combinations(range(len(turn) + 1), 2):
        assert problem_with(repair_message_sequence(turn[start:end])) is None
