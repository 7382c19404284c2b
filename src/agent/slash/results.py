"""What a command comes to: something to show, something to send, something to edit."""

from __future__ import annotations

from typing import Any, NamedTuple

Content = str | list[dict[str, Any]]
"""A message as `AIAgent.run` takes it: text, or parts with pictures."""


class Exec(NamedTuple):
    """It is done; this is to be shown."""

    output: str
    failed: bool = False


class Plugin(NamedTuple):
    """A plugin has done it; this is to be shown."""

    output: str


class Alias(NamedTuple):
    """Another command is meant; the front end runs that one."""

    target: str


class Send(NamedTuple):
    """The message is to be sent, as if the person had written it."""

    message: Content
    notice: str = ""


class Prefill(NamedTuple):
    """The message is offered for editing, where there is an input line."""

    message: Content
    notice: str


class Skill(NamedTuple):
    """The message is to be sent: it has the skill's instructions in it."""

    message: str
    name: str


Result = Exec | Plugin | Alias | Send | Prefill | Skill


def wire(result: Result) -> dict[str, Any]:
    """The result as JSON carries it: its `type` and what belongs to it."""
    fields = {name: value for name, value in result._asdict().items() if name != "failed"}
    if not fields.get("notice", True):
        del fields["notice"]
    return {"type": type(result).__name__.lower(), **fields}
