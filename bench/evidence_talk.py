"""Conversations with questions about them, made from `evidence_stories.txt` with a fixed seed.

The stories are written by hand, in several languages; here their slots are filled, several times
with different things, and they are told over months in sessions full of small talk. So the words of
a question are also in turns that do not answer it. One half of the stories is for tuning, the other
for reporting; the halves share no story.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

STORIES = Path(__file__).with_name("evidence_stories.txt")
SEED = 22
TELLINGS = 4
"""How often a story is told, with different slots."""
SMALL_TALK = 6
"""Pairs of turns that belong to no story, for each story."""
JOINED = 24
"""Questions that ask for two things at once."""
CONVERSATIONS = 3
HALVES = ("tuning", "report")
FIRST_DAY = datetime.datetime(2025, 1, 6, 8, tzinfo=datetime.UTC)

_, _SLOT_LINES, _SMALL_TALK = (
    Path(__file__).with_name("evidence_slots.txt").read_text(encoding="utf-8").split("\n\n")
)
SLOTS = {
    name: values.split("|")
    for name, _, values in (line.partition(": ") for line in _SLOT_LINES.splitlines())
}
_SLOT = re.compile(r"\{(.+?)\}")


@dataclass(frozen=True)
class Question:
    """A question, and where its answer is: (conversation, number of the turn)."""

    text: str
    style: str
    language: str
    evidence: tuple[tuple[int, int], ...]


@dataclass
class Turn:
    """One message."""

    role: str
    text: str
    timestamp: float


@dataclass
class Half:
    """Some conversations and the questions about them."""

    talks: list[list[list[Turn]]] = field(default_factory=list)
    """Conversations, of sessions, of turns; turns are numbered through a conversation."""
    questions: list[Question] = field(default_factory=list)


@dataclass
class Story:
    """A block of the file."""

    language: str
    turns: list[tuple[str, str]]
    questions: list[tuple[str, tuple[int, ...], str]]


def read_stories() -> list[Story]:
    """The blocks of the file, in order."""
    stories = []
    for block in STORIES.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        story = Story(lines[0], [], [])
        for line in lines[1:]:
            head, _, text = line.partition(": ")
            if head.startswith("? "):
                _, style, *places = head.split()
                turns = tuple(int(place) for place in places[0].split(",")) if places else ()
                story.questions.append((style, turns, text))
            else:
                story.turns.append(("user" if head == "u" else "assistant", text))
        stories.append(story)
    return stories


def make(half: str, seed: int = SEED) -> Half:
    """One half of the set; the same each time."""
    draw = random.Random(f"{seed} {half}")
    which = HALVES.index(half)
    by_language: dict[str, list[Story]] = {}
    for story in read_stories():
        by_language.setdefault(story.language, []).append(story)
    mine = [
        story
        for stories in by_language.values()
        for number, story in enumerate(stories)
        if number % 2 == which and story.turns
    ]
    made = Half(talks=[[] for _ in range(CONVERSATIONS)])
    pieces: list[list[tuple[list[tuple[str, str]], Story | None, dict[str, str]]]] = [
        [] for _ in range(CONVERSATIONS)
    ]
    for story in mine:
        slots: dict[str, list[str]] = {}
        for telling in range(TELLINGS):
            filled = _fill_slots(story, draw, slots)
            turns = [(role, _filled(text, filled)) for role, text in story.turns]
            pieces[telling % CONVERSATIONS].append((turns, story, filled))
    small_talk = [
        ("assistant" if number % 2 else "user", line)
        for number, line in enumerate(_SMALL_TALK.splitlines())
    ]
    for talk, told in enumerate(pieces):
        for _ in range(SMALL_TALK * len(told)):
            at = draw.randrange(len(small_talk) // 2) * 2
            values = {name: draw.choice(some) for name, some in SLOTS.items()}
            pair = [(role, _filled(text, values)) for role, text in small_talk[at : at + 2]]
            told.append((pair, None, {}))
        draw.shuffle(told)
        _tell(made, talk, told, draw)
    english = [q for q in made.questions if q.language == "en" and q.style in ("direct", "forms")]
    for first, second in zip(*[iter(draw.sample(english, 2 * JOINED))] * 2, strict=True):
        text = f"{first.text.rstrip('?')}, and {second.text[0].lower()}{second.text[1:]}"
        made.questions.append(Question(text, "several", "en", (*first.evidence, *second.evidence)))
    merged: dict[str, Question] = {}
    for question in made.questions:  # several tellings may answer the same words
        same = merged.get(question.text)
        places = (*same.evidence, *question.evidence) if same else question.evidence
        merged[question.text] = dataclasses.replace(question, evidence=tuple(dict.fromkeys(places)))
    made.questions = list(merged.values())
    for story in by_language["nowhere"]:
        made.questions += [
            Question(text, style, "nowhere", ())
            for number, (style, _, text) in enumerate(story.questions)
            if number % 2 == which
        ]
    return made


def _tell(
    made: Half,
    talk: int,
    told: list[tuple[list[tuple[str, str]], Story | None, dict[str, str]]],
    draw: random.Random,
) -> None:
    at = FIRST_DAY + datetime.timedelta(days=2 * talk)
    number = 0
    while told:
        count = draw.randint(4, 9)
        session: list[Turn] = []
        for turns, story, filled in told[:count]:
            if story is not None:
                made.questions += [
                    Question(
                        _filled(text, filled),
                        style,
                        story.language,
                        tuple((talk, number + len(session) + turn) for turn in evidence),
                    )
                    for style, evidence, text in story.questions
                ]
            for role, text in turns:
                at += datetime.timedelta(minutes=draw.randint(1, 4))
                session.append(Turn(role, text, at.timestamp()))
        del told[:count]
        number += len(session)
        made.talks[talk].append(session)
        at += datetime.timedelta(days=draw.randint(1, 9), hours=draw.randint(0, 5))


def _fill_slots(story: Story, draw: random.Random, used: dict[str, list[str]]) -> dict[str, str]:
    """Values for the slots of a story, other ones for each telling where there are enough."""
    filled: dict[str, str] = {}
    text = "\n".join(text for _, text in story.turns)
    for name in dict.fromkeys(_SLOT.findall(text)):
        taken = {*used.setdefault(name, []), *filled.values()}
        free = [value for value in SLOTS[name] if value not in taken]
        filled[name] = draw.choice(free or SLOTS[name])
        used[name].append(filled[name])
    return filled


def _filled(text: str, values: dict[str, str]) -> str:
    return _SLOT.sub(lambda match: values[match.group(1)], text)
