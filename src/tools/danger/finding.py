"""A finding about a command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a command needs approval or, if `hard`, must not be run at all."""

    pattern_key: str
    description: str
    hard: bool = False
