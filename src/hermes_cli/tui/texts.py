"""Small things about text: what may reach the terminal, and how much of it fits."""

from __future__ import annotations

import re
from typing import Any

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~])", re.DOTALL
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text without anything that a terminal would obey: what a model or a tool says is only shown.

    Lines that a program drew over each other (with carriage returns) become the last of them.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def one_line(text: str, width: int) -> str:
    """The beginning of a text in one line of at most `width` characters."""
    line = " ".join(clean(text[: 4 * width + 80]).split())
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def plain(content: Any) -> str:
    """The text of a message, whose content may have parts; pictures are named."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            parts.append(str(part.get("text") or ""))
        elif kind == "image_url":
            parts.append("[image]")
    return "\n".join(parts)


def tokens(count: float) -> str:
    """A number of tokens in few characters: 950, 12k, 1.2M."""
    if count < 1_000:
        return f"{count:.0f}"
    if count < 1_000_000:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def cost(usd: float | None) -> str:
    """A cost as people write it; empty if it is not known or nothing."""
    if not usd:
        return ""
    return f"${usd:.2f}" if usd >= 0.1 else f"${usd:.4f}"


def seconds(duration: float) -> str:
    """A duration: 0.4 s, 12 s, 3 min 05 s."""
    if duration < 10:
        return f"{duration:.1f} s"
    if duration < 60:
        return f"{duration:.0f} s"
    return f"{duration // 60:.0f} min {duration % 60:02.0f} s"
