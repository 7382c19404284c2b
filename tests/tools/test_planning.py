"""The to-do list and questions to the person."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tools.base import ApprovalRequest, Choice, ToolContext, ToolError
from tools.planning import clarify, todo


def plan(context: ToolContext, **arguments: Any) -> str:
    return str(todo.run(context, **arguments))


def test_the_list_is_kept_merged_and_replaced(context: ToolContext) -> None:
    assert plan(context) == "The list is empty."
    plan(context, todos=[{"id": "1", "content": "Read"}, {"id": "2", "content": "Write"}])
    text = plan(context, todos=[{"id": "1", "status": "completed"}], merge=True)
    assert text == "☑ 1. Read\n☐ 2. Write\n(1 of 2 done)"
    assert plan(context) == text
    assert plan(context, todos=[{"id": "9", "content": "Rest"}]).startswith("☐ 9. Rest")


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ({"content": "no id"}, "needs an id"),
        ({"id": "1"}, "needs content"),
        ({"id": "1", "content": "x", "status": "maybe"}, "status must be"),
    ],
)
def test_items_that_do_not_fit_change_nothing(
    context: ToolContext, item: dict[str, str], complaint: str
) -> None:
    plan(context, todos=[{"id": "a", "content": "kept"}])
    with pytest.raises(ToolError, match=complaint):
        plan(context, todos=[{"id": "b", "content": "not kept"}, item])
    assert "kept" in plan(context) and "not kept" not in plan(context)


class Person:
    """Somebody who answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        self.asked.append((question, choices))
        return choices[0] if choices else ""


def test_a_question_is_answered(context: ToolContext) -> None:
    person = Person()
    asking = dataclasses.replace(context, asker=person)
    assert clarify.run(asking, "Tea?", ["Yes ", " "]) == "The person answered: Yes"
    assert clarify.run(asking, "And?") == "The person gave no answer."
    assert person.asked == [("Tea?", ["Yes"]), ("And?", [])]
    for question, choices in (("  ", None), ("Which?", list("abcde"))):
        with pytest.raises(ToolError):
            clarify.run(asking, question, choices)


def test_with_nobody_there_the_model_is_told(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="Nobody is there"):
        clarify.run(context, "Tea?")
