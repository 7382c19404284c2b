"""`hermes logs`: the log files of Hermes, in which secrets are masked."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from agent.home import hermes_home

EXAMPLES = """\
hermes logs                             the last lines
hermes logs -f                          and what comes, until Ctrl-C
hermes logs --level warning             only warnings and worse
hermes logs --file errors -n 200        another file, more lines
hermes logs --session 20260101_101010   only about this conversation
"""
LEVELS = ("debug", "info", "warning", "error", "critical")
FILES = ("agent", "errors", "gateway")
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) ")
_PAUSE = 0.3


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("logs", help="read and follow the log", examples=EXAMPLES)
    parser.add_argument("-n", "--lines", type=_count, default=50, help="how many records (50)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as more is written")
    parser.add_argument("--level", choices=LEVELS, default="debug", help="this and worse")
    parser.add_argument("--file", choices=FILES, default="agent", help="which log (agent)")
    parser.add_argument("--session", metavar="ID", help="only about this session")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def run(args: argparse.Namespace) -> int:
    """Print the last records, and the next ones if they are wanted."""
    path = hermes_home() / "logs" / f"{args.file}.log"
    if not path.exists() and not args.follow:
        print(f"There is no {path} yet.", file=sys.stderr)
        return 1
    wanted = Wanted(args.level, args.session)
    last: deque[str] = deque(maxlen=args.lines)
    position = 0
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            last.extend(record for record in records(file) if wanted.fits(record))
            position = file.tell()
    sys.stdout.write("".join(last))
    sys.stdout.flush()
    if args.follow:
        for line in follow(path, position):
            if wanted.fits(line):
                sys.stdout.write(line)
                sys.stdout.flush()
    return 0


class Wanted:
    """Which records are shown; a line that continues a record goes with it."""

    def __init__(self, level: str, session: str | None) -> None:
        self._levels = {name.upper() for name in LEVELS[LEVELS.index(level) :]}
        self._session = f" [{session}" if session else ""
        self._last = False

    def fits(self, record: str) -> bool:
        """Whether to show it."""
        head = _RECORD.match(record)
        if head:
            first = record.partition("\n")[0]
            self._last = head[1] in self._levels and self._session in first
        return self._last


def records(file: TextIO) -> Iterator[str]:
    """The records of a log, each with the lines that belong to it."""
    record = ""
    for line in file:
        if _RECORD.match(line) and record:
            yield record
            record = ""
        record += line
    if record:
        yield record


def follow(path: Path, position: int) -> Iterator[str]:
    """Lines that are written from now on, also after the file was rotated; never ends."""
    file: TextIO | None = None
    identity: tuple[int, int] | None = None
    try:
        while True:
            try:
                status = path.stat()
            except FileNotFoundError:
                time.sleep(_PAUSE)
                continue
            if identity != (status.st_dev, status.st_ino):
                if file is not None:
                    yield from file  # what was written before it was moved away
                    file.close()
                    position = 0
                file = path.open(encoding="utf-8", errors="replace")
                file.seek(position)
                identity = (status.st_dev, status.st_ino)
            assert file is not None
            line = file.readline()
            if line:
                yield line
            else:
                time.sleep(_PAUSE)
    finally:
        if file is not None:
            file.close()
