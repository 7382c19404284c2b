"""A plugin's platform for its tests: loaded from its folder as a gateway loads it."""

from __future__ import annotations

from pathlib import Path

from agent.config import load_config
from agent.plugin_loading import load_plugins
from hermes_base import plugins

from ..platforms.manifest import Manifest
from ..platforms.registry import find_manifest
from .place import CONFIG


def load_platform(folder: Path, home: Path) -> Manifest:
    """Put a plugin into a home and load it there; returns what it says of its platform."""
    write_home(folder, home)
    config = load_config(home, {})
    plugins.forget_plugins()
    load_plugins(config.raw, home, {})
    names = list(plugins.get_platforms())
    if len(names) != 1:
        raise LookupError(
            f"The plugin in {folder} registers {len(names)} platforms instead of one;"
            " the log says why, if it could not be loaded."
        )
    manifest = find_manifest(names[0])
    assert manifest is not None, "it is registered"
    return manifest


def write_home(folder: Path, home: Path) -> None:
    """A home whose one plugin is in that folder."""
    folder = folder.resolve()
    shelf = home / "plugins"
    shelf.mkdir(parents=True, exist_ok=True)
    link = shelf / folder.name
    if not link.exists():
        link.symlink_to(folder, target_is_directory=True)
    (home / "config.yaml").write_text(f"{CONFIG}plugins: {{enabled: [{folder.name}]}}\n")
