"""What must hold of a history, said without any of the code that makes one. Each returns faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .script import CUT_OFF, UNKNOWN, Message, answer, marks, turn


def turns_of(history: Sequence[Message]) -> list[list[Message]]:
    """The history cut before each of the user's messages."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def invented(history: Sequence[Message]) -> list[str]:
    """Turns that are not their script, or the beginning of it, visibly closed.

    Only the last may be left open: the next turn closes it.
    """
    turns = turns_of(history)
    return [
        f"the turn {one[0].text!r} is {one}"
        for number, one in enumerate(turns)
        if not _is_told(one, may_be_open=number == len(turns) - 1)
    ]


def _is_told(found: list[Message], *, may_be_open: bool) -> bool:
    told = turn(found[0].text)
    if found == told[: len(found)] and (may_be_open or len(found) == len(told)):
        return True
    length = next(
        (n for n, (a, b) in enumerate(zip(found, told, strict=False)) if a != b),
        min(len(found), len(told)),
    )
    rest = found[length:]
    if length in (0, len(told)) or not rest or rest[-1] != Message("assistant", CUT_OFF):
        return False
    unknown = 0
    while told[length + unknown].role == "tool":
        unknown += 1
    return rest[:-1] == [Message("tool", UNKNOWN)] * unknown


def lost(
    history: Sequence[Message],
    waiting: Iterable[str],
    sent: list[str],
    accepted: Iterable[str],
    answered: Iterable[str],
) -> list[str]:
    """Prompts and answers that were acknowledged and are not there, in order, once."""
    asked = [one.text for one in history if one.role == "user"]
    kept = asked + list(waiting)
    faults = [f"{name} is there {n} times" for name, n in Counter(kept).items() if n > 1]
    faults += [f"{name} was accepted and is lost" for name in accepted if name not in kept]
    faults += [f"{name} was never sent" for name in kept if name not in sent]
    if kept != [name for name in sent if name in kept]:
        faults.append(f"the order is {kept}")
    turns = {one[0].text: one for one in turns_of(history)}
    faults += [
        f"the answer to {name} was given and is lost"
        for name in answered
        if turns.get(name, [])[-1:] != [Message("assistant", answer(name))]
    ]
    return faults


def wrong_effects(history: Sequence[Message], effects: list[str], sent: list[str]) -> list[str]:
    """Effects that happened twice, without their call being stored, or not although they are told.

    A call whose result is unknown may have happened or not; it must not have happened twice.
    """
    faults = [f"{mark} happened {n} times" for mark, n in Counter(effects).items() if n > 1]
    called = {call for message in history for call in message.calls}
    told = {message.text for message in history if message.role == "tool"}
    for mark in [mark for name in sent for mark in marks(name)]:
        if mark in effects and f"leave_mark:{mark}" not in called:
            faults.append(f"{mark} happened and its call is not stored")
        if f"marked {mark}" in told and mark not in effects:
            faults.append(f"{mark} is told and did not happen")
    known = {mark for name in sent for mark in marks(name)}
    return faults + [f"{mark} was never asked for" for mark in effects if mark not in known]
