"""Keeping what the next answer is about, however large, while the rest is compressed.

That is the user's newest message, and the results of the tools that have just run: without the one
the model does not know what is asked, without the others it runs the tools again, for ever. They
are set aside, the rest is compressed, and they are put back. The request is cut only if it does not
fit the window, results if they do not fit beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.model import Message

from .compress import Compressed
from .plan import alternating
from .shorten import fit_group

STUB = "[The user's newest message stands here while the earlier ones are compressed.]"
_LARGE = 0.2
"""Share of the target from which on a request is set aside."""
_REST = 400
"""Tokens that should be left for everything else."""

Count = Callable[[list[Message]], int]


@dataclass(frozen=True, slots=True)
class Aside:
    """A conversation without what was set aside."""

    messages: list[Message]
    request: Message | None = None
    results: list[Message] = field(default_factory=list)
    """The newest tool calls with their results, as they will be put back."""
    taken: int = 0
    """Tokens of what was set aside."""
    cut: bool = False
    """Whether the results had to be cut."""

    def put_back(self, made: Compressed | None, count: Count) -> Compressed | None:
        """The compressed conversation with everything in its place; None if nothing changed."""
        if made is None:
            if not self.cut:
                return None
            made = Compressed(self.messages, None, "summary", count(self.messages), 0, None)
        messages = made.messages
        if self.request is not None:
            messages = [self.request if _is_stub(message) else message for message in messages]
        messages = alternating([*messages, *self.results])
        return replace(made, messages=messages, after_tokens=count(messages))


def set_aside(messages: list[Message], target: int, room: int, count: Count) -> Aside:
    """Take out the newest results, and the newest request if it is large.

    `room` is what the conversation may take in the end.
    """
    start = _newest_group(messages)
    group, older = messages[start:], messages[:start]
    newest = max((i for i, m in enumerate(older) if m["role"] == "user"), default=None)
    if newest is None:
        return Aside(messages)
    rest = min(_REST, room // 3)
    size = count(group)
    request: Message | None = None
    taken = count([older[newest]])
    if target * _LARGE < taken <= room - rest - min(size, room // 3):
        request = older[newest]
        older[newest] = {"role": "user", "content": STUB}
    else:
        taken = 0
    left = room - taken - rest
    cut = size > left
    if cut:
        group = _cut(group, left, count)
        size = count(group)
        if size > left:  # nothing to be done: as old as any other message
            return Aside([*older, *messages[start:]], request, [], taken)
    return Aside(older, request, group, taken + size, cut)


def _cut(group: list[Message], tokens: int, count: Count) -> list[Message]:
    """A group within so many tokens by the caller's count, if that can be."""
    goal = max(0, tokens)
    for _ in range(4):
        fitted = fit_group(group, goal)
        size = count(fitted)
        if size <= tokens:
            break
        goal = goal * max(0, tokens) * 9 // (size * 10)
    return fitted


def _newest_group(messages: list[Message]) -> int:
    """Where the call begins whose results come last; the end if there are none."""
    start = len(messages)
    while start and messages[start - 1]["role"] == "tool":
        start -= 1
    return max(0, start - 1) if start < len(messages) else start


def _is_stub(message: Message) -> bool:
    return message["role"] == "user" and message.get("content") == STUB
