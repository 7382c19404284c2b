"""What a run has shown: as a table, as JSON, and as the block of a README."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .adapter import SERVER_DEATHS

BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"
"""Between these lines a README has the table of a run."""

Facts = dict[str, Any]
"""Of a cell: property, implementation, kills, named, reached, cut_off, violations, seconds, …"""


def merged(cells: Iterable[Facts]) -> list[Facts]:
    """One entry for each property and implementation, in the order in which they come."""
    found: dict[tuple[str, str], Facts] = {}
    for cell in cells:
        known = found.setdefault(
            (cell["property"], cell["implementation"]), {**dict.fromkeys(cell, 0), "violations": []}
        )
        for name, fact in cell.items():
            known[name] = fact if isinstance(fact, str) else known[name] + fact
    return list(found.values())


def table(cells: Iterable[Facts]) -> list[str]:
    """Lines of Markdown: for each property and implementation, kills and violations."""
    rows = merged(cells)
    names = list(dict.fromkeys(one["implementation"] for one in rows))
    lines = ["| property | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for title in dict.fromkeys(one["property"] for one in rows):
        of_title = {one["implementation"]: one for one in rows if one["property"] == title}
        entries = [_entry(of_title.get(name)) for name in names]
        lines.append(f"| {title} | " + " | ".join(entries) + " |")
    return lines


def _entry(cell: Facts | None) -> str:
    if cell is None or not (cell["kills"] or cell["violations"]):
        return "–"
    return f"{cell['kills']:,} / {len(cell['violations'])}"


def totals(cells: Iterable[Facts]) -> str:
    """The whole run in a sentence."""
    rows = list(cells)
    kills = sum(one["kills"] for one in rows)
    violations = sum(len(one["violations"]) for one in rows)
    named = sum(one["named"] for one in rows)
    reached = sum(one["reached"] for one in rows)
    return (
        f"{kills:,} kills, {violations} violations (each entry: kills / violations)."
        f" {reached:,} of {named:,} named points were died at;"
        f" {sum(one['cut_off'] for one in rows):,} talks were cut off."
    ) + _of_server(rows)


def _of_server(rows: list[Facts]) -> str:
    """How many of the kills were of a server, or of its parts."""
    counts = {what: sum(one.get(what, 0) for one in rows) for what in SERVER_DEATHS}
    if not any(counts.values()):
        return ""
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    return f" Of the kills, {told}."


def soak_line(found: Facts) -> str:
    """A run of the soak in a sentence."""
    return (
        f"Soak: {found['chats']} chats, the gateway killed {found['kills']} times,"
        f" {found['compressions']} compressions: {found['accepted']:,} messages accepted,"
        f" {found['answered exactly once']:,} answered exactly once,"
        f" {found['not shown, and told so']:,} told that the answer may be missing or was broken"
        f" off, {len(found['violations'])} violations. Made by `make soak`."
    )


def block(cells: list[Facts], command: str, soak: Facts | None = None) -> list[str]:
    """What stands between the marks."""
    told = [*table(cells), "", f"{totals(cells)} Made by `{command}`."]
    return [*told, "", soak_line(soak)] if soak else told


def update_readme(path: Path, lines: list[str]) -> bool:
    """Put lines between the two marks of a file; False if it does not have them."""
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return False
    path.write_text("\n".join([before + begin, *lines, end + after]))
    return True
