"""Does search find the turns that answer a question, asked as people ask?

A set of conversations and questions (`evidence_talk`) is stored, and each question is typed into
the search as it is. Counted is the share of the turns with the answer among the first ten hits,
beside bare SQLite FTS5 with a stemmer and OR over the same turns. The half of the stories that the
ranking was tuned on is not reported.
"""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import apsw

from agent.learning.earlier_turns import earlier_turns
from hermes_state import SessionDB
from hermes_state.owners import EVERYONE
from hermes_state.search.folding import words

from .evidence_talk import Half, Question, make
from .lab import Lab, Measurement, run_all
from .measure import Finding, progress

HITS = 10
GOAL = 0.8
Finder = Callable[[str], Sequence[int]]


def fill(db: SessionDB, half: Half) -> dict[tuple[int, int], int]:
    """Store the conversations; returns the message id of each turn."""
    ids = {}
    for talk, sessions in enumerate(half.talks):
        number = 0
        for place, turns in enumerate(sessions):
            session = db.create_session(f"talk-{talk}-{place}", source="cli")
            for turn in turns:
                ids[talk, number] = db.append_message(
                    session, turn.role, turn.text, timestamp=turn.timestamp
                )
                number += 1
    return ids


def bare(half: Half, ids: dict[tuple[int, int], int]) -> Finder:
    """SQLite's own search: porter stemmer, all words of the question with OR, bm25."""
    conn = apsw.Connection(":memory:")
    conn.execute("CREATE VIRTUAL TABLE turn USING fts5(text, tokenize='porter unicode61')")
    for talk, sessions in enumerate(half.talks):
        turns = [turn for session in sessions for turn in session]
        conn.executemany(
            "INSERT INTO turn (rowid, text) VALUES (?, ?)",
            [(ids[talk, number], turn.text) for number, turn in enumerate(turns)],
        )

    def find(text: str) -> list[int]:
        expression = " OR ".join(f'"{word}"' for word in words(text))
        rows = conn.execute(
            "SELECT rowid FROM turn WHERE turn MATCH ? ORDER BY bm25(turn) LIMIT ?",
            (expression, HITS),
        )
        return [rowid for (rowid,) in rows]

    return find


def ours(db: SessionDB, **options: object) -> Finder:
    """The search that everybody uses."""

    def find(text: str) -> list[int]:
        return [hit["id"] for hit in db.search_messages(text, limit=HITS, **options)]  # type: ignore[arg-type]

    return find


def recall(
    questions: Sequence[Question], ids: dict[tuple[int, int], int], find: Finder
) -> dict[str, tuple[float, int]]:
    """By style, language and over all: the share of evidence found, and of how many questions."""
    shares = collections.defaultdict(list)
    for question in questions:
        if not question.evidence:
            continue
        hits = set(find(question.text))
        wanted = [ids[place] for place in question.evidence]
        share = sum(number in hits for number in wanted) / min(len(wanted), HITS)
        for key in ("all", f"style {question.style}", f"language {question.language}"):
            shares[key].append(share)
    return {key: (sum(some) / len(some), len(some)) for key, some in shares.items()}


def answers(
    half: Half, folder: Path
) -> tuple[dict[str, dict[str, tuple[float, int]]], list[float]]:
    """What each way of searching finds of a half, and how long ours took for each question."""
    took: list[float] = []
    with SessionDB(folder / "state.db") as db:
        ids = fill(db, half)
        db.search_messages("warm")
        search = ours(db)

        def timed(text: str) -> Sequence[int]:
            started = time.perf_counter()
            hits = search(text)
            took.append(time.perf_counter() - started)
            return hits

        ways = {"ours": timed, "all words": ours(db, related=False), "bare FTS5": bare(half, ids)}
        return {name: recall(half.questions, ids, find) for name, find in ways.items()}, took


def evidence(lab: Lab) -> list[Finding]:
    """The share of the answers among the first ten hits, over all and by style and language."""
    progress("asking questions about conversations")
    half = make("report")
    found, took = answers(half, lab.folder)
    findings = []
    for key, (share, count) in found["ours"].items():
        is_all = key == "all"
        findings.append(
            Finding(
                f"finds the evidence, {key} ({count} questions): in the first {HITS} hits",
                ours=f"{share:.1%}",
                theirs="not measured",
                bare=f"{found['bare FTS5'][key][0]:.1%}",
                goal=f"≥ {GOAL:.0%}" if is_all else "",
                met=share >= GOAL if is_all else None,
                details={name: way[key] for name, way in found.items()},
            )
        )
    findings.append(
        Finding(
            "a question in 2,000 messages: median, worst",
            ours=f"{statistics.median(took) * 1000:.1f}, {max(took) * 1000:.1f} ms",
            details={"seconds": took},
        )
    )
    return findings


def recalled(lab: Lab) -> list[Finding]:
    """How often the turns that are sent along with a message hold the answer to it."""
    progress("sending earlier turns along with messages")
    half = make("report")
    held, sent = [], []
    (folder := lab.folder / "recalled").mkdir()
    with SessionDB(folder / "state.db") as db:
        ids = fill(db, half)
        for question in half.questions:
            text = earlier_turns(db, EVERYONE, f"Do you remember? {question.text}", None)
            if question.evidence:
                wanted = [ids[place] for place in question.evidence]
                held.append(any(f"around_message_id={number})" in text for number in wanted))
            else:
                sent.append(bool(text))
    return [
        Finding(
            f"recall in a turn ({len(held)} questions): the turns sent along hold an answer",
            ours=f"{sum(held) / len(held):.1%}",
            details={"held": sum(held), "questions": len(held)},
        ),
        Finding(
            f"recall in a turn: something sent along for {len(sent)} questions without answer",
            ours=str(sum(sent)),
        ),
    ]


MEASUREMENTS: dict[str, Measurement] = {"found": evidence, "recalled": recalled}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Ask the questions and print what was found."""
    return run_all("evidence", MEASUREMENTS, parts)
