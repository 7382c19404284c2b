"""What the set-up changed in `config.yaml` and `.env`, and the way back.

Each step begins with a copy of both files in memory, so that it can be undone alone. What they were
before the whole set-up is kept in `backups/before-setup`, for `hermes setup --undo`, which refuses
if somebody has changed them since.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from agent.config.env import parse_dotenv
from agent.home import short_path
from hermes_base.files import write_private
from hermes_cli.command_run import NotDone
from hermes_cli.secret_free import is_secret_name

FILES = ("config.yaml", ".env")
FOLDER = "before-setup"
_RECORD = "record.json"

Contents = dict[str, str | None]
"""The text of each file; None where there is none."""


def read_files(home: Path) -> Contents:
    """Both files as they are now."""
    return {name: _text(home / name) for name in FILES}


def put_back(home: Path, contents: Contents) -> None:
    """Make both files what they were."""
    for name, text in contents.items():
        if _text(home / name) == text:
            continue
        if text is None:
            (home / name).unlink()
        else:
            write_private(home / name, text.encode())


def describe(before: Contents, now: Contents) -> list[str]:
    """A line for each setting that differs from before; secrets by their names only."""
    old, new = _settings(before), _settings(now)
    lines = [
        f"config.yaml: {key}: {new[key]}" if key in new else f"config.yaml: {key} removed"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    old, new = _names(before[".env"]), _names(now[".env"])
    return lines + [
        f".env: {name} {'set' if name in new else 'removed'}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def keep_way_back(home: Path, before: Contents) -> None:
    """Remember what was there before, and what is there now."""
    folder = home / "backups" / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = {"before": before, "after": _digest(read_files(home))}
    write_private(folder / _RECORD, json.dumps(record).encode())


def undo_all(home: Path) -> list[str]:
    """Undo the last set-up; returns what that changed. NotDone if it cannot be."""
    path = home / "backups" / FOLDER / _RECORD
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise NotDone("There is no set-up to undo.") from None
    except (OSError, ValueError) as error:
        raise NotDone(f"{short_path(path)} cannot be read: {error}") from error
    if _digest(read_files(home)) != record["after"]:
        raise NotDone(
            "config.yaml or .env was changed after the set-up, so nothing was undone. What they"
            f" were before is in {short_path(path)}."
        )
    now = read_files(home)
    put_back(home, record["before"])
    path.unlink()
    return describe(now, record["before"])


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def _digest(contents: Contents) -> str:
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _settings(contents: Contents) -> dict[str, Any]:
    """The keys of a `config.yaml`, dotted, with their values; secret ones without."""
    import yaml

    try:
        section = yaml.safe_load(contents["config.yaml"] or "")
    except yaml.YAMLError:
        return {}  # broken before: nothing can be compared
    return _flat(section) if isinstance(section, dict) else {}


def _flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = "set" if is_secret_name(str(key)) else value
    return flat


def _names(text: str | None) -> dict[str, str]:
    return {} if text is None else parse_dotenv(text)[0]
