"""Decides whether a history of several gateways is one that they promise. It knows nothing else.

What is promised of every message that was sent: one answer, in the order of the messages; or,
after a fault, a word in the chat that it may be missing. No answer twice. Nothing that nobody
asked for. The model is shown each conversation as it was said: every message once, in order, none
that was answered left out. A tool acts at most once for each call, and if the model is shown its
result, exactly once, before that. A platform is asked for messages by one gateway at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.turn_log import NOT_STARTED

from ..script import CALLS, EFFECTFUL, answer, marks, result
from .history import FOREVER, History, Poll, Said, Shown

E = TypeVar("E", Said, Shown)

NOTICE = "⚠️"
"""How words begin that are no answer of the model."""
ABOUT_TOOLS = "⚠️ I was stopped while this ran"
"""How the notice begins that says nothing of the answer: that is still to come."""
LATENESS = 0.25
"""Seconds for which a request may be on its way to us after its sender was stopped or killed."""
CAUSE_SECONDS = 30.0
"""For so long what a fault has broken may be told."""
TOOLS = {argument: tool for step in CALLS for tool, argument in step}
"""By the last letter of a call's mark: the tool."""
CLOCK = "clock"
"""The fault after which others judge leases by another clock than that by which they were had."""
HELD = ("stop", "pause")
"""Faults during which a replica cannot let go of the connection that it polls with."""


def violations(history: History) -> list[str]:
    """Everything in a finished history that must not be."""
    return [
        *_wrong_answers(history),
        *_wrong_order(history),
        *_notices_without_cause(history),
        *_wrong_memory(history),
        *_wrong_effects(history),
        *_wrong_results(history),
        *_two_pollers(history),
    ]


def answered_name(text: str) -> str | None:
    """The prompt that a text answers; None if it is no answer."""
    start = answer("")
    return text.removeprefix(start) if text.startswith(start) else None


def tells_missing(text: str) -> bool:
    """Whether a person is told that an answer may be missing, or was broken off."""
    return text.startswith(NOTICE) and not text.startswith(ABOUT_TOOLS)


def has_cause(history: History, at: float) -> bool:
    """Whether something was broken shortly before a moment."""
    since = at - CAUSE_SECONDS
    return any(fault.at <= at and fault.ended >= since for fault in history.faults)


def _by_chat(events: Iterable[E]) -> dict[str, list[E]]:
    chats: dict[str, list[E]] = defaultdict(list)
    for event in events:
        chats[event.chat].append(event)
    return chats


def _wrong_answers(history: History) -> Iterator[str]:
    shown = _by_chat(history.shown)
    said = _by_chat(history.said)
    for chat in shown.keys() - said.keys():
        yield f"{chat}: nobody has said anything there, and it is told {shown[chat][0]}"
    for chat, messages in said.items():
        names = [message.name for message in messages]
        texts = [text.text for text in shown.get(chat, ())]
        answers = Counter(name for text in texts if (name := answered_name(text)) is not None)
        notices = [text for text in texts if tells_missing(text)]
        for text in texts:
            if answered_name(text) is None and not text.startswith(NOTICE):
                yield f"{chat}: is shown {text!r}"
        yield from (
            f"{chat}: {name} was answered {n} times" for name, n in answers.items() if n > 1
        )
        yield from (f"{chat}: {name} was never asked" for name in answers if name not in names)
        missing = [name for name in names if not answers[name]]
        if len(missing) > len(notices):
            yield f"{chat}: {missing} not answered, and {len(notices)} notices"


def _wrong_order(history: History) -> Iterator[str]:
    shown = _by_chat(history.shown)
    for chat, messages in _by_chat(history.said).items():
        place = {m.name: n for n, m in enumerate(messages)}
        texts = shown.get(chat, [])
        answers = [
            str(name)
            for text in texts
            if (name := answered_name(text.text)) in place and not _was_on_its_way(history, text)
        ]
        places = [place[name] for name in dict.fromkeys(answers)]
        if places != sorted(places):
            yield f"{chat}: answered in the order {answers}"


def _was_on_its_way(history: History, shown: Shown) -> bool:
    """Whether a gateway was stopped between its look at the lease and the network, and has sent the
    text when it woke up; the chat must have been told meanwhile that it may be missing."""
    return any(
        fault.kind in HELD
        and fault.replica == shown.replica
        and fault.ended <= shown.at <= fault.ended + LATENESS
        and any(
            tells_missing(other.text) and other.chat == shown.chat
            for other in history.shown
            if fault.at < other.at < shown.at
        )
        for fault in history.faults
    )


def _notices_without_cause(history: History) -> Iterator[str]:
    """A notice is the mark that a fault has left; without one nothing may be missing."""
    for shown in history.shown:
        if shown.text.startswith(NOTICE) and not has_cause(history, shown.at):
            yield f"{shown.chat}: is told {shown.text!r}, and nothing has happened"


def _wrong_memory(history: History) -> Iterator[str]:
    """What the model was shown of conversations against what was said in them."""
    said: dict[str, list[str]] = defaultdict(list)
    chat_of: dict[str, str] = {}
    for message in history.said:
        said[message.chat].append(message.name)
        chat_of[message.name] = message.chat
    known_since = {
        name: shown.at
        for shown in reversed(history.shown)
        if (name := answered_name(shown.text)) is not None
    }
    for thought in history.thoughts:
        chat = chat_of.get(thought.name)
        if chat is None:
            yield f"the model is asked {thought.name!r}, which nobody has said"
            continue
        wanted = [name for name in said[chat] if name in thought.asked]
        if list(thought.asked) != wanted:
            yield f"{chat}: the model is shown the messages {thought.asked}"
        if thought.asked[-1:] != (thought.name,):
            yield f"{chat}: the model is asked {thought.name} before {thought.asked[-1:]}"
        earlier = [
            name
            for name in said[chat][: said[chat].index(thought.name)]
            if known_since.get(name, FOREVER) < thought.at
        ]
        lost = [name for name in earlier if name not in thought.answered]
        if lost:
            yield f"{chat}: was shown answers to {lost}; the model, asked {thought.name}, was not"


def _wrong_effects(history: History) -> Iterator[str]:
    allowed = {mark for message in history.said for mark in marks(message.name)}
    counts = Counter(effect.mark for effect in history.effects)
    for mark, count in counts.items():
        if mark not in allowed:
            yield f"{mark} was done, and nobody wanted that"
        if count > 1:
            yield f"{mark} was done {count} times"


def _wrong_results(history: History) -> Iterator[str]:
    """A result is that of an effect, or says after a fault that nobody knows; it never changes."""
    done = {effect.mark: effect.at for effect in history.effects}
    results: dict[str, str] = {}
    for thought in history.thoughts:
        for mark, text in thought.results.items():
            if results.setdefault(mark, text) != text:
                yield f"the model is shown two results of {mark}: {results[mark]!r}, {text!r}"
            yield from (
                f"the model, asked {thought.name}, is shown {problem}"
                for problem in (
                    _wrong_result(history, thought.at, mark, text, done.get(mark, FOREVER))
                )
            )


def _wrong_result(history: History, at: float, mark: str, text: str, done: float) -> Iterator[str]:
    tool = TOOLS.get(mark[-1:], "")
    if text == result(tool, mark):
        if tool in EFFECTFUL and done > at:
            yield f"the result of {mark}, which was not done"
    elif text == NOT_STARTED:
        if done < FOREVER:
            yield f"that {mark} was not run; it was"
    elif text != OUTCOME_UNKNOWN or tool not in EFFECTFUL:
        yield f"{text!r} as the result of {mark}"
    elif not has_cause(history, at):
        yield f"that nobody knows of {mark}, and nothing has happened"


def _two_pollers(history: History) -> Iterator[str]:
    """Nobody begins to poll beside a gateway that could have stopped polling."""
    open_polls: list[Poll] = []
    for poll in sorted(history.polls, key=lambda poll: poll.begun):
        open_polls = [other for other in open_polls if other.ended > poll.begun]
        for other in open_polls:
            if other.replica != poll.replica and not _is_held(history, other, poll.begun):
                yield f"{poll.replica} polls beside {other.replica}"
        open_polls.append(poll)


def _is_held(history: History, poll: Poll, at: float) -> bool:
    """Whether a replica was stopped at that moment, has just been killed, or cannot know yet that
    the clock jumped by which its lease is judged."""
    for fault in history.faults:
        if fault.kind == CLOCK and fault.at <= at <= fault.ended + LATENESS:
            return True
        if fault.replica != poll.replica:
            continue
        ended = fault.ended if fault.kind in HELD else fault.at
        if fault.kind in (*HELD, "kill") and fault.at <= at <= ended + LATENESS:
            return True
    return False
