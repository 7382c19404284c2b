"""`python -m tests.conformance --kills N --seed S`: the suite by itself, with its table."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest


def main() -> int:
    """Run the suite; 0 if every property held."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many kills, about, in all")
    parser.add_argument("--seed", type=int, help="where they fall; chosen and printed if left out")
    parser.add_argument(
        "--implementation",
        action="append",
        metavar="MODULE:CLASS",
        help="what to look at instead of Hermes itself; may be given several times",
    )
    parser.add_argument("--only", metavar="EXPRESSION", help="pytest's -k: some cells only")
    options = parser.parse_args()
    os.environ["CONFORMANCE_KILLS"] = str(options.kills)
    if options.seed is not None:
        os.environ["CONFORMANCE_SEED"] = str(options.seed)
    if options.implementation:
        os.environ["CONFORMANCE_IMPLEMENTATIONS"] = ",".join(options.implementation)
    chosen = ["-k", options.only] if options.only else []
    return int(pytest.main([str(Path(__file__).parent), *chosen]))


if __name__ == "__main__":
    sys.exit(main())
