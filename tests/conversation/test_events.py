"""The numbered log of a conversation: no gap, no event twice, a snapshot for who comes late."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import events
from agent.events import (
    Event,
    Noticed,
    QuestionAsked,
    QuestionClosed,
    ReasoningStreamed,
    ReplyFinished,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.model import Usage
from conversation import events as module
from conversation.events import TURN_SHIFT, ConversationLog, Logs, Numbered
from conversation.wire import KINDS, decode, encode


def watched(log: ConversationLog, since: int = 0) -> list[Numbered]:
    seen: list[Numbered] = []
    log.subscribe(since, seen.append)
    return seen


def text_of(seen: list[Numbered]) -> str:
    """The reply as a viewer has it."""
    text = ""
    for _, event in seen:
        if isinstance(event, TurnStarted | StreamRestarted):
            text = ""
        elif isinstance(event, TextStreamed):
            text += event.text
    return text


def test_everybody_gets_the_same_events_in_order() -> None:
    log = ConversationLog()
    first, second = watched(log), watched(log)
    for event in (TurnStarted("s", "t", 1), TextStreamed("a"), TurnFinished("s", "complete", "a")):
        log.publish(event)
    assert first == second
    assert [type(event) for _, event in first] == [TurnStarted, TextStreamed, TurnFinished]


def test_numbers_only_grow_from_process_to_process() -> None:
    """A turn that is taken over goes on under the next number of its lease, in another process."""
    before, after = ConversationLog(), ConversationLog()
    seen = watched(before)
    before.publish(TurnStarted("s", "t", 7))
    for _ in range(100):
        before.publish(TextStreamed("x"))
    later = watched(after)
    after.publish(TurnStarted("s", "t", 8))
    assert seen[0].number == (7 << TURN_SHIFT) + 1
    assert later[0].number > seen[-1].number


def test_who_has_seen_something_gets_the_rest() -> None:
    log = ConversationLog()
    log.publish(TurnStarted("s", "t", 1))
    log.publish(TextStreamed("a"))
    since = log.number
    log.publish(TextStreamed("b"))
    assert [event for _, event in watched(log, since)] == [TextStreamed("b")]
    assert watched(log, log.number) == []


def test_who_comes_late_gets_a_snapshot() -> None:
    log = ConversationLog()
    log.publish(TurnStarted("s", "t", 1))
    log.publish(TextStreamed("let me "))
    log.publish(TextStreamed("look"))
    log.publish(ToolStarted("c", "terminal", {"command": "ls"}))
    log.publish(ToolFinished("c", "terminal", "files", 0.1, False))
    log.publish(TextStreamed("it "))
    log.publish(TextStreamed("is there"))
    assert [event for _, event in watched(log)] == [
        TurnStarted("s", "t", 1),
        TextStreamed("let me look"),
        ToolStarted("c", "terminal", {"command": "ls"}),
        ToolFinished("c", "terminal", "files", 0.1, False),
        TextStreamed("it is there"),
    ]


def test_a_reply_that_is_tried_again_is_not_in_the_snapshot() -> None:
    log = ConversationLog()
    log.publish(TurnStarted("s", "t", 1))
    log.publish(TextStreamed("half an ans"))
    log.publish(StreamRestarted("the connection was lost", 0.5, 1))
    log.publish(TextStreamed("a whole one"))
    assert text_of(watched(log)) == "a whole one"


def test_questions_are_in_the_snapshot_while_they_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 5)
    log = ConversationLog()
    first = QuestionAsked("q1", "clarify", "Which one?", ["red", "blue"], 0.0, "telegram")
    second = QuestionAsked("q2", "approval", "deletes", ["once"], 5.0, "telegram", "rm -r x")
    log.publish(TurnStarted("s", "t", 1))
    log.publish(first)
    log.publish(second)
    for number in range(20):
        log.publish(Noticed(str(number)))
    seen = [event for _, event in watched(log)]
    assert seen[:3] == [TurnStarted("s", "t", 1), first, second]
    log.publish(QuestionClosed("q1"))
    late = [event for _, event in watched(log)]
    assert second in late and first not in late
    log.publish(TurnFinished("s", "complete", ""))
    log.publish(TurnStarted("s", "t", 2))
    assert [event for _, event in watched(log)] == [TurnStarted("s", "t", 2)]


def test_after_the_end_there_is_nothing_to_see() -> None:
    log = ConversationLog()
    log.publish(TurnStarted("s", "t", 1))
    log.publish(TurnFinished("s", "complete", ""))
    assert watched(log) == []


def test_what_is_no_longer_kept_comes_as_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 10)
    log = ConversationLog()
    log.publish(TurnStarted("s", "t", 1))
    since = log.number
    for number in range(50):
        log.publish(TextStreamed(f"{number} "))
    seen = watched(log, since)
    assert len(seen) == 2
    assert text_of(seen) == "".join(f"{number} " for number in range(50))


def test_stopping_to_watch() -> None:
    log = ConversationLog()
    seen: list[Numbered] = []
    stop = log.subscribe(0, seen.append)
    stop()
    stop()
    log.publish(Noticed("x"))
    assert seen == []


def test_logs_of_idle_conversations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOGS", 3)
    logs = Logs()
    running = logs.log("running")
    running.publish(TurnStarted("s", "t", 1))
    watched(logs.log("watched"))
    for number in range(10):
        logs.log(f"idle {number}")
    assert logs._logs.get("running") is running
    assert logs._logs.get("watched") is not None
    assert logs._logs.get("idle 0") is None
    assert logs._logs.get("idle 9") is not None


def test_a_turn_can_begin_while_more_run_than_logs_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LOGS", 3)
    logs = Logs()
    for number in range(10):
        logs.publish(f"running {number}", TurnStarted("s", "t", 1))
    assert all(logs.log(f"running {number}").is_running for number in range(10))


EVENTS = st.one_of(
    st.builds(TextStreamed, st.text(max_size=5)),
    st.builds(ReasoningStreamed, st.text(max_size=5)),
    st.builds(StreamRestarted, st.just("x"), st.just(0.1), st.just(1)),
    st.builds(Noticed, st.text(max_size=5)),
    st.builds(TurnStarted, st.just("s"), st.just("t"), st.integers(1, 9)),
    st.builds(TurnFinished, st.just("s"), st.just("complete"), st.text(max_size=5)),
)


@given(happened=st.lists(EVENTS, max_size=40), at=st.integers(0, 40), seen_before=st.booleans())
def test_whenever_somebody_comes_they_see_what_the_first_one_sees(
    happened: list[Event], at: int, seen_before: bool
) -> None:
    log = ConversationLog()
    first = watched(log)
    since, late = 0, None
    for number, event in enumerate(happened):
        if number == at:
            since = log.number if seen_before else 0
            late = watched(log, since)
        log.publish(event)
    assert [number for number, _ in first] == sorted({number for number, _ in first})
    if late is None:
        return
    is_running = False
    for _, event in first:
        is_running = is_running or isinstance(event, TurnStarted)
    if not seen_before and is_running and log.is_running:
        assert text_of(late) == text_of(first)
    if seen_before:
        assert late == [one for one in first if one.number > since]


EXAMPLES: dict[type, object] = {
    str: "text",
    int: 3,
    float: 0.5,
    bool: True,
    Usage: Usage(1, 2),
    list[str]: ["a"],
}


def test_every_event_can_be_sent() -> None:
    assert set(KINDS.values()) == set(typing.get_args(events.Event))
    for kind in KINDS.values():
        hints = typing.get_type_hints(kind)
        values = {
            name: EXAMPLES.get(hints[name], {"path": "ä\ud800", "n": 1}) for name in kind._fields
        }
        event = kind(**values)
        assert decode(encode(5, event)) == (5, event)


def test_an_event_of_a_later_version_is_passed_over() -> None:
    line = encode(5, ReplyFinished("x", 0, Usage())).replace(b"ReplyFinished", b"Levitated")
    assert decode(line) == (5, None)
    more = encode(6, Noticed("x")).replace(b'"text"', b'"colour": "red", "text"')
    assert decode(more) == (6, Noticed("x"))
