"""The other process of `bench.between`: it does what each line says, and prints when that was.

A write is dated when it was committed, a piece of text when it was handed over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path


def main(home: Path, part: str) -> None:
    """Serve until the input ends."""
    act = _writer(home) if part == "write" else _publisher(home)
    for line in sys.stdin:
        what = line.strip()
        began = time.time()
        if what not in ("ready", "pipe"):
            act(what)
        print(began if part == "event" or what == "pipe" else time.time(), flush=True)


def _writer(home: Path) -> Callable[[str], None]:
    from hermes_state import SessionDB

    db = SessionDB(home / "state.db")
    return lambda value: db.set_meta("bench", value)


def _publisher(home: Path) -> Callable[[str], None]:
    from agent.events import TextStreamed
    from conversation.watching import open_log
    from hermes_base.process import this_process

    log = open_log(home, "bench")
    (home / "owner").write_text(this_process())
    return lambda value: log.publish(TextStreamed(value))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
