"""Many writers in one process, sharing flushes, beside one commit for each message.

Threads append by `append_message`, coroutines by a GroupWriter; "bare" is the same number of
threads or coroutines with one SQLite connection and a lock, each message a commit of its own. Both
sides write with the same durability, and every message that was acknowledged is looked for
afterwards. `python -m bench.store_group` measures this alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_state import SessionDB
from hermes_state.group_commit import GroupWriter
from hermes_state.messages import append_message

from .child import BareTarget
from .corpus import Corpus, Message
from .measure import (
    Finding,
    in_columns,
    interleaved,
    paired_ratio,
    progress,
    scratch_folder,
    table,
    verdict,
)
from .rows import Row
from .store_lab import FULL, QUICK, SLOW_PHASE, Lab

THREADS = (1, 8, 64)
COROUTINES = (1, 64, 500)
ALONE_RATIO = 0.80
"""One writer has nobody to share with: it must not pay for the possibility."""
TOGETHER_RATIO = 1.50
IN_TABLE = 64
"""So many writers are in the common table."""


class Ours:
    """The store."""

    def __init__(self, path: Path) -> None:
        self.db = SessionDB(path)
        self.db.create_session("s", "bench")
        self._writer = GroupWriter(self.db)

    def prepared(self, message: Message) -> Message:
        return message

    def append(self, message: Message) -> int:
        return self.db.append_message("s", **message)

    async def append_together(self, message: Message) -> int:
        return await self._writer.write(lambda conn: append_message(conn, "s", **message))

    def stored(self) -> int:
        return self.db.message_count("s")

    def close(self) -> None:
        self.db.close()


class Bare:
    """The same table, a lock, and one commit for each message."""

    def __init__(self, path: Path) -> None:
        self._target = BareTarget(path)
        self._target.create("s")
        self._lock = threading.Lock()
        self._append = self._target.appender("s")

    def prepared(self, message: Message) -> Any:
        return self._target.prepared(message)

    def append(self, message: Any) -> int:
        with self._lock:
            return self._append(message)

    async def append_together(self, message: Any) -> int:
        await asyncio.sleep(0)  # as every coroutine that does anything else in between
        return self._append(message)

    def stored(self) -> int:
        return self._target.load("s")

    def close(self) -> None:
        self._target.close()


Side = Ours | Bare


def _by_threads(side: Side, shares: list[list[Any]]) -> float:
    def write(share: list[Any]) -> None:
        for message in share:
            side.append(message)

    threads = [threading.Thread(target=write, args=(share,)) for share in shares]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def _by_coroutines(side: Side, shares: list[list[Any]]) -> float:
    async def write(share: list[Any]) -> None:
        for message in share:
            await side.append_together(message)

    async def all_of_them() -> float:
        started = time.perf_counter()
        await asyncio.gather(*[write(share) for share in shares])
        return time.perf_counter() - started

    return asyncio.run(all_of_them())


def _rate(
    side: Side,
    run: Callable[[Side, list[list[Any]]], float],
    corpus: Corpus,
    writers: int,
    messages: int,
) -> float:
    each = max(2, messages // writers)
    shares = [[side.prepared(m) for m in corpus.messages(each)] for _ in range(writers)]
    before = side.stored()
    seconds = run(side, shares)
    if side.stored() - before != writers * each:
        raise RuntimeError("Messages were acknowledged and are not in the file")
    return writers * each / seconds


def group(lab: Lab) -> list[Finding]:
    """Threads and coroutines appending at once: rates with shared flushes, and without."""
    progress("threads and coroutines appending at once")
    corpus = Corpus(seed=7, stream=100_000)
    findings = []
    for what, run, crowds in (
        ("thread", _by_threads, THREADS),
        ("coroutine", _by_coroutines, COROUTINES),
    ):
        for writers in crowds:
            with contextlib.ExitStack() as stack:
                sides: dict[str, Callable[[], float]] = {}
                for name, kind in (("ours", Ours), ("bare", Bare)):
                    folder = lab.folder / f"group-{what}-{writers}-{name}"
                    folder.mkdir()
                    side = kind(folder / "state.db")
                    stack.callback(side.close)
                    sides[name] = functools.partial(
                        _rate, side, run, corpus, writers, lab.sizes.append_chunk
                    )
                rates = interleaved(sides, lab.sizes.append_rounds, seconds=SLOW_PHASE)
            ratio = paired_ratio(rates["ours"], rates["bare"])
            wanted = ALONE_RATIO if writers == 1 else TOGETHER_RATIO
            findings.append(
                Finding(
                    f"{writers} {what}{'' if writers == 1 else 's'} appending: per second",
                    *in_columns({k: statistics.median(v) for k, v in rates.items()}, "{:,.0f}"),
                    ratio=ratio.median,
                    goal=f"ratio ≥ {wanted:.2f}",
                    met=ratio.median >= wanted,
                    details={"rates": rates, "ratio": ratio},
                    row=_row(what, rates) if writers == IN_TABLE else None,
                )
            )
    return findings


def _row(what: str, rates: dict[str, list[float]]) -> Row:
    return Row(
        f"store.group.{what}",
        f"store: {IN_TABLE} {what}s append in one process",
        "messages/s",
        rates,
        higher=True,
        bare="one connection and a lock, each message a commit of its own",
        absent="this is about flushes that writers share",
    )


if __name__ == "__main__":
    with scratch_folder() as scratch:
        found = group(Lab(scratch, QUICK if os.environ.get("QUICK") else FULL, None))
    print(table(found))
    print(verdict(found))
