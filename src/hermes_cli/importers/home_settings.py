"""config.yaml of another home: brought as it is, but for what would run by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config.write import edited
from hermes_base.files import write_private

from .home_parts import Step


def config_steps(source: Path, home: Path) -> Iterator[Step]:
    """The configuration, if there is none here; with plugins and hooks off."""
    theirs, ours = source / "config.yaml", home / "config.yaml"
    if not theirs.is_file():
        return
    try:
        text, was_on = without_consent(theirs.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError, ValueError) as error:
        yield Step("config.yaml", "left behind", f"it cannot be read: {error}")
        return
    if ours.exists():
        if ours.read_text(encoding="utf-8-sig", errors="replace") == text:
            yield Step("config.yaml", "here already")
        else:
            note = f"yours stays as it is; compare it with {theirs}"
            yield Step("config.yaml", "left behind", note)
        return

    def bring() -> None:
        write_private(ours, text)

    yield Step("config.yaml", "brought", "see what it means here: hermes config check", bring)
    if was_on:
        note = f"they were on there; allow them again: {', '.join(was_on)}"
        yield Step("which plugins and hooks may run", "left behind", note)


def hook_list_steps(source: Path) -> Iterator[Step]:
    """The list of shell hooks that were agreed to: agreed there is not agreed here."""
    if (source / "shell-hooks-allowlist.json").is_file():
        note = "agree to shell hooks again: hermes hooks accept"
        yield Step("shell-hooks-allowlist.json", "left behind", note)


def without_consent(text: str) -> tuple[str, list[str]]:
    """A configuration in which no plugin is enabled and hooks are asked for, and what was on.

    Raises ValueError if it is no configuration, or is written too cleverly to be changed.
    """
    import yaml

    try:
        raw: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if raw is None:
        return text, []
    if not isinstance(raw, dict):
        raise ValueError("it holds no keys")
    changes: dict[str, Any] = {}
    was_on: list[str] = []
    plugins = raw.get("plugins")
    if isinstance(plugins, dict) and (enabled := plugins.get("enabled")):
        changes["plugins.enabled"] = []
        names = enabled if isinstance(enabled, list) else [enabled]
        was_on += [f"hermes plugins enable {name}" for name in names]
    if raw.get("hooks_auto_accept"):
        changes["hooks_auto_accept"] = False
        was_on.append("hermes hooks accept")
    for key, value in changes.items():
        changed = edited(text, key.split("."), value)
        if changed is None or yaml.safe_load(changed) == yaml.safe_load(text):
            raise ValueError(f"{key} in it cannot be changed; set it to {value} there first")
        text = changed
    return text, was_on
