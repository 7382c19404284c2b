"""Which releases understand a request that one process leaves in the store for another.

While machines are upgraded one after the other, two releases work on one store. A row that carries
a request between processes (a message or note in the inbox, a signal, a hand-off, a delivery, a
turn to be taken over) names in `needs_format` the lowest format of requests that it takes to
understand it; nothing for the first one, as nearly always. A process takes up what it understands
and leaves the rest to a newer release (`newer` says what waits for one, and since when).

A release that writes into such a row what older ones would misread raises UNDERSTOOD by one and
says in NEEDED by what such a row is known. Releases from before `needs_format` do not look at it:
with the first such change they must be refused (`server_schema.OLDEST_READER`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FIRST = 1
UNDERSTOOD = 1
"""The highest format of requests that this release understands."""
NEEDED: dict[str, int] = {}
"""The format that it takes to understand a row with something new in it, by kind and name:
"inbox.<fact>" or "inbox.<fact>.<key>", "note.<source>", "signal.<kind>", "handoff.<platform>",
"delivery.<platform>", "turn.<key of deliver_to>"."""


def needed(kind: str, names: Iterable[str]) -> int | None:
    """The lowest format that understands a request with these names in it; None for the first."""
    if not NEEDED:
        return None
    highest = max((NEEDED.get(f"{kind}.{name}", FIRST) for name in names), default=FIRST)
    return highest if highest > FIRST else None


def names_in(facts: Mapping[str, Any] | None) -> Iterable[str]:
    """The names of facts, and those within them."""
    for name, fact in (facts or {}).items():
        yield str(name)
        if isinstance(fact, Mapping):
            yield from (f"{name}.{key}" for key in fact)


def understands(needs_format: int | None) -> bool:
    """Whether this release understands such a request."""
    return needs_format is None or needs_format <= UNDERSTOOD


def understood(column: str = "needs_format") -> str:
    """The same as a condition of a statement."""
    return f"({column} IS NULL OR {column} <= {UNDERSTOOD})"
