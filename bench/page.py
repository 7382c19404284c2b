"""`RESULTS.md`: the whole table in Markdown, and the short one that the README repeats.

The short table stands in the page between two comments, and in the README between two others; what
is between them is the same text. The page says nothing of the machine but its cores, its system and
the versions of Python and SQLite.
"""

from __future__ import annotations

from pathlib import Path

from .rows import Report, Row
from .yardstick import NAME

SHORT_BEGIN, SHORT_END = "<!-- short:begin -->", "<!-- short:end -->"
README_BEGIN, README_END = "<!-- bench:begin -->", "<!-- bench:end -->"
SHORT = (
    "start.version", "start.question", "start.painted", "start.ready", "engine.turn",
    "gateway.over.1", "gateway.rate.100", "gateway.memory.100", "store.append",
    "store.writers.each", "store.load", "search.young.typical", "search.small.typical",
    "search.typical", "search.slowest", "store.disk", "recall.alone.3", "kills",
)  # fmt: skip
FAR_FROM_BARE = 2.0


def page(report: Report) -> str:
    """The whole page."""
    notes: list[str] = []
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`. Every figure is the median of several rounds in which the sides",
        "took turns, ± half the interquartile range. A ratio above 1 says how many times better",
        "Hermes is, a ratio below 1 that it is behind.",
        "",
        _circumstances(report),
        "",
        SHORT_BEGIN,
        short(report),
        SHORT_END,
        "",
        f"![How many times better than {NAME}](results.svg)",
        "",
        "## Where it is behind",
        "",
        *behind(report),
        "",
        "## All figures",
        "",
        f"| | Hermes | {NAME} | bare | × hermes-agent | × bare | |",
        "|---|--:|--:|--:|--:|--:|---|",
        *(_line(row, notes) for row in report.rows),
        "",
        *(f"{number}. {note}" for number, note in enumerate(notes, start=1)),
    ]
    if report.failed:
        lines += ["", "## Not measured", ""]
        lines += [f"- {what}: {why}" for what, why in report.failed.items()]
    return "\n".join(lines) + "\n"


def _circumstances(report: Report) -> str:
    facts = report.facts
    said = (
        f"This was {facts['cores']} cores, {facts['system']}, Python {facts['python']},"
        f" SQLite {facts['sqlite']}."
    )
    if facts["durability"]:
        said += f" Every side's store writes with {facts['durability']}."
    if facts["missing"]:
        said += f" **{NAME} was not measured: it {facts['missing']}.**"
    if facts["quick"]:
        said += " **This was a quick run: small sizes, few rounds; only large ratios mean much.**"
    return said


def _line(row: Row, notes: list[str]) -> str:
    cells = [
        f"{row.what}{_marks(row, notes)}",
        row.figure("ours"),
        row.figure("theirs") or "–",
        row.figure("bare") or "–",
        times(row.times_better("theirs")) or "–",
        times(row.times_better("bare")) or "–",
        _verdict(row),
    ]
    return f"| {' | '.join(cells)} |"


def _marks(row: Row, notes: list[str]) -> str:
    said = [row.differs and f"Not quite the same work: {row.differs}."]
    said.append(row.bare and f"Bare: {row.bare}.")
    said.append(row.absent and f"{NAME} is not measured here: {row.absent}.")
    marks = []
    for note in filter(None, said):
        if note not in notes:
            notes.append(note)
        marks.append(str(notes.index(note) + 1))
    return f" <sup>{', '.join(marks)}</sup>" if marks else ""


def _verdict(row: Row) -> str:
    if row.fault:
        return f"**{row.fault}**"
    found = row.verdict()
    return f"**{found}**" if found == "behind" else found or "–"


def times(ratio: float | None) -> str:
    """A ratio as it is shown, such as `16×`; empty for None."""
    if ratio is None:
        return ""
    return f"{ratio:,.{0 if ratio >= 9.95 else 1 if ratio >= 1 else 2}f}×"


def behind(report: Report) -> list[str]:
    """Where it is behind hermes-agent, and where it is far from what is possible."""
    far = [
        row
        for row in report.rows
        if (ratio := row.times_better("bare")) and ratio * FAR_FROM_BARE < 1
    ]
    lines = [*_faults(report), _behind_theirs(report)]
    if far:
        lines += ["", _listed("More than two times from the bare limit", far, "bare")]
    return lines


def _faults(report: Report) -> list[str]:
    wrong = [f"**{row.what}: {row.fault}.**" for row in report.rows if row.fault]
    return [" ".join(wrong), ""] if wrong else []


def _behind_theirs(report: Report) -> str:
    if not any(row.times_better("theirs") for row in report.rows):
        return f"{NAME} was not measured, so nothing can be said of it."
    worse = [row for row in report.rows if row.verdict() == "behind"]
    return _listed(f"Behind {NAME}", worse, "theirs")


def _listed(what: str, rows: list[Row], other: str) -> str:
    if not rows:
        return f"{what}: nowhere in this run."
    each = (f"{row.what} ({times(row.times_better(other))})" for row in rows)
    return f"{what}: {'; '.join(each)}."


def short(report: Report) -> str:
    """The table for the README."""
    by_key = {row.key: row for row in report.rows}
    rows = [by_key[key] for key in SHORT if key in by_key]
    lines = [f"| | Hermes | {NAME} | bare limit | |", "|---|--:|--:|--:|---|"]
    for row in rows:
        ratio = "" if row.fault else times(row.times_better("theirs"))
        figures = [row.figure(side) or "–" for side in ("ours", "theirs", "bare")]
        lines.append(
            f"| {row.what} | {' | '.join(figures)} | {f'{ratio} {_verdict(row)}'.strip()} |"
        )
    return "\n".join([*lines, "", *_faults(report), _behind_theirs(report)])


def between(text: str, begin: str, end: str) -> str | None:
    """What stands between two markers; None if they are not there."""
    _, found, rest = text.partition(f"{begin}\n")
    inside, ended, _ = rest.partition(f"\n{end}")
    return inside if found and ended else None


def update_readme(readme: Path, results: Path) -> bool:
    """Put the short table of the page into the README; False if it has no markers for it."""
    block = between(results.read_text(), SHORT_BEGIN, SHORT_END)
    if block is None:
        raise ValueError(f"{results} has no short table; make it anew with: make bench")
    text = readme.read_text()
    head, begun, rest = text.partition(README_BEGIN)
    _, ended, tail = rest.partition(README_END)
    if not begun or not ended:
        return False
    readme.write_text(f"{head}{README_BEGIN}\n{block}\n{README_END}{tail}")
    return True
