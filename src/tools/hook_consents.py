"""Consent to shell hooks: a command from the configuration runs only if a person agreed to it.

Consent is for one pair of event and command, exactly as written; a changed command needs consent
again. The list is `shell-hooks-allowlist.json` in the Hermes home, for its owner alone.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes_base.files import write_private

log = logging.getLogger(__name__)

FILE = "shell-hooks-allowlist.json"

Pair = tuple[str, str]
"""Event and command."""


def read_consents(home: Path) -> dict[Pair, str]:
    """The pairs that were agreed to, and when; a broken file means none."""
    path = home / FILE
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.error("%s cannot be read (%s): no shell hook runs until it is repaired", path, error)
        return {}
    entries = raw.get("approvals") if isinstance(raw, dict) else None
    return {
        (entry["event"], entry["command"]): str(entry.get("approved_at", ""))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
        and isinstance(entry.get("event"), str)
        and isinstance(entry.get("command"), str)
    }


def agree(home: Path, pairs: Iterable[Pair]) -> None:
    """Store consent for these commands."""
    known = read_consents(home)
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    new = {pair: now for pair in pairs if pair not in known}
    if new:
        _write(home, {**known, **new})


def revoke(home: Path, command: str, event: str | None = None) -> int:
    """Take consent back, for one event or all; returns how many pairs that were."""
    known = read_consents(home)
    left = {
        pair: when
        for pair, when in known.items()
        if pair[1] != command or event not in (None, pair[0])
    }
    if len(left) < len(known):
        _write(home, left)
    return len(known) - len(left)


def _write(home: Path, consents: dict[Pair, str]) -> None:
    entries = [
        {"event": event, "command": command, "approved_at": when}
        for (event, command), when in consents.items()
    ]
    write_private(home / FILE, json.dumps({"approvals": entries}, indent=2) + "\n")
