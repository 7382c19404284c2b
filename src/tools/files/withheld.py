"""Files that a search over a folder leaves out because they may hold secrets.

A search asks nobody, so what would have to be asked for is not searched. How many such files there
are is counted without looking into them: a number that depended on the pattern would tell, guess by
guess, what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import islice

from ..base import ToolContext
from .search_run import Query, TimeIsUp, search

_LOOKED_AT = 10_000


def describe_withheld(
    query: Query,
    context: ToolContext,
    wanted: Callable[[str], bool],
    withheld: Callable[[str], bool],
) -> str:
    """A line that says how many files were left out; empty if there were none.

    `wanted` tests paths from the root of the search, `withheld` whole ones.
    """
    start = len(str(query.root).rstrip("/")) + 1
    names = replace(query, mode="files", pattern="", context=0)
    seen = count = 0
    try:
        with closing(search(names, context)) as files:
            for seen, file in enumerate(islice(files, _LOOKED_AT), 1):  # noqa: B007 - the last one
                count += wanted(file.path[start:]) and withheld(file.path)
    except TimeIsUp:
        seen = _LOOKED_AT
    if not count:
        return ""
    least = "at least " if seen >= _LOOKED_AT else ""
    what = "file that may hold" if count == 1 else "files that may hold"
    return f"[{least}{count:,} {what} secrets left out; name one as path to have it asked for]"
