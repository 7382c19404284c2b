"""What must hold of a history, said without any of the code that makes one. Each returns faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .script import CUT_OFF, EFFECTFUL, NOT_RUN, UNKNOWN, Message, answer, marks, turn

CLOSED = Message("assistant", CUT_OFF)


def turns_of(history: Sequence[Message]) -> list[list[Message]]:
    """The history cut before each of the user's messages."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def invented(history: Sequence[Message], *, open_end: bool = True) -> list[str]:
    """Turns that are not their script, or the beginning of it, visibly closed.

    Only the last may be left open, with `open_end`: whoever comes next goes on with it.
    """
    turns = turns_of(history)
    return [
        f"the turn {one[0].text!r} is {one}"
        for number, one in enumerate(turns)
        if not _is_told(one, may_be_open=open_end and number == len(turns) - 1)
    ]


def _is_told(found: list[Message], *, may_be_open: bool) -> bool:
    told = turn(found[0].text)
    closed = found[-1] == CLOSED
    body = found[:-1] if closed else found
    if len(body) > len(told) or not body:
        return False
    harmful = _effectful(told)
    # In a turn that is closed, calls without a result have one that says what is known of them.
    last_calls = max((n for n, one in enumerate(body) if one.calls), default=len(body))
    for number, (one, script) in enumerate(zip(body, told, strict=False)):
        if one == script:
            continue
        is_last = closed and number > last_calls
        unknown = one == Message("tool", UNKNOWN) and (number in harmful or is_last)
        not_run = one == Message("tool", NOT_RUN) and is_last
        if script.role != "tool" or not (unknown or not_run):
            return False
    if closed:
        return len(body) < len(told) and told[len(body)].role != "tool"
    return may_be_open or len(body) == len(told)


def _effectful(told: list[Message]) -> set[int]:
    """Where in a turn's script the results of tools with an effect are."""
    calls = [call.partition(":")[0] for one in told for call in one.calls]
    places = [number for number, one in enumerate(told) if one.role == "tool"]
    return {place for place, tool in zip(places, calls, strict=True) if tool in EFFECTFUL}


def closed_turns(history: Sequence[Message]) -> list[str]:
    """The prompts whose turn was closed without an answer."""
    return [one[0].text for one in turns_of(history) if one[-1] == CLOSED]


def unknown_results(history: Sequence[Message]) -> int:
    """How many results are lost."""
    return sum(one == Message("tool", UNKNOWN) for one in history)


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
    called = {call.partition(":")[2] for message in history for call in message.calls}
    told = {message.text for message in history if message.role == "tool"}
    known = [mark for name in sent for mark in marks(name)]
    for mark in known:
        if mark in effects and mark not in called:
            faults.append(f"{mark} happened and its call is not stored")
        if f"marked {mark}" in told and mark not in effects:
            faults.append(f"{mark} is told and did not happen")
    return faults + [f"{mark} was never asked for" for mark in effects if mark not in known]
