"""How much work a command may make before it is called too complex.

Every character read and every command followed is counted, so that the time an analysis takes is
bounded by its count, whatever the command looks like.
"""

from __future__ import annotations


class TooComplex(Exception):
    """Following the command any further would take too long."""


class Budget:
    """Counts work and stops it at the limit."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.limit = limit
        self.spent = 0

    def spend(self, amount: int = 1) -> None:
        """Count some work; raises TooComplex when there was too much of it."""
        self.spent += amount
        if self.spent > self.limit:
            raise TooComplex
