"""The configuration as people may see it: every key with its value, secrets left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.config import Config
from agent.config.schema import KEYS
from agent.config.values import shown_value


def config_lines(config: Config) -> Iterator[str]:
    """One line per key, as in `model.default: gpt-5`."""
    for key in KEYS:
        value: Any = config
        for part in key.name.split("."):
            value = getattr(value, part)
        value = shown_value(key, value)
        mark = "" if value == key.default else "  (changed)"
        yield f"{key.name}: {value}{mark}"
