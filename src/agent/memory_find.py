"""Finding what is remembered, asked as people ask; a fact that changed is found by either form.

An entry that was said in other words since, or forgotten, is found too and shown struck, below what
took its place.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from agent import memory_actions as actions
from agent.memory_actions import Desk, Remembered
from tools.memory import FILES
from tools.memory_history import Change, read_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 8


class Found(NamedTuple):
    """What is remembered now, if anything, and what it was before."""

    entry: Remembered | None
    earlier: tuple[Change, ...]
    """The changes by which earlier forms of it went, the newest first."""


def find(desk: Desk, query: str, limit: int = MOST) -> list[Found]:
    """What fits, best first. What was forgotten for good is not there to be found."""
    from hermes_state import rank_texts

    entries = actions.list_entries(desk)
    facts = [Found(entry, ()) for entry in entries]
    for space in desk.read:
        changes = read_changes(space.folder(desk.home))
        for target in FILES:
            own = [e for e in entries if e.space == space and e.target == target]
            facts = _with_earlier(facts, own, [c for c in changes if c.kind == target])
    # Each form of a fact is a text of its own: the fact is as good as the best of them.
    texts = [(place, text) for place, fact in enumerate(facts) for text in _forms(fact)]
    model = desk.db.embedder() if desk.db is not None and desk.db.embedder is not None else None
    ranked = rank_texts(query, [text for _, text in texts], model)
    places = dict.fromkeys(texts[number][0] for number, _ in ranked)
    return [facts[place] for place in places][:limit]


def _forms(fact: Found) -> list[str]:
    return [*([fact.entry.text] if fact.entry else []), *(c.before for c in fact.earlier)]


def _with_earlier(
    facts: Sequence[Found], own: Sequence[Remembered], changes: Sequence[Change]
) -> list[Found]:
    """The facts with the earlier forms of them that the changes tell of, and those that went."""
    undone = {change.undoes for change in changes if change.undoes}
    current = {entry.text: entry for entry in own}
    earlier: dict[str, list[Change]] = {text: [] for text in current}
    gone: list[tuple[str, list[Change]]] = []
    for change in reversed(changes):
        if change.undoes or change.id in undone or not change.before:
            continue
        if change.before in current:
            continue  # it was said again
        trail = earlier.get(change.after) if change.action == "replace" else None
        if trail is None:
            trail = []
            gone.append((change.before, trail))
        trail.append(change)
        earlier.setdefault(change.before, trail)
    kept = [
        fact._replace(earlier=tuple(earlier[fact.entry.text]))
        if fact.entry is not None and current.get(fact.entry.text) == fact.entry
        else fact
        for fact in facts
    ]
    return [*kept, *(Found(None, tuple(trail)) for _, trail in gone)]


def describe(desk: Desk, query: str) -> str:
    """What was found, for people to read: what holds now, and struck what it was before."""
    if not query.strip():
        return "Say what to look for: /memory find where is the office"
    lines = []
    for entry, earlier in find(desk, query):
        if entry is not None:
            lines.append(f"- [{entry.id}] {entry.text} ({actions.origin_in_words(desk, entry)})")
        lines += [f"  - ~~{change.before}~~ ({_until(change)})" for change in earlier]
    return "\n".join(lines) or "Nothing that is remembered fits."


def _until(change: Change) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(change.at))
    return f"until {day}" if change.action == "replace" else f"forgotten on {day}"
