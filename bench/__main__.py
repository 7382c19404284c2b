"""`python -m bench [names...]`: run benchmarks, all or some.

A name is that of a benchmark (`store`) or of a part of it (`store.append`).
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

BENCHMARKS = ("store", "agent", "recall", "gateway", "startup")
"""Modules of this package that have `MEASUREMENTS` and `run(parts)`."""


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line names; everything, if it names nothing."""
    modules: dict[str, Any] = {n: importlib.import_module(f"bench.{n}") for n in BENCHMARKS}
    known = [
        *modules,
        *(f"{name}.{part}" for name, module in modules.items() for part in module.MEASUREMENTS),
    ]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the parts of Hermes. QUICK=1 in the environment makes it short.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"what to measure: {', '.join(known)}"
    )
    names = parser.parse_args(arguments).names
    for name in names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    for benchmark, module in modules.items():
        parts = [name.partition(".")[2] for name in names if name.split(".")[0] == benchmark]
        if not names or parts:
            module.run(() if "" in parts else parts)


if __name__ == "__main__":
    main()
