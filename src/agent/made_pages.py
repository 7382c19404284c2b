"""Pages whose tables are made from the code: each stands between two comments that name it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def renewed(page: str, tables: Mapping[str, str]) -> str:
    """The page with its tables put anew."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, opened, rest = page.partition(begin)
        _, closed, tail = rest.partition(end)
        if not opened or not closed:
            raise ValueError(f"The page has no place for {name}: {begin} … {end}.")
        page = f"{head}{begin}\n{table}\n{end}{tail}"
    return page


def renew_named(renewed_page: Callable[[str], str]) -> None:
    """Renew the page that the command line names."""
    path = Path(sys.argv[1])
    path.write_text(renewed_page(path.read_text(encoding="utf-8")), encoding="utf-8")
