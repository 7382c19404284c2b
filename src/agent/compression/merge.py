"""Merging entries: which replace others, which are duplicates, which fit.

All of it is deterministic and bounded. Entries are kept in the order of their messages, and only
something said later replaces something said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .fallback import LEAST, Candidate
from .prompt import Changes
from .summary import (
    HEADINGS,
    KINDS,
    LONGEST_TEXT,
    MOST_ENTRIES,
    Entry,
    Summary,
    few_rows,
    make_entry,
)
from .tokens import text_tokens
from .words import Terms, overlap, strength, terms, touches

_WORTH = {"goal": 12.0, "decision": 6.0, "open": 6.0, "fact": 5.5, "note": 3.0, "file": 2.0}
_FILES_SHARE = 0.15
"""Of the record's room, what files may take: they are found again the easiest."""
_FEW = 5
_PLAIN = {"decision", "fact", "goal", "note"}


def merge_records(records: Sequence[Summary]) -> Summary:
    """Several records as one, the later ones on top; usually there is only one."""
    if len(records) == 1:
        return records[0]
    entries: dict[tuple[str, str], Entry] = {}
    for record in records:
        for entry in record.entries:
            entries[entry.kind, entry.text] = entry
    return Summary(
        tuple(list(entries.values())[-MOST_ENTRIES:]),
        sum(record.covered for record in records),
        sum(record.images for record in records),
    )


def labelled(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The entries under the names by which a model may refer to them: G1, D1, D2, …"""
    labels: dict[str, Entry] = {}
    counts = dict.fromkeys(KINDS, 0)
    for entry in entries:
        counts[entry.kind] += 1
        letter = "P" if entry.kind == "file" else entry.kind[0].upper()
        labels[f"{letter}{counts[entry.kind]}"] = entry
    return labels


def apply_changes(entries: Sequence[Entry], changes: Changes, rows: frozenset[int]) -> list[Entry]:
    """The entries after a model's changes. `rows` are the messages it was shown.

    It can point only at messages that it saw, or at those an entry pointed at before.
    """
    labels = labelled(entries)
    removed = {label for label in changes.remove if label in labels}
    if len(removed) > max(_FEW, len(labels) // 2):
        removed = set()  # no conversation settles most of what it was about at once
    result: list[Entry] = []
    for label, entry in labels.items():
        change = changes.replace.get(label)
        if change is not None:
            kept = [row for row in change.rows if row in rows]
            made = make_entry(change.kind or entry.kind, change.text, [*entry.rows, *kept])
            result.append(made or entry)
        elif label not in removed:
            result.append(entry)
    known = {entry.text for entry in result}
    for change in changes.add[:MOST_ENTRIES]:
        made = make_entry(change.kind, change.text, (row for row in change.rows if row in rows))
        if made is not None and made.text not in known:
            known.add(made.text)
            result.append(made)
    return result


def fold_in(entries: Sequence[Entry], candidates: Iterable[Candidate]) -> list[Entry]:
    """The entries with what was read without a model: replaced, ended, or added where new."""
    result = list(entries)
    for candidate in candidates:
        new = candidate.entry
        about = terms(new.text)
        if new.kind == "file":
            result = _with_file(result, new)
            continue
        older = [entry for entry in result if entry.newest <= new.newest]
        ended = [entry for entry in older if candidate.done and _same_task(entry, about)]
        outdated = [entry for entry in older if _replaces(candidate, about, entry)]
        if candidate.changes == 1.0 and not outdated:
            outdated = _only_one_about(older, about)
        gone = {id(entry) for entry in (*ended, *outdated)}
        result = [entry for entry in result if id(entry) not in gone]
        if ended or any(_says(entry, new, about) for entry in result):
            continue  # an end needs no entry of its own once nothing is open
        if candidate.score < LEAST and not outdated:
            continue
        if outdated:
            kept = [row for entry in outdated for row in entry.rows]
            new = replace(new, kind=outdated[-1].kind, rows=few_rows([*kept, *new.rows]))
        result.append(new)
    return result


def _says(entry: Entry, new: Entry, about: Terms) -> bool:
    """Whether an entry makes a candidate redundant: it says the same, or something newer."""
    other = terms(entry.text)
    shared = about.words & other.words
    close = overlap(about.words, other.words)
    if entry.newest > new.newest and other.values and len(shared) >= 2 and close >= 0.6:
        return True
    if about.values <= other.values | other.words:
        return close >= 0.5 or bool(set(entry.rows) & set(new.rows))
    return False


def _same_task(entry: Entry, about: Terms) -> bool:
    if entry.kind != "open":
        return False
    other = terms(entry.text)
    shared = about.words & other.words
    named = about.values & other.values
    return bool(named and shared) or (len(shared) >= 2 and overlap(about.words, other.words) >= 0.5)


def _replaces(candidate: Candidate, about: Terms, entry: Entry) -> bool:
    """Whether a later statement makes an entry untrue: the same matter, another value."""
    if entry.kind not in _PLAIN or candidate.entry.kind not in _PLAIN:
        return False
    other = terms(entry.text)
    shared = about.words & other.words
    named = candidate.outdated & other.values
    if named and (shared or any(strength(value) > 0.5 for value in named)):
        return True
    close = overlap(about.words, other.words)
    if candidate.done and about.values & other.values and len(shared) >= 2 and close >= 0.6:
        return True  # the same thing by name: what is said of it last holds
    if about.values and about.values <= other.values:
        return False  # nothing new is said
    # The surer the words of change, the less alike the two must be.
    return len(shared) >= 2 and close >= 1.0 - candidate.changes / 2


def _only_one_about(entries: list[Entry], about: Terms) -> list[Entry]:
    """The one entry that shares a word with a change, if there is no other it could mean."""
    sharing = [e for e in entries if e.kind in _PLAIN and terms(e.text).words & about.words]
    return sharing if len(sharing) == 1 else []


def _with_file(entries: list[Entry], new: Entry) -> list[Entry]:
    path = new.text.split(" (", 1)[0]
    rest, rows = [], list(new.rows)
    for entry in entries:
        if entry.kind == "file" and entry.text.split(" (", 1)[0] == path:
            rows += entry.rows[-1:]
        else:
            rest.append(entry)
    return [*rest, replace(new, rows=few_rows(rows)[-1:])]


def fit_entries(entries: Sequence[Entry], tokens: int, focus: str | None = None) -> list[Entry]:
    """The entries that are worth the most within so many tokens, by kind and age.

    What is short and what was said lately is preferred, and what touches the focus above all.
    """
    ages = {entry: age for age, entry in enumerate(sorted(entries, key=lambda e: e.newest))}
    costs = {entry: text_tokens(entry.line()) + 1 for entry in entries}
    worth = {entry: _worth(entry, focus, ages[entry] / len(ages)) for entry in entries}
    room = float(tokens - sum(text_tokens(heading) + 1 for heading in HEADINGS.values()))
    files = room * _FILES_SHARE
    chosen: set[Entry] = set()
    for entry in sorted(worth, key=lambda e: worth[e] / costs[e] ** 0.5, reverse=True):
        cost = costs[entry]
        if cost > room or (entry.kind == "file" and cost > files):
            continue
        chosen.add(entry)
        room -= cost
        files -= cost if entry.kind == "file" else 0
        if len(chosen) == MOST_ENTRIES:
            break
    kept = dict.fromkeys(entry for entry in entries if entry in chosen)
    return sorted(kept, key=lambda entry: (KINDS.index(entry.kind), entry.newest))


def _worth(entry: Entry, focus: str | None, freshness: float) -> float:
    about = terms(entry.text)
    worth = _WORTH[entry.kind] + min(sum(map(strength, about.values)), 2.0) + 2.0 * freshness
    if touches(entry.text, focus):
        worth += 20.0
    return worth - 1.0 * (len(entry.text) > LONGEST_TEXT * 2 // 3)
