"""What commands print: plain text that fits a terminal and a pipe."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from hermes_cli.command_run import UserError
from hermes_cli.terminal_guard import harmless, unguarded, visible


def print_json(value: Any) -> None:
    """A value for scripts."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def has_colour() -> bool:
    """Whether standard output shows colours: a terminal, and nobody asked for none."""
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def bold(text: str) -> str:
    """Text that stands out, in a terminal."""
    return f"\x1b[1m{text}\x1b[0m" if has_colour() else text


def dim(text: str) -> str:
    """Text that stands back, in a terminal."""
    return f"\x1b[2m{text}\x1b[0m" if has_colour() else text


def width() -> int:
    """How many columns there are; a pipe has as many as it needs."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 200


def when(at: float | None) -> str:
    """A time as people write it."""
    if not at:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # a clock that was very wrong
        return "-"


def size(count: float) -> str:
    """A number of bytes as people write it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def one_line(text: str, longest: int) -> str:
    """The beginning of a text on one line."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= longest else flat[: max(1, longest - 1)] + "…"


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns under their names; the last one takes what room is left."""
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    widths = [
        max(len(name), *(len(row[column]) for row in cells)) if cells else len(name)
        for column, name in enumerate(head)
    ]
    left = max(10, width() - sum(widths[:-1]) - 2 * (len(head) - 1))
    for number, row in enumerate([list(head), *cells]):
        parts = [cell.ljust(wide) for cell, wide in zip(row[:-1], widths, strict=False)]
        line = "  ".join([*parts, one_line(row[-1], left)]).rstrip()
        print(bold(line) if number == 0 else line)


def confirm(question: str, yes: bool) -> None:
    """Go on only if a person agrees; raises UserError if they do not, or nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{question} Nobody is there to answer; repeat it with --yes.")
    if input(f"{harmless(question)} [y/N] ").strip().lower() not in ("y", "yes"):
        raise UserError("Nothing was changed.")


def progress(label: str) -> Any:
    """Shows (done, total) on standard error: a line that changes in a terminal, else nothing."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    terminal = unguarded(sys.stderr)

    def show(done: int, total: int) -> None:
        share = done * 100 // max(total, 1)
        end = "\n" if done >= total else ""
        terminal.write(f"\r{harmless(label)} {done} of {total} ({share}%){end}")
        terminal.flush()

    return show
