"""Does search find the turns that answer a question, asked as people ask?

A set of conversations and questions (`evidence_talk`) is stored, and each question is typed into
the search as it is. Counted is the share of the turns with the answer among the first ten hits:
of ours by words alone, and with vectors of the model that comes with it; of bare SQLite FTS5 with a
stemmer and OR, of those vectors alone, and of hermes-agent. The half of the stories that the
ranking was tuned on is not reported.
"""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

import apsw

from agent.learning.earlier_turns import earlier_turns
from agent.meaning.fetch import ensure_model
from agent.meaning.static_model import StaticModel
from hermes_state import Embedder, EmbedderError, SessionDB
from hermes_state.meaning.coarse import Allowed
from hermes_state.owners import EVERYONE
from hermes_state.search.folding import words

from .evidence_talk import Half, Question, make
from .evidence_vectors import vectors
from .lab import Lab, Measurement, run_all
from .measure import OUT, Finding, progress
from .processes import Child

HITS = 10
GOAL = 0.80
GOAL_WITH_VECTORS = 0.83
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


def the_model() -> Embedder | None:
    """The model that comes with search by meaning, fetched once for all runs."""
    try:
        return StaticModel(ensure_model(OUT))
    except EmbedderError as error:
        progress(f"without vectors: {error}")
        return None


def by_vectors(db: SessionDB) -> Finder:
    """The vectors alone."""
    meaning = db.search_index.meaning
    assert meaning is not None

    def find(text: str) -> list[int]:
        likeness = meaning.question(text)
        return likeness.nearest(Allowed(), HITS) if likeness is not None else []

    return find


def public(child: Child, half: Half, ids: dict[tuple[int, int], int]) -> Finder:
    """The search of hermes-agent."""
    sessions: dict[str, list[tuple[str, str]]] = {}
    places: dict[str, list[tuple[int, int]]] = {}
    for talk, told in enumerate(half.talks):
        number = 0
        for place, turns in enumerate(told):
            name = f"talk-{talk}-{place}"
            sessions[name] = [(turn.role, turn.text) for turn in turns]
            places[name] = [(talk, number + at) for at in range(len(turns))]
            number += len(turns)
    theirs = child.ask("fill", sessions=sessions)["ids"]
    ours_of = {
        number: ids[place]
        for name, numbers in theirs.items()
        for number, place in zip(numbers, places[name], strict=True)
    }

    def find(text: str) -> list[int]:
        found = child.ask("find", text=text, limit=HITS)["ids"]
        return [ours_of[number] for number in found if number in ours_of]

    return find


Shares = dict[str, tuple[float, int]]


def answers(
    half: Half, lab: Lab, model: Embedder | None = None
) -> tuple[dict[str, Shares], dict[str, list[float]]]:
    """What each way of searching finds of a half, and how long ours took for each question."""
    took: dict[str, list[float]] = {"by words": [], "with vectors": []}

    def timed(name: str, search: Finder) -> Finder:
        def find(text: str) -> Sequence[int]:
            started = time.perf_counter()
            hits = search(text)
            took[name].append(time.perf_counter() - started)
            return hits

        return find

    found: dict[str, Shares] = {}

    def ask(name: str, find: Finder) -> None:
        progress(f"asking {len(half.questions)} questions: {name}")
        found[name] = recall(half.questions, ids, find)

    with contextlib.ExitStack() as stack:
        db = stack.enter_context(SessionDB(lab.folder / "state.db"))
        ids = fill(db, half)
        db.search_messages("warm")
        ask("by words", timed("by words", ours(db)))
        ask("all words", ours(db, related=False))
        ask("bare FTS5", bare(half, ids))
        if model is not None:
            db.search_index.search_by_meaning(lambda: model).catch_up()
            db.search_messages("warm words that nobody said")
            ask("with vectors", timed("with vectors", ours(db)))
            ask("vectors alone", by_vectors(db))
        if lab.yardstick:
            child = Child(lab.folder, python=lab.yardstick, module="bench.evidence_child")
            stack.enter_context(child)
            ask("hermes-agent", public(child, half, ids))
    return found, took


def evidence(lab: Lab) -> list[Finding]:
    """The share of the answers among the first ten hits, over all and by style and language."""
    found, took = answers(make("report"), lab, the_model())
    findings = []
    for way, goal in (("by words", GOAL), ("with vectors", GOAL_WITH_VECTORS)):
        for key, (share, count) in found.get(way, {}).items():
            is_all = key == "all"
            findings.append(
                Finding(
                    f"finds the evidence {way}, {key} ({count} questions), in {HITS} hits",
                    ours=f"{share:.1%}",
                    theirs=_share(found, "hermes-agent", key),
                    bare=_share(found, "bare FTS5", key),
                    goal=f"≥ {goal:.0%}" if is_all else "",
                    met=share >= goal if is_all else None,
                    details={name: shares[key] for name, shares in found.items()},
                )
            )
    if "vectors alone" in found:
        findings.append(
            Finding(f"vectors alone, in {HITS} hits", ours=_share(found, "vectors alone", "all"))
        )
    findings += [
        Finding(
            f"a question in 2,000 messages {way}: median, worst",
            ours=f"{statistics.median(seconds) * 1000:.1f}, {max(seconds) * 1000:.1f} ms",
            details={"seconds": seconds},
        )
        for way, seconds in took.items()
        if seconds
    ]
    return findings


def _share(found: dict[str, Shares], way: str, key: str) -> str:
    return f"{found[way][key][0]:.1%}" if way in found else "not measured"


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


MEASUREMENTS: dict[str, Measurement] = {
    "found": evidence,
    "recalled": recalled,
    "vectors": vectors,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Ask the questions and print what was found."""
    return run_all("evidence", MEASUREMENTS, parts)
