"""`plugin.yaml`: what a plugin says of itself.

name: weather
version: 1.0.0
description: Tells the agent what the weather is like.
requires_env: [WEATHER_KEY]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("standalone", "backend", "exclusive", "platform", "model-provider")


class BrokenPlugin(Exception):
    """A plugin cannot be loaded; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One plugin, as it describes itself."""

    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    kind: str = "standalone"
    requires_env: tuple[str, ...] = ()
    """Variables without which it is not loaded."""
    provides_tools: tuple[str, ...] = ()
    provides_hooks: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    """Everything that stands there, also keys that nothing here reads."""


def read_manifest(path: Path) -> Manifest:
    """The manifest in the file at `path`; BrokenPlugin if it makes no sense."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
        raw = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenPlugin(f"{path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BrokenPlugin(f"{path} is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise BrokenPlugin(f"{path} must hold keys such as “name: {path.parent.name}”")
    name = raw.get("name", path.parent.name)
    if not isinstance(name, str) or not name.strip():
        raise BrokenPlugin(f"{path}: name must be text, not {name!r}")
    kind = raw.get("kind", "standalone")
    if kind not in KINDS:
        raise BrokenPlugin(f"{path}: kind must be one of {', '.join(KINDS)}, not {kind!r}")
    return Manifest(
        name=name.strip(),
        version=str(raw.get("version", "")),
        description=" ".join(str(raw.get("description", "")).split()),
        author=str(raw.get("author", "")),
        kind=kind,
        requires_env=_variables(raw.get("requires_env"), path),
        provides_tools=_names(raw.get("provides_tools"), "provides_tools", path),
        provides_hooks=_names(raw.get("provides_hooks"), "provides_hooks", path),
        raw=raw,
    )


def _names(value: Any, key: str, path: Path) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BrokenPlugin(f"{path}: {key} must be a list of names, not {value!r:.100}")
    return tuple(value)


def _variables(value: Any, path: Path) -> tuple[str, ...]:
    """Names of variables; each may stand with a description and a prompt of its own."""
    entries = value if isinstance(value, list) else [] if value is None else [value]
    names = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    return _names(names, "requires_env", path)
