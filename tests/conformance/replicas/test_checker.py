"""The checker finds everything that must not be in a history, each by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.turn_log import NOT_STARTED

from ..script import CALLS, answer, result
from .checker import violations
from .history import Effect, Fault, History, Poll, Said, Shown, Thought

UNSURE = "⚠️ I was restarted while I was sending an answer."
STOPPED = "⚠️ I was stopped while this ran: count_up."
KILL = Fault(15.0, "kill", "r1", 16.0)


def conversation(history: History, chat: str, at: float, count: int, replica: str = "r1") -> None:
    """Add messages that were answered as they should be, one second each."""
    names = [f"{chat}n{number}" for number in range(1, count + 1)]
    for place, name in enumerate(names):
        began = at + place
        history.said.append(Said(began, chat, name))
        results: dict[str, str] = {}
        before = tuple(names[:place])
        for step, calls in enumerate(CALLS):
            seen = Thought(began + 0.2 * step + 0.1, replica, name, step, (*before, name), before,
                           dict(results))  # fmt: skip
            history.thoughts.append(seen)
            for tool, argument in calls:
                if tool != "echo":
                    history.effects.append(
                        Effect(began + 0.2 * step + 0.15, replica, name + argument)
                    )
                results[name + argument] = result(tool, name + argument)
        last = Thought(
            began + 0.7, replica, name, len(CALLS), (*before, name), before, dict(results)
        )
        history.thoughts.append(last)
        history.shown.append(Shown(began + 0.8, chat, answer(name), replica))


def good() -> History:
    """Two chats with r1, then one with r2, which took over when r1 was killed."""
    history = History()
    conversation(history, "c1", 10.0, 3)
    conversation(history, "c2", 10.0, 2)
    conversation(history, "c3", 20.0, 2, "r2")
    history.polls += [Poll("r1", 10.0, 12.0), Poll("r1", 12.0, 15.1), Poll("r2", 18.0, 25.0)]
    history.faults.append(dataclasses.replace(KILL))
    return history


def test_a_history_as_it_should_be() -> None:
    assert violations(good()) == []


def test_what_faults_may_leave() -> None:
    history = good()
    history.shown = [shown for shown in history.shown if shown.text != answer("c3n2")]
    history.shown.append(Shown(22.0, "c3", UNSURE, "r2"))
    for thought in history.thoughts:
        if "c3n1b" in thought.results:
            thought.results["c3n1b"] = OUTCOME_UNKNOWN
        if "c3n1c" in thought.results:
            thought.results["c3n1c"] = NOT_STARTED
    history.effects = [effect for effect in history.effects if effect.mark != "c3n1c"]
    history.polls.append(Poll("r1", 19.0, 19.5))
    history.polls.append(Poll("r2", 18.0, 19.0))
    history.faults.append(Fault(18.5, "stop", "r2", 19.2))
    history.polls[2] = Poll("r2", 19.6, 25.0)
    assert violations(history) == []


def test_two_may_poll_when_the_clock_has_jumped_by_which_leases_are_judged() -> None:
    history = good()
    history.faults.append(Fault(18.5, "clock", "", 19.2))
    history.polls.append(Poll("r1", 19.0, 20.0))
    assert violations(history) == []


def late_answer(*, told: bool) -> list[str]:
    """r1 was stopped when it was about to send its first answer in c4, and r2 went on there."""
    history = good()
    conversation(history, "c4", 30.0, 2, "r2")
    late = next(shown for shown in history.shown if shown.text == answer("c4n1"))
    history.shown.remove(late)
    history.faults.append(Fault(30.75, "stop", "r1", 40.0))
    if told:
        history.shown.append(Shown(30.9, "c4", UNSURE, "r2"))
    history.shown.append(late._replace(at=40.1, replica="r1"))
    return violations(history)


def test_an_answer_that_was_on_its_way_may_come_late_once_that_was_told() -> None:
    assert late_answer(told=True) == []
    assert late_answer(told=False) == ["c4: answered in the order ['c4n2', 'c4n1']"]


def _lose_answer(history: History) -> None:
    del history.shown[1]


def _answer_twice(history: History) -> None:
    history.shown.append(history.shown[0]._replace(at=30.0))


def _answer_elsewhere(history: History) -> None:
    history.shown.append(Shown(30.0, "c2", answer("c1n1"), "r1"))


def _answer_nobody(history: History) -> None:
    history.shown.append(Shown(30.0, "c9", answer("c9n1"), "r1"))


def _answer_nonsense(history: History) -> None:
    history.shown.append(Shown(30.0, "c1", "something else", "r1"))


def _swap_answers(history: History) -> None:
    one, other = history.shown[0], history.shown[1]
    history.shown[0], history.shown[1] = (
        one._replace(text=other.text),
        other._replace(text=one.text),
    )


def _tell_without_cause(history: History) -> None:
    history.shown.append(Shown(100.0, "c3", UNSURE, "r2"))


def _tell_of_tools_only(history: History) -> None:
    del history.shown[1]
    history.shown.append(Shown(22.0, "c1", STOPPED, "r2"))


def _tell_too_little(history: History) -> None:
    del history.shown[:2]
    history.shown.append(Shown(22.0, "c1", UNSURE, "r2"))


def _change_thought(history: History, number: int, **changes: object) -> None:
    history.thoughts[number] = history.thoughts[number]._replace(**changes)  # type: ignore[arg-type]


def _ask_model_twice(history: History) -> None:
    _change_thought(history, 3, asked=("c1n1", "c1n1", "c1n2"))


def _ask_model_out_of_order(history: History) -> None:
    _change_thought(history, 6, asked=("c1n2", "c1n1", "c1n3"))


def _ask_model_for_nobody(history: History) -> None:
    _change_thought(history, 0, name="c9n9", asked=("c9n9",))


def _ask_model_for_another_chat(history: History) -> None:
    _change_thought(history, 3, asked=("c1n1", "c2n1", "c1n2"))


def _forget_message(history: History) -> None:
    _change_thought(history, 3, asked=("c1n2",), answered=())


def _forget_answer(history: History) -> None:
    _change_thought(history, 3, answered=())


def _do_twice(history: History) -> None:
    history.effects.append(Effect(30.0, "r2", "c1n1a"))


def _do_unasked(history: History) -> None:
    history.effects.append(Effect(30.0, "r2", "c1n9a"))


def _claim_effect(history: History) -> None:
    history.effects = [effect for effect in history.effects if effect.mark != "c1n1a"]


def _claim_effect_too_soon(history: History) -> None:
    number = next(n for n, effect in enumerate(history.effects) if effect.mark == "c1n1a")
    history.effects[number] = history.effects[number]._replace(at=40.0)


def _set_result(history: History, mark: str, text: str, *, once: bool = False) -> None:
    for thought in history.thoughts:
        if mark in thought.results:
            thought.results[mark] = text
            if once:
                return


def _deny_effect(history: History) -> None:
    _set_result(history, "c3n1c", NOT_STARTED)


def _change_result(history: History) -> None:
    _set_result(history, "c3n1b", OUTCOME_UNKNOWN, once=True)


def _invent_result(history: History) -> None:
    _set_result(history, "c3n1c", "an error")


def _not_know_what_is_harmless(history: History) -> None:
    _set_result(history, "c3n1y", OUTCOME_UNKNOWN)


def _not_know_without_cause(history: History) -> None:
    history.faults[0].at = history.faults[0].ended = 100.0
    _set_result(history, "c3n1c", OUTCOME_UNKNOWN)


def _poll_beside(history: History) -> None:
    history.polls.append(Poll("r1", 19.0, 20.0))


def _poll_when_woken(history: History) -> None:
    history.faults.append(Fault(15.0, "stop", "r1", 19.0))
    history.polls.append(Poll("r1", 19.1, 20.0))


def _poll_without_waiting(history: History) -> None:
    history.faults.clear()
    history.polls[1] = Poll("r1", 12.0, 18.1)


def _poll_long_after_the_clock_jumped(history: History) -> None:
    history.faults.append(Fault(17.0, "clock", "", 18.0))
    history.polls.append(Poll("r1", 19.0, 20.0))


BAD: dict[Callable[[History], None], str] = {
    _lose_answer: "['c1n2'] not answered, and 0 notices",
    _answer_twice: "c1n1 was answered 2 times",
    _answer_elsewhere: "c2: c1n1 was never asked",
    _answer_nobody: "c9: nobody has said anything",
    _answer_nonsense: "is shown 'something else'",
    _swap_answers: "answered in the order",
    _tell_without_cause: "and nothing has happened",
    _tell_of_tools_only: "['c1n2'] not answered, and 0 notices",
    _tell_too_little: "['c1n1', 'c1n2'] not answered, and 1 notices",
    _ask_model_twice: "shown the messages ('c1n1', 'c1n1', 'c1n2')",
    _ask_model_out_of_order: "shown the messages ('c1n2', 'c1n1', 'c1n3')",
    _ask_model_for_nobody: "'c9n9', which nobody has said",
    _ask_model_for_another_chat: "shown the messages ('c1n1', 'c2n1', 'c1n2')",
    _forget_message: "was shown answers to ['c1n1']",
    _forget_answer: "was shown answers to ['c1n1']",
    _do_twice: "c1n1a was done 2 times",
    _do_unasked: "c1n9a was done, and nobody",
    _claim_effect: "the result of c1n1a, which was not done",
    _claim_effect_too_soon: "the result of c1n1a, which was not done",
    _deny_effect: "that c3n1c was not run; it was",
    _change_result: "two results of c3n1b",
    _invent_result: "'an error' as the result of c3n1c",
    _not_know_what_is_harmless: "as the result of c3n1y",
    _not_know_without_cause: "nobody knows of c3n1c",
    _poll_beside: "r1 polls beside r2",
    _poll_when_woken: "r1 polls beside r2",
    _poll_without_waiting: "r2 polls beside r1",
    _poll_long_after_the_clock_jumped: "r1 polls beside r2",
}
"""How a history is spoilt, and what is found."""


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__.strip("_"))
def test_each_violation_is_found(spoil: Callable[[History], None]) -> None:
    history = good()
    spoil(history)
    found = violations(history)
    assert any(BAD[spoil] in problem for problem in found), found


def test_a_chat_can_be_read_line_by_line() -> None:
    history = good()
    history.faults[0].at = 12.0
    text = history.of_chat("c1")
    assert "said c1n1" in text and "r1 shows 'done with c1n1'" in text and "FAULT kill r1" in text
    assert "c2n1" not in text
