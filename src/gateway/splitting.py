"""Long answers in parts, cut where a reader would: between paragraphs, lines, sentences, words.

A fenced block of code that is cut is closed in one part and opened again in the next.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^(```+|~~~+)([^\n`]*)$", re.MULTILINE)
_CUTS = ("\n\n", "\n", ". ", "! ", "? ", "。", " ")


def split_message(text: str, limit: int) -> list[str]:
    """`text` in parts of at most `limit` characters; nothing is lost but blanks at the cuts."""
    if limit < 16:
        raise ValueError("a limit below 16 characters leaves no room for text")
    parts: list[str] = []
    rest = text.strip("\n")
    opening = ""
    while True:
        whole = opening + rest
        if len(whole) <= limit:
            if whole.strip() or not parts:
                parts.append(whole)
            return parts
        room = limit - len(opening)
        cut = _cut_at(rest, room)
        part = opening + rest[:cut]
        fence = _open_fence(part)
        if fence is not None:
            mark, info = fence
            closing = f"\n{mark}"
            if len(part) + len(closing) > limit:
                cut = _cut_at(rest, room - len(closing))
                part = opening + rest[:cut]
                fence = _open_fence(part)
        if fence is not None:
            mark, info = fence
            parts.append(f"{part.rstrip()}\n{mark}")
            opening = f"{mark}{info}\n" if len(mark) + len(info) + 1 < limit // 2 else f"{mark}\n"
        else:
            parts.append(part.rstrip())
            opening = ""
        rest = rest[cut:].lstrip("\n") if fence is None else rest[cut:].removeprefix("\n")


def _cut_at(text: str, room: int) -> int:
    """Where to cut so that at most `room` characters come before it."""
    room = max(1, room)
    for mark in _CUTS:
        found = text.rfind(mark, room // 3, room)
        if found > 0:
            return min(found + len(mark), room)
    return room


def _open_fence(text: str) -> tuple[str, str] | None:
    """The fence of a block of code that is open at the end of `text`."""
    opened: tuple[str, str] | None = None
    for found in _FENCE.finditer(text):
        mark, info = found.groups()
        if opened is None:
            opened = (mark, info)
        elif mark.startswith(opened[0]) and not info.strip():
            opened = None
    return opened
