"""Keeping what the next answer is about, however large, while the rest is compressed.

That is the user's newest message, and the results of the tools that have just run: without the one
the model does not know what is asked, without the others it runs the tools again. Where they are
large they are set aside, stubs are compressed in their place, and they are put back. The request is
cut only if it does not fit the window, results if they do not fit beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.model import Message

from .compress import Compressed
from .shorten import fit_group

STUB = "[This stands here while the earlier messages are compressed.]"
_LARGE = 0.2
"""Share of the target from which on something is set aside."""
_REST = 400
"""Tokens that must be left for everything else."""

Count = Callable[[list[Message]], int]


@dataclass(slots=True)
class Aside:
    """A conversation without what was set aside."""

    messages: list[Message]
    target: int
    kept: dict[str, Message] = field(default_factory=dict)
    """What is put back: the request under "", results under the ids of their calls."""

    def put_back(self, made: Compressed | None, count: Count) -> Compressed | None:
        """The compressed conversation with everything in its place; None if a place was lost."""
        if made is None or not self.kept:
            return made
        missing = dict(self.kept)
        messages = [
            missing.pop(key, message) if (key := _place(message)) is not None else message
            for message in made.messages
        ]
        if missing:
            return None
        return replace(made, messages=messages, after_tokens=count(messages))


def set_aside(messages: list[Message], target: int, room: int, count: Count) -> Aside:
    """Take out the newest request and the newest results where they are large.

    `room` is what the conversation may take in the end.
    """
    newest = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    if newest < 0:
        return Aside(messages, target)
    aside = Aside(list(messages), target)
    taken = 0
    request = count([messages[newest]])
    if target * _LARGE < request <= room - _REST:
        aside.kept[""] = messages[newest]
        aside.messages[newest] = {"role": "user", "content": STUB}
        taken = request
    start = _newest_group(messages)
    size = count(messages[start:]) if start > newest else 0
    left = room - taken - _REST
    if size > target * _LARGE and left > size // 20:
        group = messages[start:]
        if size > left:
            # The estimate by which messages are cut is without the provider's correction.
            group = fit_group(group, left * left // max(left, count(fit_group(group, left))))
        aside.kept |= {str(m["tool_call_id"]): m for m in group[1:]}
        aside.messages[start:] = [group[0], *({**m, "content": STUB} for m in group[1:])]
        taken += count(group)
    if taken:
        aside.target = max(1, min(max(target - taken, target // 2), room - taken))
    return aside


def _newest_group(messages: list[Message]) -> int:
    """Where the call begins whose results come last; the end if there are none."""
    start = len(messages)
    while start and messages[start - 1]["role"] == "tool":
        start -= 1
    return max(0, start - 1) if start < len(messages) else start


def _place(message: Message) -> str | None:
    if message.get("content") != STUB:
        return None
    return str(message.get("tool_call_id")) if message["role"] == "tool" else ""
