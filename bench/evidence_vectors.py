"""What vectors cost: feeding, disk, and questions in many messages, by words and with vectors."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

from agent.meaning.fetch import ensure_model
from agent.meaning.static_model import StaticModel
from hermes_state import EmbedderError, SessionDB

from .corpus import Corpus, Message, vocabulary
from .lab import Lab
from .measure import OUT, Finding, progress
from .store_lab import text_bytes

SMALL, LARGE = 25_000, 1_000_000
QUESTIONS = 60
NEW = 1000
ROUNDS = 4
FED_PER_SECOND = 300
TYPICAL = {SMALL: 0.010, LARGE: 0.025}
WORST = 0.060
AFTER_NEW = 0.150
DISK = 3.0
_SESSION = 200


def fill(db: SessionDB, messages: list[Message]) -> None:
    """Store messages, in sessions of a few hundred."""
    for start in range(0, len(messages), _SESSION):
        session = db.create_session(f"s-{start}", "cli")
        db.replace_messages(session, messages[start : start + _SESSION])


def vectors(lab: Lab) -> list[Finding]:
    """The costs in a small store, and in a large one unless the run is a quick one."""
    try:
        model = StaticModel(ensure_model(OUT))
    except EmbedderError as error:
        progress(f"without vectors: {error}")
        return []
    findings: list[Finding] = []
    for count in (SMALL,) if lab.quick else (SMALL, LARGE):
        findings += _costs(lab.folder / f"vectors-{count}", count, model)
    return findings


def _costs(folder: Path, count: int, model: StaticModel) -> list[Finding]:
    folder.mkdir()
    where = f"in {count:,} messages"
    draw = random.Random(3)
    words = vocabulary()
    # Words that most messages lack, in sentences: what is asked of a store is mostly rare in it.
    questions = [
        f"what did we say about {words[draw.randrange(40, 4000)]} and"
        f" {words[draw.randrange(40, 4000)]}?"
        for _ in range(QUESTIONS)
    ]
    with SessionDB(folder / "state.db") as db:
        progress(f"{count:,} messages")
        corpus = Corpus(5)
        fill(db, corpus.messages(count))
        db.search_index.catch_up()
        by_words = _ask(db, questions)
        meaning = db.search_index.search_by_meaning(lambda: model)
        progress("making their vectors")
        started = time.thread_time()
        made = meaning.catch_up()
        fed = made / (time.thread_time() - started)
        with_vectors = _ask(db, questions)
        db.create_session("new", "cli")
        db.replace_messages("new", corpus.messages(NEW))
        started = time.perf_counter()
        db.search_messages("what did nobody say about zeppelins?")
        after = time.perf_counter() - started
        meaning.feed_in_background().join()
    size = text_bytes(folder / "state.db")
    names = ("state.db", "search.db", "vectors.db")
    disk = sum((folder / name).stat().st_size for name in names)
    goal = TYPICAL[count]
    return [
        Finding(
            f"a question {where}, by words: median, worst", ours=_times(by_words),
            details={"seconds": by_words},
        ),
        Finding(
            f"a question {where}, with vectors: median, worst", ours=_times(with_vectors),
            goal=f"≤ {goal * 1000:.0f}, ≤ {WORST * 1000:.0f} ms",
            met=statistics.median(with_vectors) <= goal and max(with_vectors) <= WORST,
            details={"seconds": with_vectors},
        ),
        Finding(
            f"the first question after {NEW:,} new messages {where}",
            ours=f"{after * 1000:.0f} ms", goal=f"≤ {AFTER_NEW * 1000:.0f} ms",
            met=after <= AFTER_NEW,
        ),
        Finding(
            f"vectors made {where}: messages per second of one core", ours=f"{fed:,.0f}",
            goal=f"≥ {FED_PER_SECOND}", met=fed >= FED_PER_SECOND,
        ),
        Finding(
            f"disk with vectors {where}, per byte of text", ours=f"{disk / size:.2f}",
            goal=f"≤ {DISK:.1f}", met=disk / size <= DISK,
        ),
    ]  # fmt: skip


def _ask(db: SessionDB, questions: list[str]) -> list[float]:
    """Seconds of each question: the best of a few times, as others use the machine too."""
    took: dict[str, list[float]] = {question: [] for question in questions}
    for _ in range(ROUNDS + 1):
        for question in questions:
            started = time.perf_counter()
            db.search_messages(question, limit=10)
            took[question].append(time.perf_counter() - started)
    return [min(times[1:]) for times in took.values()]  # not the first, which reads the files


def _times(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}, {max(seconds) * 1000:.1f} ms"
