"""Several processes appending to one file at once: nothing lost, nothing raised, nobody waits long.

In each round every process appends as fast as it can, each message in a commit of its own, once to
a session of its own and once all to the same session. Afterwards the file is read past the store:
every id that an append returned must be there.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
from dataclasses import dataclass
from pathlib import Path

from .measure import Finding, in_columns, interleaved, medians, progress
from .processes import Child
from .rows import Row
from .store_lab import SLOW_PHASE, Lab, query

LONGEST_WAIT = 0.250
KEYS = {"a session each": "each", "one session": "shared"}
MODES = tuple(KEYS)


@dataclass
class Round:
    """What came of one round."""

    rate: float
    """Messages per second of all processes together."""
    longest: float
    """The longest single append, in seconds."""
    p99: float
    lost: int
    """Messages that were acknowledged and are not in the file."""
    errors: list[str]


class Crowd:
    """The processes that write to one file."""

    def __init__(self, lab: Lab, side: str, stack: contextlib.ExitStack) -> None:
        self._path = lab.folder / f"writers-{side}" / "state.db"
        self._messages = lab.sizes.writer_messages
        self._rounds = 0
        # One after the other: making the file is not what is measured.
        self._children: list[Child] = [
            stack.enter_context(lab.child(side, self._path, seed=number))
            for number in range(1, lab.sizes.writers + 1)
        ]

    def round(self, shared: bool) -> Round:
        """Let all of them append at once."""
        self._rounds += 1
        children = self._children
        names = [f"round-{self._rounds}-{0 if shared else n}" for n in range(len(children))]
        for name in dict.fromkeys(names):
            children[0].ask("create", session=name)
        for child in children:
            child.send("prepare", count=self._messages)
        for child in children:
            child.receive()
        for child, name in zip(children, names, strict=True):
            child.send("append", session=name)
        replies = [child.receive() for child in children]
        took = max(r["ended"] for r in replies) - min(r["started"] for r in replies)
        acknowledged = [message_id for reply in replies for message_id in reply["ids"]]
        stored = stored_ids(self._path, names)
        waits = sorted(wait for reply in replies for wait in reply["waits"])
        return Round(
            rate=len(acknowledged) / took,
            longest=waits[-1],
            p99=waits[int(len(waits) * 0.99)],
            # Two appends that were told the same id are one message too few.
            lost=len(acknowledged) - len(stored.intersection(acknowledged)),
            errors=[error for reply in replies for error in reply["errors"]],
        )


def stored_ids(path: Path, sessions: list[str]) -> set[int]:
    """The ids of the messages that these sessions have in the file."""
    marks = ", ".join("?" * len(sessions))
    found = query(path, f"SELECT id FROM messages WHERE session_id IN ({marks})", tuple(sessions))
    return {message_id for (message_id,) in found}


def writers(lab: Lab) -> list[Finding]:
    """Rate, longest wait, losses and errors of several processes appending at once."""
    count = lab.sizes.writers
    progress(f"{count} processes appending at once")
    with contextlib.ExitStack() as stack:
        crowds = {side: Crowd(lab, side, stack) for side in lab.sides}
        results = interleaved(
            {
                (side, mode): functools.partial(crowd.round, shared=mode == "one session")
                for side, crowd in crowds.items()
                for mode in MODES
            },
            lab.sizes.writer_rounds,
            seconds=SLOW_PHASE,
        )
    findings = []
    for mode in MODES:
        rounds = {side: results[side, mode] for side in lab.sides}
        rates = {side: [r.rate for r in rounds[side]] for side in rounds}
        rate = medians(rates)
        waits = {side: [r.longest for r in rounds[side]] for side in rounds}
        longest = {side: max(found) for side, found in waits.items()}
        p99 = {side: statistics.median(r.p99 for r in rounds[side]) for side in rounds}
        findings += [
            Finding(
                f"{count} processes, {mode}: appends/s",
                *in_columns(rate, "{:,.0f}"),
                ratio=rate["ours"] / rate["bare"],
                details={"rates": rates},
                row=Row(
                    f"store.writers.{KEYS[mode]}",
                    f"store: {count} writers, {mode}",
                    "messages/s",
                    rates,
                    higher=True,
                    bare="SQLite's own way of waiting for a lock",
                ),
            ),
            Finding(
                f"{count} processes, {mode}: longest append",
                *in_columns({side: s * 1000 for side, s in longest.items()}, "{:,.0f} ms"),
                goal=f"≤ {LONGEST_WAIT * 1000:.0f} ms",
                met=longest["ours"] <= LONGEST_WAIT,
                details={"longest": waits, "p99": p99},
                row=Row.of(
                    f"store.waits.{KEYS[mode]}",
                    f"store: {count} writers, {mode}: longest wait",
                    "ms",
                    waits,
                    1e3,
                ),
            ),
        ]
    every = {side: [r for mode in MODES for r in results[side, mode]] for side in lab.sides}
    lost = {side: sum(r.lost for r in rounds) for side, rounds in every.items()}
    errors = {side: [e for r in rounds for e in r.errors] for side, rounds in every.items()}
    findings.append(
        Finding(
            f"{count} processes: messages lost, errors raised",
            *in_columns({side: f"{lost[side]}, {len(errors[side])}" for side in lab.sides}),
            goal="0, 0",
            met=lost["ours"] == 0 and not errors["ours"],
            details={"lost": lost, "errors": {s: sorted(set(e))[:5] for s, e in errors.items()}},
        )
    )
    return findings
