"""The shared table of commands, as Discord registers it."""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"[-_a-z0-9]{1,32}")
MOST = 100
"""Commands that an application may have."""


def describe_commands() -> list[dict[str, Any]]:
    """Every command of the gateway, with one field for what stands behind it."""
    from agent.slash.table import catalog

    described = []
    for command in catalog("gateway"):
        if not _NAME.fullmatch(command.name):
            continue
        entry: dict[str, Any] = {
            "type": 1,
            "name": command.name,
            "description": (command.summary or command.name)[:100],
        }
        if command.args:
            entry["options"] = [
                {"type": 3, "name": "text", "description": command.args[:100], "required": False}
            ]
        described.append(entry)
    described.append({"type": 1, "name": "last", "description": "Show the last answer again"})
    return described[:MOST]
