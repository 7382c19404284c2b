"""Differences between files, in colour: found in a tool's result, or made from its arguments."""

from __future__ import annotations

import difflib
from typing import Any

from textual.content import Content

from .texts import clean

_STYLES = (
    ("+++", "$muted"),
    ("---", "$muted"),
    ("@@", "$secondary"),
    ("+", "$success"),
    ("-", "$error"),
)
MOST_LINES = 400


def find_diff(result: str) -> str:
    """The unified diff within a result; empty if there is none."""
    lines = result.splitlines()
    for number, line in enumerate(lines[:-1]):
        if line.startswith("--- ") and lines[number + 1].startswith("+++ "):
            return "\n".join(lines[number:])
    return ""


def planned_diff(arguments: dict[str, Any]) -> str:
    """What an edit is going to do, from its arguments; empty if they do not tell."""
    before, after = arguments.get("old_string"), arguments.get("new_string")
    if isinstance(before, str) and isinstance(after, str):
        changed = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
        return "\n".join(list(changed)[2:])
    patch = arguments.get("patch")
    return patch if isinstance(patch, str) else ""


def coloured(diff: str) -> Content:
    """A diff, with added and removed lines in their colours."""
    lines = clean(diff).splitlines()
    shown = [
        Content.styled(line, next((style for mark, style in _STYLES if line.startswith(mark)), ""))
        for line in lines[:MOST_LINES]
    ]
    if len(lines) > MOST_LINES:
        shown.append(Content.styled(f"[… {len(lines) - MOST_LINES} more lines]", "$muted"))
    return Content("\n").join(shown)
