"""The same searches in the same messages, by our store, by hermes-agent's and by one FTS5 table.

Only what all three understand is asked: words, phrases and prefixes. `store_search` asks ours much
more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics

from .corpus import COMMONEST, RARE, RARE_PHRASE, vocabulary
from .measure import Finding, in_columns, interleaved, medians, progress
from .processes import Child
from .rows import Row
from .store_lab import SLOW_PHASE, Lab

LIMIT = 20
SMALL = 25_000
"""Messages in a small store."""
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


def small_rivals(lab: Lab) -> list[Finding]:
    """The same in a small store, where what every search costs weighs most."""
    if lab.sizes.stored <= SMALL:
        return []  # the big one is no bigger
    sizes = dataclasses.replace(lab.sizes, stored=SMALL)
    little = Lab(lab.folder / "small", sizes, lab.yardstick, lab.durability)
    little.folder.mkdir()
    return rivals(little, "search.small")


def rivals(lab: Lab, key: str = "search") -> list[Finding]:
    """The time of a typical search and of the slowest one, on every side."""
    stored = lab.sizes.stored
    asked = questions()
    # Theirs first: while it is filled, so is ours.
    files = {"theirs": lab.theirs_big} if lab.yardstick else {}
    files |= {"ours": lab.big, "bare": lab.big}
    _ = lab.index_seconds  # ours is built now, alone on the machine
    with contextlib.ExitStack() as stack:
        children = {
            side: stack.enter_context(lab.child(side, path)) for side, path in files.items()
        }
        for side, child in children.items():
            progress(f"{side}: the first searches in {stored:,} messages, building what is missing")
            _ask_all(child, asked)
        progress(f"{len(asked)} searches on every side")
        found = interleaved(
            {side: functools.partial(_ask_all, child, asked) for side, child in children.items()},
            lab.sizes.search_rounds,
            seconds=SLOW_PHASE,
        )
    typical = {
        side: [statistics.median(one.values()) for one in rounds] for side, rounds in found.items()
    }
    worst = {side: [max(one.values()) for one in rounds] for side, rounds in found.items()}
    return [
        _finding(f"search in {stored:,} messages, {what}", f"{key}.{which}", times, found)
        for what, which, times in (
            ("typical", "typical", typical),
            (f"slowest of {len(asked)}", "slowest", worst),
        )
    ]


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
