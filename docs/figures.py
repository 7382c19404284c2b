"""The figures of scaling.md, from the last runs of `make bench`.

    python docs/figures.py

puts them anew between their marks. A benchmark that was not run keeps no figures on the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "scaling.md"
RUNS = HERE.parent / "bench" / "out"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
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


def main() -> None:
    """Renew the page."""
    runs = [
        table(name, json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8")))
        for name in TITLES
        if (RUNS / f"{name}.json").exists()
    ]
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    body = "\n\n".join(runs) or "No benchmark was run."
    PAGE.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
