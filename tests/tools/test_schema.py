"""Schemas from signatures, and arguments that fit them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import pytest

from tools.base import Tool, ToolContext, ToolError, tool
from tools.registry import Registry
from tools.schema import fit


class Edit(TypedDict):
    old: str
    new: str


@tool(toolset="test", effect="none")
def example(
    context: ToolContext,
    path: str,
    count: int = 3,
    mode: Literal["a", "b"] = "a",
    edits: list[Edit] | None = None,
    loud: bool = False,
    ratio: float | None = None,
) -> str:
    """Do something with a file.

    More about it.

    path: the file to work on,
        relative or not
    count: how often
    """
    return ""


def test_the_schema_is_made_from_the_signature() -> None:
    assert (example.name, example.effect) == ("example", "none")
    assert example.description == "Do something with a file.\n\nMore about it."
    assert example.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "the file to work on, relative or not"},
            "count": {"type": "integer", "description": "how often", "default": 3},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                    "required": ["new", "old"],
                },
            },
            "loud": {"type": "boolean", "default": False},
            "ratio": {"type": "number"},
        },
        "required": ["path"],
    }


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"path": "x"}, {"path": "x"}),
        ({"path": 7}, {"path": "7"}),
        ({"path": "x", "count": "5"}, {"path": "x", "count": 5}),
        ({"path": "x", "count": 5.0}, {"path": "x", "count": 5}),
        ({"path": "x", "loud": "True"}, {"path": "x", "loud": True}),
        ({"path": "x", "edits": "[]"}, {"path": "x", "edits": []}),
        ({"path": "x", "ratio": None}, {"path": "x"}),
        ({"path": "x", "ratio": 1}, {"path": "x", "ratio": 1}),
    ],
)
def test_what_is_unambiguous_is_converted(sent: dict[str, Any], got: dict[str, Any]) -> None:
    assert fit(sent, example.parameters, "example") == got


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ({}, "needs 'path'"),
        ({"path": None}, "needs 'path'"),
        ({"path": "x", "cuont": 1}, "no parameter 'cuont'"),
        ({"path": "x", "count": "many"}, "'count' must be integer"),
        ({"path": "x", "count": True}, "'count' must be integer"),
        ({"path": "x", "mode": "c"}, "one of a, b"),
        ({"path": ["x"]}, "'path' must be string"),
    ],
)
def test_what_does_not_fit_is_named(sent: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        fit(sent, example.parameters, "example")


def test_a_name_can_be_taken_once() -> None:
    registry = Registry([example])
    with pytest.raises(ValueError, match="already"):
        registry.add(example)
    other = Tool("example", "other", lambda context: "")
    registry.add(other, override=True)
    assert registry.get("example") is other


def test_tools_that_cannot_be_used_are_left_out() -> None:
    broken = Tool("broken", "", lambda context: "", check=lambda: "no such program")
    unwanted = Tool("unwanted", "", lambda context: "")
    registry = Registry([example, broken, unwanted])
    assert [one.name for one in registry.usable(lambda one: one.name != "unwanted")] == ["example"]
