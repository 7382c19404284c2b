"""Reactions under a question as its answer: a thumb, or the number of a choice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .base import Button

YES, NO = "👍", "👎"
REMEMBERED = 500
_DENIES = ":deny"


class Asked:
    """Questions that were shown, by their messages; those asked last."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, dict[str, str]] = OrderedDict()

    def note(self, message_id: str, buttons: Sequence[Button]) -> None:
        """A message asks for one of these."""
        if not buttons:
            return
        self._answers[message_id] = _answers(buttons)
        while len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)

    def answer_of(self, message_id: str, emoji: str) -> str | None:
        """What a reaction under a message says; None if it asks nothing."""
        return self._answers.get(message_id, {}).get(_plain(emoji))


def advice(buttons: Sequence[Button]) -> str:
    """What is said under a question for approval; empty under any other."""
    if YES not in _answers(buttons):
        return ""
    return f"Or react: {YES} {buttons[0].label}, {NO} {buttons[-1].label}"


def _answers(buttons: Sequence[Button]) -> dict[str, str]:
    answers = {f"{number}\u20e3": one.data for number, one in enumerate(buttons[:9], 1)}
    if len(buttons) > 1 and buttons[-1].data.endswith(_DENIES):
        answers |= {YES: buttons[0].data, NO: buttons[-1].data}
    return answers


def _plain(emoji: str) -> str:
    """An emoji without the colour of its skin and the form in which it is shown."""
    return "".join(
        char for char in emoji if char != "\ufe0f" and not "\U0001f3fb" <= char <= "\U0001f3ff"
    )
