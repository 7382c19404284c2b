"""The first use of the model inside the process: those who watch see how far it is fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hub import Hub

STEP = 5
"""Percent between two events."""


def follow(hub: Hub, sid: str, model: Any) -> None:
    """Tell a session's clients what a model fetches before it can answer."""
    for part in getattr(model, "models", (model,)):
        if hasattr(part, "progress"):
            part.progress = lambda label: _progress(hub, sid, label)


def _progress(hub: Hub, sid: str, label: str) -> Callable[[int, int], None]:
    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        step = done * 100 // max(total, 1) // STEP
        if step <= shown:
            return
        size = f"{total / 1_000_000:.0f} MB"
        if shown < 0:
            hub.emit("status.update", sid, {"kind": "notice", "text": f"{label} ({size})"})
        shown = step
        text = f"fetching {step * STEP}% of {size}"
        hub.emit("status.update", sid, {"kind": "progress", "text": text})

    return progress
