"""The configuration as people may see it: every key with its value, secrets left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.config import Config
from agent.config.schema import KEYS


def config_lines(config: Config) -> Iterator[str]:
    """One line per key, as in `model.default: gpt-5`."""
    for key in KEYS:
        value: Any = config
        for part in key.name.split("."):
            value = getattr(value, part)
        if key.limits.secret:
            value = "(set)" if value else "(not set)"
        mark = "" if value == key.default else "  (changed)"
        yield f"{key.name}: {value}{mark}"
