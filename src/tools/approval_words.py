"""Approvals described for a list that a person reads."""

from __future__ import annotations

_WORDS = {
    "write": "write to {}",
    "host": "connect to {}",
    "network": "use the whole network",
    "write-outside": "write files outside of where a conversation is",
    "hidden": "touch files that are hidden from commands",
}


def grant_text(pattern_key: str) -> str:
    """What a tool may do under a key; the key itself where it says that already."""
    name, _, about = pattern_key.partition(":")
    words = _WORDS.get(name)
    if words is None or ("{}" in words) is not bool(about):
        return pattern_key
    return words.format(about)
