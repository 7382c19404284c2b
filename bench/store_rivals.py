"""The same searches in the same messages, by our store, by hermes-agent's and by one FTS5 table.

Only what all three understand is asked: words, phrases and prefixes. `store_search` asks ours much
more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics
from pathlib import Path

from .corpus import COMMONEST, RARE, RARE_PHRASE, vocabulary
from .measure import Finding, in_columns, interleaved, medians, progress
from .processes import Child
from .rows import Row
from .store_lab import SLOW_PHASE, Lab, query

LIMIT = 20
SMALL = 25_000
"""Messages in a small store."""
YOUNG = 1000
"""Messages in the store of somebody who has just begun."""
DIFFERS = (
    "of a common word's matches ours ranks the newest few hundred, the others all of them; "
    "ours and hermes-agent also read the messages around a hit"
)
BARE_SEARCH = "one FTS5 table, ranked by bm25, reading the messages found"


def questions() -> dict[str, str]:
    """The searches, by name."""
    words = vocabulary()
    the, of = COMMONEST[:2]
    return {
        "commonest word": the,
        "frequent word": words[100],
        "medium word": words[1000],
        "rare word": RARE,
        "no such word": "xqzjwv",
        "two commonest words": f"{the} {of}",
        "two medium words": f"{words[300]} {words[400]}",
        "commonest and rare word": f"{the} {RARE}",
        "either of two words": f"{RARE} OR {words[1000]}",
        "phrase of common words": f'"{of} {the}"',
        "rare phrase": f'"{RARE_PHRASE}"',
        "prefix, three letters": f"{words[300][:3]}*",
    }


def phrases(path: Path) -> dict[str, str]:
    """Searches for phrases, by name; one is taken from the store itself."""
    words = vocabulary()
    the, of = COMMONEST[:2]
    said = query(
        path,
        "SELECT content FROM messages WHERE content GLOB '* * * * * *' AND role = 'user'"
        " ORDER BY id LIMIT 1",
    )
    inside = " ".join(said[0][0].split()[2:5])
    return {
        "phrase of common words": f'"{of} {the}"',
        "rare phrase": f'"{RARE_PHRASE}"',
        "phrase of a message": f'"{inside}"',
        "phrase that nobody said": f'"{words[300]} {words[400]}"',
    }


def small_rivals(lab: Lab) -> list[Finding]:
    """The same in smaller stores, where what every search costs weighs most."""
    findings: list[Finding] = []
    for name, stored in (("small", SMALL), ("young", YOUNG)):
        if lab.sizes.stored <= stored:
            continue  # the big one is no bigger
        sizes = dataclasses.replace(lab.sizes, stored=stored)
        little = Lab(lab.folder / name, sizes, lab.yardstick, lab.durability)
        little.folder.mkdir()
        findings += rivals(little, f"search.{name}")
    return findings


def rivals(lab: Lab, key: str = "search") -> list[Finding]:
    """The time of a typical search and of the slowest one, on every side."""
    stored = lab.sizes.stored
    # Theirs first: while it is filled, so is ours.
    files = {"theirs": lab.theirs_big} if lab.yardstick else {}
    files |= {"ours": lab.big, "bare": lab.big}
    _ = lab.index_seconds  # ours is built now, alone on the machine
    asked, said = questions(), phrases(lab.big)
    with contextlib.ExitStack() as stack:
        children = {
            side: stack.enter_context(lab.child(side, path)) for side, path in files.items()
        }
        for side, child in children.items():
            progress(f"{side}: the first searches in {stored:,} messages, building what is missing")
            _ask_all(child, asked)
        progress(f"{len(asked)} searches and {len(said)} for phrases on every side")
        found, found_phrases = (
            interleaved(
                {
                    side: functools.partial(_ask_all, child, some)
                    for side, child in children.items()
                },
                lab.sizes.search_rounds,
                seconds=SLOW_PHASE,
            )
            for some in (asked, said)
        )
    worst = {side: [max(one.values()) for one in rounds] for side, rounds in found.items()}
    where = f"search in {stored:,} messages"
    return [
        _finding(f"{where}, typical", f"{key}.typical", _typical(found), found),
        _finding(f"{where}, slowest of {len(asked)}", f"{key}.slowest", worst, found),
        _finding(f"{where}, phrases", f"{key}.phrase", _typical(found_phrases), found_phrases),
    ]


def _typical(found: dict[str, list[dict[str, float]]]) -> dict[str, list[float]]:
    """The median search of each round."""
    return {
        side: [statistics.median(one.values()) for one in rounds] for side, rounds in found.items()
    }


def _finding(
    what: str, key: str, times: dict[str, list[float]], found: dict[str, list[dict[str, float]]]
) -> Finding:
    median = medians(times)
    return Finding(
        what,
        *in_columns(median, "{:.1f} ms", 1e3),
        ratio=median["ours"] / median["bare"],
        details=found,
        row=Row.of(key, what, "ms", times, 1e3, differs=DIFFERS, bare=BARE_SEARCH),
    )


def _ask_all(child: Child, asked: dict[str, str]) -> dict[str, float]:
    """Seconds of every search."""
    return {
        name: child.ask("search", text=text, limit=LIMIT)["seconds"] for name, text in asked.items()
    }
