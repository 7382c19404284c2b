"""The methods of the protocol, in small files by what they are about."""

from __future__ import annotations

import importlib

FIRST = ("session", "prompt")
"""What every client begins with."""
REST = (
    "conversation", "facts", "records", "slash", "completion", "input", "attachments", "config",
    "models", "tools", "skills", "plugins", "processes", "background", "handoff", "rollback",
    "oneshot", "shell", "approvals", "walls", "reading", "attention", "overview", "doctor",
    "insights", "devices", "jobs", "memory",
)  # fmt: skip
"""Loaded with the first method that is not among the first ones."""

_all_loaded = False


def load() -> None:
    """Put the methods that every client begins with into the table."""
    _load(FIRST)


def load_rest() -> None:
    """Put every method into the table."""
    global _all_loaded
    if not _all_loaded:
        _load(FIRST + REST)
        _all_loaded = True


def _load(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(f"{__name__}.{name}")
