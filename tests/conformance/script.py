"""What is said: each prompt is a name, and brings about the same turn whoever runs it.

The model needs no state: which step is next follows from the messages it is sent, so it does not
matter how often the process that asks was killed in between.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = "<outcome unknown>"
"""Stands for the result of a tool call whose outcome nobody knows."""
NOT_RUN = "<not run>"
"""Stands for the result of a tool call that certainly did nothing."""
CUT_OFF = "<cut off>"
"""Stands for an answer that a crash swallowed."""


class Message(NamedTuple):
    """A message as the suite compares it."""

    role: str
    text: str
    calls: tuple[str, ...] = ()
    """The tool calls it makes, each `tool:argument`."""


def name_of(text: str) -> str:
    """The prompt's name in a question: its first word, or the name of the job that asks."""
    words = text.split()
    return words[1].strip("']") if words[:1] == ["[Job"] else "".join(words[:1])


EFFECTFUL = ("leave_mark", "count_up")
"""Tools that must not run twice: one appends to a file, one posts to a counter over HTTP."""

CALLS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("leave_mark", "a"), ("count_up", "b"), ("echo", "x")),
    (("echo", "y"), ("count_up", "c")),
)
"""The tool calls of each step before the answer; the argument is the prompt's name and this."""


def answer(name: str) -> str:
    """What the model says at the end of a prompt's turn."""
    return f"done with {name}"


def marks(name: str) -> list[str]:
    """The effects of a prompt's turn."""
    return [name + mark for step in CALLS for tool, mark in step if tool in EFFECTFUL]


def result(tool: str, argument: str) -> str:
    """What a tool says when it has run."""
    return f"marked {argument}" if tool in EFFECTFUL else argument


def turn(name: str) -> list[Message]:
    """Everything that belongs to a prompt's turn, in order."""
    messages = [Message("user", name)]
    for step in CALLS:
        calls = [(tool, name + argument) for tool, argument in step]
        messages.append(Message("assistant", "", tuple(f"{t}:{a}" for t, a in calls)))
        messages += [Message("tool", result(tool, argument)) for tool, argument in calls]
    return [*messages, Message("assistant", answer(name))]
