"""The figures of scaling.md, from the last runs of `make bench`.

    python docs/figures.py [simulation]

puts them anew between their marks. A benchmark that was not run keeps no figures on the page; those
of several gateways stay as they are until `python -m bench scaling` was run, and those of the
simulation until they are asked for, which takes a minute.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "scaling.md"
RUNS = HERE.parent / "bench" / "out"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
REPLICAS = ("<!-- replicas -->", "<!-- end of replicas -->")
SIMULATION = ("<!-- simulation -->", "<!-- end of simulation -->")
TITLES = {"store": "The store", "gateway": "The gateway", "agent": "The engine"}


def table(name: str, run: dict[str, Any]) -> str:
    """One benchmark as a table."""
    facts = run["facts"].get("before") or run["facts"].get("start") or run["facts"]
    told = f"Python {facts['python']}, {facts['cores']} cores"
    if sqlite := run["facts"].get("sqlite"):
        told += f", SQLite {sqlite}"
    lines = [f"**{TITLES[name]}** ({told})", ""]
    lines += ["| Measured | Hermes | The same, bare |", "|---|---|---|"]
    lines += [f"| {one['what']} | {one['ours']} | {one['bare']} |" for one in run["findings"]]
    return "\n".join(lines)


def replicas(run: dict[str, Any]) -> str:
    """What was measured of several gateways."""
    facts = run["facts"].get("start") or run["facts"]
    lines = [f"Measured with Python {facts['python']} on {facts['cores']} cores:", ""]
    lines += ["| Measured | Figure |", "|---|---|"]
    lines += [f"| {finding['what']} | {finding['ours']} |" for finding in run["findings"]]
    return "\n".join(lines)


def between(page: str, begin: str, end: str, body: str) -> str:
    """The page with something else between two marks."""
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.partition(end)[2]}"


def main(arguments: list[str]) -> None:
    """Renew the page."""
    runs = [
        table(name, json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8")))
        for name in TITLES
        if (RUNS / f"{name}.json").exists()
    ]
    page = PAGE.read_text(encoding="utf-8")
    page = between(page, BEGIN, END, "\n\n".join(runs) or "No benchmark was run.")
    if (RUNS / "scaling.json").exists():
        run = json.loads((RUNS / "scaling.json").read_text(encoding="utf-8"))
        page = between(page, *REPLICAS, replicas(run))
    if "simulation" in arguments:
        from bench.simulation import Costs, tables

        page = between(page, *SIMULATION, "\n".join(tables(Costs.measured())))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
