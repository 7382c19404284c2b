"""`python -m bench`: everything, into one table. `python -m bench NAME …`: some benchmarks alone.

A name is that of a benchmark (`store`) or of a part of it (`store.append`).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

BENCHMARKS = (
    "store", "agent", "recall", "evidence", "gateway", "startup", "wall", "between", "hostile",
    "ways", "postgres", "scaling", "jobs",
    "platforms",
)  # fmt: skip
"""Modules of this package that have `MEASUREMENTS` and `run(parts)`."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names; everything, if it names nothing."""
    modules: dict[str, Any] = {n: importlib.import_module(f"bench.{n}") for n in BENCHMARKS}
    known = [
        *modules,
        *(f"{name}.{part}" for name, module in modules.items() for part in module.MEASUREMENTS),
    ]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Hermes beside hermes-agent 0.19.0 and the bare limit, and write"
        " bench/RESULTS.md; or measure only what is named. QUICK=1 in the environment makes it"
        " short, and keeps what it writes in bench/out.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"what to measure alone: {', '.join(known)}"
    )
    parser.add_argument("--set-up", action="store_true", help="only install hermes-agent 0.19.0")
    parser.add_argument(
        "--page", action="store_true", help="only write the page and chart of the last run again"
    )
    parser.add_argument(
        "--readme", action="store_true", help="only put the short table into README.md"
    )
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    if options.set_up or options.page or options.readme:
        return _only(options)
    if not options.names:
        from .report import run

        return 1 if run(quick=bool(os.environ.get("QUICK"))).failed else 0
    for benchmark, module in modules.items():
        parts = [
            name.partition(".")[2] for name in options.names if name.split(".")[0] == benchmark
        ]
        if parts:
            module.run(() if "" in parts else parts)
    return 0


def _only(options: argparse.Namespace) -> int:
    from .processes import ROOT
    from .yardstick import set_up_yardstick

    if options.set_up:
        return 1 if set_up_yardstick().missing else 0
    if options.page:
        from .report import load, write

        print(f"Written to {write(load())}.")
        return 0
    from .page import README_BEGIN, README_END, update_readme

    if update_readme(ROOT / "README.md", ROOT / "bench" / "RESULTS.md"):
        return 0
    print(f"README.md has no {README_BEGIN} and {README_END}: put them where the table is to be.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
