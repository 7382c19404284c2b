"""Reading a conversation without a model: what can be known by its form alone.

Wishes and decisions of the user, open points and their ends, sentences that name or count
something, and the files that tool calls touched. It understands nothing, so it is used in two ways:
beside a model, for what models forget (exact values, files); and alone, when there is none.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.model import Message

from .cues import (
    CHANGE,
    DONE,
    NEGATION,
    OPEN,
    OPENING,
    OUTDATED,
    PERHAPS_CHANGE,
    PERHAPS_OUTDATED,
    WISH,
)
from .shorten import text_of
from .summary import LONGEST_TEXT, Entry, make_entry, row_of
from .words import Terms, is_value, strength, terms, touches

MOST_CANDIDATES = 120
LEAST = 1.5
"""Below this score nothing is kept; it can still end or replace something."""
SURE = 2.5
"""Below this score something is only noted."""
SURE_BESIDE_A_MODEL = 3.5
"""The same where a model has read the messages too, and did not find it worth an entry."""
_LEAD = 40
"""Characters that are kept before the telling part of a long sentence."""
_EARLY = 24
"""Where in a sentence words of wishing stand when they are meant."""
_LONGEST_READ = 6000
"""Characters of one message that are read; wishes stand at its beginning or at its end."""

_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_POINTS_BACK = re.compile(r"(?:that|this|it|they|these|those)(?:'?s|'re)?\b", re.IGNORECASE)
"""How a sentence begins that cannot be understood without the one before."""
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be worth an entry."""

    entry: Entry
    score: float
    position: int
    """Where in the conversation it stands."""
    done: bool = False
    """Whether it may say that something is finished or given up."""
    changes: float = 0.0
    """How much it sounds as if it replaced something said before: 0 to 1."""
    outdated: frozenset[str] = frozenset()
    """Values that it says hold no longer."""


def extract(
    messages: Sequence[Message], focus: str | None = None, sure: float = SURE
) -> list[Candidate]:
    """The best candidates of some messages, in the order in which they were said."""
    candidates = [
        candidate
        for position, message in enumerate(messages)
        for candidate in _read(position, message, focus, sure)
    ]
    best = heapq.nlargest(MOST_CANDIDATES, candidates, key=lambda c: (c.score, c.position))
    return sorted([*best, *_files(messages)], key=lambda c: c.position)


def _read(position: int, message: Message, focus: str | None, sure: float) -> Iterator[Candidate]:
    role = message.get("role")
    if role not in ("user", "assistant"):
        return
    for sentence in sentences(text_of(message.get("content"))):
        candidate = judge(sentence, role, position, row_of(message), focus, sure)
        if candidate is not None:
            yield candidate


def sentences(text: str) -> list[str]:
    """The sentences of a message, without code blocks and the words they open with."""
    if len(text) > _LONGEST_READ:
        text = f"{text[: _LONGEST_READ // 2]}\n{text[-_LONGEST_READ // 2 :]}"
    pieces = (OPENING.sub("", piece.strip()) for piece in _SENTENCE.split(_FENCE.sub("\n", text)))
    joined: list[str] = []
    for piece in pieces:
        if joined and len(joined[-1]) < 80 and _POINTS_BACK.match(piece):
            joined[-1] += f" {piece}"
        elif len(piece) > 5:
            joined.append(piece)
    return joined


def judge(
    sentence: str,
    role: str,
    position: int,
    row: int | None,
    focus: str | None = None,
    sure: float = SURE,
) -> Candidate | None:
    """What a sentence is worth; None if it says nothing that should be kept."""
    if len(sentence) > 600:
        return None  # pasted text rather than something said
    about = terms(sentence)
    user = role == "user"
    wish = WISH.search(sentence)
    is_open, is_done = bool(OPEN.search(sentence)), bool(DONE.search(sentence))
    score = min(sum(map(strength, about.values)), 2.5) + 1.5 * is_open + 0.5 * user
    if wish:
        score += (1.5 if user else 0.5) * (1.0 if wish.start() < _EARLY else 0.5)
    score -= 2.0 * sentence.endswith(("?", "？")) + 0.5 * (len(sentence) > 240)
    score += 3.0 * touches(sentence, focus)
    changes = 1.0 if CHANGE.search(sentence) else 0.5 * bool(PERHAPS_CHANGE.search(sentence))
    done = is_done or (not is_open and bool(NEGATION.search(sentence)))
    if not (about.values or len(about.words) > 1):
        return None
    if score < LEAST and not (user and (is_done or changes == 1.0)):
        return None
    if score < sure:
        kind = "note"
    else:
        kind = "open" if is_open and not is_done else "decision" if wish and user else "fact"
    entry = make_entry(kind, _telling_part(sentence, about, wish), [row] if row else [])
    if entry is None:
        return None
    outdated = OUTDATED.findall(sentence)
    if changes == 1.0:
        outdated += PERHAPS_OUTDATED.findall(sentence)
    gone = frozenset(value.strip(".:!?'\"`").lower() for value in outdated) & about.values
    return Candidate(entry, score, position, done, changes, gone)


def _telling_part(sentence: str, about: Terms, wish: re.Match[str] | None) -> str:
    """A long sentence from a little before the part of it that says the most."""
    if len(sentence) <= LONGEST_TEXT:
        return sentence
    lower = sentence.lower()
    weights = {lower.find(value): strength(value) for value in sorted(about.values)[:30]}
    if wish:
        weights[wish.start()] = 1.0
    weights.pop(-1, None)

    def said_from(start: int) -> float:
        end = start + LONGEST_TEXT - _LEAD
        return sum(weight for place, weight in weights.items() if start <= place < end)

    start = max(sorted(weights), key=said_from, default=0) - _LEAD
    return sentence if start <= 0 else f"…{sentence[start:].split(' ', 1)[-1]}"


def _files(messages: Sequence[Message]) -> list[Candidate]:
    """One candidate for each file that a tool call named, with what was done to it."""
    actions: dict[str, list[str]] = {}
    last: dict[str, tuple[int, int | None]] = {}
    for position, message in enumerate(messages):
        for name, path in _paths(message):
            done = actions.setdefault(path, [])
            if name not in done:
                done.append(name)
            last[path] = (position, row_of(message))
    newest = sorted(last, key=lambda path: last[path][0])[-MOST_CANDIDATES:]
    result = []
    for path in newest:
        position, row = last[path]
        entry = make_entry("file", f"{path} ({', '.join(actions[path][:4])})", [row] if row else [])
        if entry is not None:
            result.append(Candidate(entry, 1.5, position))
    return result


def _paths(message: Message) -> Iterator[tuple[str, str]]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        holder = function if isinstance(function, dict) else call if isinstance(call, dict) else {}
        arguments = holder.get("arguments")
        if isinstance(arguments, str) and len(arguments) < 200_000:
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                continue
        if isinstance(arguments, dict):
            for key, value in list(arguments.items())[:20]:
                if _names_file(str(key), value):
                    yield str(holder.get("name") or "tool"), value


def _names_file(key: str, value: object) -> bool:
    if not isinstance(value, str) or not 1 < len(value) < 160 or "\n" in value:
        return False
    if not any(part in key.lower() for part in ("path", "file")):
        return False
    return "/" in value or is_value(value.strip())
