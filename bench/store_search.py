"""Search in the big store: building the index, then a battery of queries.

The battery looks for what is slow, not for what is likely: the commonest words, phrases of them
that stand nowhere, filters that leave almost nothing over. A fast answer counts only if it is
complete, so where a scan of the table can tell how many messages match, the hits are counted too.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermes_state import SessionDB

from .corpus import CJK_TERMS, COMMONEST, RARE, RARE_PHRASE, vocabulary
from .measure import Finding, interleaved, progress
from .store_lab import Lab, query

SLOWEST = 0.050
LIMIT = 20
AFTER_APPEND = "right after an append"
NEW = "eleutheromania"
"""A word that is in no message but those appended between searches."""


@dataclass(frozen=True)
class Question:
    """One search."""

    name: str
    text: str
    options: dict[str, Any] = field(default_factory=dict)
    scan: str = ""
    """A condition on `messages m JOIN sessions s` that says which messages should be found."""


def battery(since: float, until: float) -> list[Question]:
    """The queries; the two times enclose a small part of the store."""
    words = vocabulary()
    the, of = COMMONEST[:2]
    inside = RARE[2:6]
    return [
        Question("commonest word", the),
        Question("commonest word, newest first", the, {"sort": "newest"}),
        Question("commonest word, oldest first", the, {"sort": "oldest"}),
        Question("commonest word, page 50", the, {"offset": 49 * LIMIT}),
        Question("commonest word, one hit a conversation", the, {"one_per_conversation": True}),
        Question("commonest word, from a rare source", the, {"source_filter": ["cron"]}),
        Question("commonest word, tool results only", the, {"role_filter": ["tool"]}),
        Question("commonest word, one of 40 owners", the, {"user_id": "user-7"}),
        Question("commonest word, short time", the, {"since": since, "until": until}),
        Question("frequent word", words[100]),
        Question("medium word", words[1000]),
        Question("rare word", RARE, scan=f"instr(m.content, '{RARE}')"),
        Question("no such word", "xqzjwv", scan="instr(m.content, 'xqzjwv')"),
        Question("two commonest words", f"{the} {of}"),
        Question("two medium words", f"{words[300]} {words[400]}"),
        Question("two seldom words", f"{words[9000]} {words[9001]}"),
        Question("commonest and rare word", f"{the} {RARE}"),
        Question("either of two words", f"{RARE} OR {words[1000]}"),
        Question("rare word without the commonest", f"{RARE} -{the}"),
        Question("a typed sentence", " ".join([*COMMONEST[:6], *words[200:1200:200]])),
        Question("a question", f"what did we say about {words[900]} and {words[2500]}?"),
        Question("a question of many words", f"when was {' '.join(words[100:1700:200])} repaired"),
        Question("a question of common words", f"what about {' '.join(words[30:38])}"),
        Question("a question, one of 40 owners", f"who has {words[900]}?", {"user_id": "user-7"}),
        Question("phrase of common words", f'"{of} {the}"'),
        Question("phrase of common words, nowhere", f'"{" ".join([the, of] * 5)}"'),
        Question("rare phrase", f'"{RARE_PHRASE}"', scan=f"instr(m.content, '{RARE_PHRASE}')"),
        Question("prefix, one letter", "t*"),
        Question("prefix, three letters", f"{words[300][:3]}*"),
        Question("part of a rare word", inside, scan=f"instr(m.content, '{inside}')"),
        Question("part of many words", words[150][:3]),
        Question("Chinese word", CJK_TERMS[0]),
        Question("Korean word", CJK_TERMS[2]),
        Question("one Chinese character", chr(0x4E00 + 40)),
        Question(
            "rare word, one hit a conversation",
            RARE,
            {"one_per_conversation": True},
            scan=f"instr(m.content, '{RARE}')",
        ),
        Question(
            "Chinese word, from a rare source",
            CJK_TERMS[1],
            {"source_filter": ["cron"]},
            scan=f"instr(m.content, '{CJK_TERMS[1]}') AND s.source = 'cron'",
        ),
        Question("not a query at all", "foo\"(bar* NEAR/2 -- ; DROP TABLE 'x"),
    ]


def expected_hits(lab: Lab, question: Question) -> int:
    """How many hits a scan of the table would give, up to the limit."""
    what = "m.session_id" if question.options.get("one_per_conversation") else "m.id"
    found = query(
        lab.big,
        f"SELECT COUNT(DISTINCT {what}) FROM messages m JOIN sessions s ON s.id = m.session_id"
        f" WHERE {question.scan}",
    )
    return min(LIMIT, int(found[0][0]))


def search(lab: Lab) -> list[Finding]:
    """Time to build the index, time of each query, and of a query right after an append."""
    stored = lab.sizes.stored
    took = lab.index_seconds
    first, last = query(lab.big, "SELECT MIN(timestamp), MAX(timestamp) FROM messages")[0]
    questions = battery(first + (last - first) * 0.40, first + (last - first) * 0.41)
    progress(f"{len(questions)} queries in {stored:,} messages")
    counts: dict[str, int] = {}
    cpu: dict[str, list[float]] = {}

    def ask(db: SessionDB, question: Question) -> float:
        started, cpu_started = time.perf_counter(), time.process_time()
        hits = db.search_messages(question.text, limit=LIMIT, **question.options)
        seconds = time.perf_counter() - started
        cpu.setdefault(question.name, []).append(time.process_time() - cpu_started)
        counts[question.name] = len(hits)
        return seconds

    def ask_after_append(db: SessionDB) -> float:
        db.append_message(session, "user", f"nobody has said {NEW} before")
        return ask(db, Question(AFTER_APPEND, NEW))

    with SessionDB(lab.big) as db:
        session = query(lab.big, "SELECT MIN(id) FROM sessions")[0][0]
        sides: dict[str, Callable[[], float]] = {
            question.name: functools.partial(ask, db, question) for question in questions
        }
        sides[AFTER_APPEND] = functools.partial(ask_after_append, db)
        times = interleaved(sides, lab.sizes.search_rounds)
    scanned = {q.name: expected_hits(lab, q) for q in questions if q.scan}
    incomplete = [name for name, wanted in scanned.items() if counts[name] != wanted]
    slowest = max(times, key=lambda name: max(times[name]))
    return [
        Finding(
            f"search index built: messages per second ({took:.0f} s)",
            ours=f"{stored / took:,.0f}",
            details={"seconds": took, "messages": stored},
        ),
        *(
            Finding(
                f"search, {name}: median, worst",
                ours=f"{statistics.median(found) * 1000:.1f}, {max(found) * 1000:.1f} ms",
                goal=f"worst ≤ {SLOWEST * 1000:.0f} ms",
                met=max(found) <= SLOWEST,
                details={
                    "seconds": found,
                    "cpu_seconds": cpu[name],
                    "hits": counts[name],
                    "scanned": scanned.get(name),
                },
            )
            for name, found in times.items()
        ),
        Finding(
            f"search in {stored:,} messages, worst of {len(times)} queries",
            ours=f"{max(times[slowest]) * 1000:.1f} ms",
            goal=f"≤ {SLOWEST * 1000:.0f} ms",
            met=max(times[slowest]) <= SLOWEST,
            details={"slowest": slowest},
        ),
        Finding(
            f"search, queries with other hits than a scan of the table ({len(scanned)} checked)",
            ours=str(len(incomplete)),
            goal="0",
            met=not incomplete,
            details={"incomplete": {name: (counts[name], scanned[name]) for name in incomplete}},
        ),
    ]
