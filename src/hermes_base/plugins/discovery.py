"""Where plugins are looked for, and which of them may be loaded.

Later places win over earlier ones: those that come with Hermes, `plugins/` in the Hermes home,
`.hermes/plugins/` in the working directory (only with HERMES_ENABLE_PROJECT_PLUGINS), installed
packages (entry points). What a person put there is not loaded until `plugins.enabled` names it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .manifest import BrokenPlugin, Manifest, read_manifest

log = logging.getLogger(__name__)

ENTRY_POINTS = "hermes_agent.plugins"
BUNDLED = Path(__file__).parent / "bundled_plugins"
_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A plugin that is there."""

    manifest: Manifest
    source: str
    """bundled, user, project or package."""
    folder: Path | None = None
    entry_point: Any = None
    problem: str = ""
    """Why it cannot be loaded, if so."""

    @property
    def names(self) -> set[str]:
        """What it may be called in the configuration."""
        return {self.manifest.name, *([self.folder.name] if self.folder else [])}


@dataclass(frozen=True, slots=True)
class Choice:
    """The `plugins:` section of the configuration."""

    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    entries: Mapping[str, Any] = field(default_factory=dict)
    hook_timeout: float | None = None

    def why_not(self, plugin: FoundPlugin) -> str:
        """Why a plugin is not loaded; empty if it is."""
        if plugin.names & self.disabled:
            return "disabled"
        if plugin.source != "bundled" and not plugin.names & self.enabled:
            return "not enabled"
        return plugin.problem


def read_choice(raw: Mapping[str, Any]) -> Choice:
    """The section, as far as it makes sense; the rest is logged and left out."""
    section = raw.get("plugins")
    if section is None:
        return Choice()
    if not isinstance(section, Mapping):
        log.warning("config.yaml: plugins must hold keys such as “enabled: [name]”; it is ignored")
        return Choice()
    entries = section.get("entries")
    return Choice(
        enabled=_names(section.get("enabled"), "enabled"),
        disabled=_names(section.get("disabled"), "disabled"),
        entries=entries if isinstance(entries, Mapping) else {},
        hook_timeout=_seconds(section.get("hook_timeout")),
    )


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """Whether a switch in the environment is on."""
    return environ.get(name, "").strip().lower() in _TRUE


def find_plugins(
    home: Path, environ: Mapping[str, str], cwd: Path | None = None
) -> list[FoundPlugin]:
    """Every plugin that is there, the winning one of each name, in the order of the places."""
    places = [(BUNDLED, "bundled"), (home / "plugins", "user")]
    if is_true(environ, "HERMES_ENABLE_PROJECT_PLUGINS"):
        places.append(((cwd or Path.cwd()) / ".hermes" / "plugins", "project"))
    by_name: dict[str, FoundPlugin] = {}
    for place, source in places:
        for plugin in _in_folder(place, source):
            # Taken out first: the winner loads where it was found, not where the other was.
            by_name.pop(plugin.manifest.name, None)
            by_name[plugin.manifest.name] = plugin
    for plugin in _in_packages():
        by_name.pop(plugin.manifest.name, None)
        by_name[plugin.manifest.name] = plugin
    return list(by_name.values())


def _in_folder(place: Path, source: str) -> list[FoundPlugin]:
    try:
        folders = sorted(place.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        log.warning("The plugins in %s cannot be listed: %s", place, error)
        return []
    plugins = []
    for folder in folders:
        if not (folder / "plugin.yaml").is_file():
            continue
        try:
            plugins.append(FoundPlugin(read_manifest(folder / "plugin.yaml"), source, folder))
        except BrokenPlugin as error:
            plugins.append(FoundPlugin(Manifest(folder.name), source, folder, problem=str(error)))
    return plugins


def _in_packages() -> list[FoundPlugin]:
    from importlib.metadata import entry_points

    plugins = []
    for entry in entry_points(group=ENTRY_POINTS):
        version = entry.dist.version if entry.dist else ""
        plugins.append(
            FoundPlugin(Manifest(entry.name, version=version), "package", entry_point=entry)
        )
    return plugins


def _names(value: Any, key: str) -> frozenset[str]:
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, list):
        return frozenset(str(name) for name in value)
    log.warning("config.yaml: plugins.%s must be a list of names; it is ignored", key)
    return frozenset()


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 300:
        return float(value)
    log.warning("config.yaml: plugins.hook_timeout must be seconds up to 300; it is ignored")
    return None
