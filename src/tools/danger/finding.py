"""What is found about a command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a command must be asked for, or, if `hard`, must not be run at all."""

    pattern_key: str
    description: str
    hard: bool = False
