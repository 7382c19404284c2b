"""The gateways of several working trees beside each other, such as one of an older commit and this.

`python -m bench.trees TREE …` asks the gateway of each tree, which has its own `.venv`, in turns of
rounds: so what else the machine does meets all of them alike. Beside turns per second it says what
processor time a turn takes, which others' load hardly changes. The first tree is what the others
are compared with.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .gateway_server import Gateway, load, running
from .lab import Lab, zero_delay_model
from .measure import interleaved, progress, scratch_folder

TURNS = {1: 60, 20: 15, 100: 5}
"""Turns of each conversation in a round, by the number of conversations."""


@dataclass
class Trees(Lab):
    """A lab whose sides are working trees."""

    def hermes(self, side: str) -> str:
        """The `hermes` command of a tree."""
        return str(Path(side) / ".venv" / "bin" / "hermes")


class Round(NamedTuple):
    """What came of one round of turns."""

    turns_per_second: float
    cpu_ms: float
    """Processor time of the gateway per turn."""


def ask(gateway: Gateway, conversations: int, turns: int, *, stream: bool) -> Round:
    """Let new conversations go on at once, and see what the gateway takes for it."""
    before = gateway.cpu_seconds()
    came = load(gateway.url, conversations, turns, stream=stream)
    spent = gateway.cpu_seconds() - before
    return Round(came.turns_per_second, spent / (conversations * turns) * 1e3)


def compare(
    trees: list[str], conversations: int, rounds: int, *, stream: bool
) -> dict[str, list[Round]]:
    """The rounds of each tree."""
    progress(f"{conversations} conversations at once{', streamed' if stream else ''}")
    turns = TURNS.get(conversations, 2)
    with (
        scratch_folder() as folder,
        zero_delay_model() as model,
        contextlib.ExitStack() as stack,
    ):
        lab = Trees(folder, quick=False, yardstick=None)
        gateways = {tree: stack.enter_context(running(lab, tree, model)) for tree in trees}
        for gateway in gateways.values():
            ask(gateway, conversations, 2, stream=stream)  # the first turn loads what is lazy
        asked = {
            tree: functools.partial(ask, gateway, conversations, turns, stream=stream)
            for tree, gateway in gateways.items()
        }
        return interleaved(asked, rounds)


def show(found: dict[str, list[Round]]) -> None:
    """Print the medians, and the ratio of each to the first tree's, round by round."""
    first = next(iter(found.values()))
    for tree, rounds in found.items():
        rate = statistics.median(one.turns_per_second for one in rounds)
        cpu = statistics.median(one.cpu_ms for one in rounds)
        ratio = statistics.median(a.cpu_ms / b.cpu_ms for a, b in zip(rounds, first, strict=True))
        rates = statistics.median(
            a.turns_per_second / b.turns_per_second for a, b in zip(rounds, first, strict=True)
        )
        print(
            f"  {tree}: {rate:.0f} turns/s ({rates:.3f}), {cpu:.3f} ms of processor per turn"
            f" ({ratio:.3f})",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.trees")
    parser.add_argument("trees", nargs="+", type=os.path.abspath)
    parser.add_argument("--at-once", type=int, nargs="+", default=list(TURNS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args(arguments)
    for conversations in options.at_once:
        show(compare(options.trees, conversations, options.rounds, stream=options.stream))


if __name__ == "__main__":
    main()
