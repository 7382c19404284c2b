"""A browser for the tests: the machine's own, found or asked for by name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable", "chrome", "microsoft-edge",
)  # fmt: skip
"""The first takes half the processor time of the others: it is no more than what draws pages."""
MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
MISSING = "no Chromium was found; as root: apt install chromium, or set HERMES_BROWSER"


def find() -> str | None:
    """The program of a browser; None if there is none."""
    if given := os.environ.get("HERMES_BROWSER"):
        return given
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        found = next((path for path in MAC if Path(path).exists()), None)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    if found is None and cache.is_dir():
        found = next(
            (str(path) for path in sorted(cache.glob("chromium-*/chrome-linux*/chrome"))), None
        )
    return found


def options(program: str) -> dict[str, Any]:
    """How a browser is launched: without its sandbox where it refuses to run as root with it."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    # What would draw with a graphics card draws with the processor anyhow, and needs less of it.
    flags = ["--disable-gpu", *(["--no-sandbox"] if is_root else [])]
    return {"executable_path": program, "args": flags}


def need() -> str:
    """The program of a browser; skips the test without one, or fails where one was promised."""
    missing = MISSING
    try:
        import playwright as _playwright  # noqa: F401
    except ImportError:
        missing = "playwright is not installed; .venv/bin/pip install playwright"
    else:
        if found := find():
            return found
    if os.environ.get("HERMES_NEED_BROWSER") == "1":
        pytest.fail(f"HERMES_NEED_BROWSER is set, and {missing}")
    pytest.skip(missing)
