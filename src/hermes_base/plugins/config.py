"""Enabling and disabling plugins in config.yaml, with the rest of the file left as it stands.

Only the `plugins:` section is written anew. The result is read back before it replaces the file: if
anything else in it were different, nothing is written and the person is told what to change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_base.files import PRIVATE, write_private


class CannotEdit(Exception):
    """config.yaml cannot be changed safely; the message says what to do by hand."""


def set_enabled(path: Path, name: str, enabled: bool) -> bool:
    """Enable or disable a plugin in the file at `path`; False if that was so already."""
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    raw = _parse(text, path)
    section = raw.get("plugins")
    section = dict(section) if isinstance(section, dict) else {}
    on, off = _list(section.get("enabled")), _list(section.get("disabled"))
    new_on = [*on, *([name] if enabled and name not in on else [])]
    new_off = [one for one in off if one != name]
    if not enabled:
        new_on = [one for one in on if one != name]
        new_off.append(name)
    if (new_on, new_off) == (on, off):
        return False
    section["enabled"] = new_on
    if new_off or "disabled" in section:
        section["disabled"] = new_off
    changed = _with_section(text, section)
    if _parse(changed, path) != {**raw, "plugins": section}:
        verb, key = ("Add", "enabled") if enabled else ("Remove", "enabled")
        raise CannotEdit(f"{path} was not changed. {verb} {name!r} under plugins.{key} yourself.")
    _replace(path, changed)
    return True


def _with_section(text: str, section: dict[str, Any]) -> str:
    """The text of a configuration with its `plugins:` section put anew."""
    import yaml

    block = yaml.safe_dump({"plugins": section}, sort_keys=False, allow_unicode=True)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "plugins":
            start, end = key.start_mark.index, value.end_mark.index
            old = text[start:end]
            # The section ends where the next begins; comments before that belong to the next.
            lines = old.splitlines(keepends=True)
            while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
                lines.pop()
            kept = old[sum(map(len, lines)) :]
            return text[:start] + block + (kept or "") + text[end:].lstrip("\n" if not kept else "")
    separator = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{separator}{block}"


def _parse(text: str, path: Path) -> dict[str, Any]:
    import yaml

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CannotEdit(f"{path} is not valid YAML; mend it first: {error}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise CannotEdit(f"{path} must hold keys such as “model: gpt-5”.")
    return parsed


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value] if isinstance(value, list) else []


def _replace(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else PRIVATE
    write_private(path.resolve(), text, mode=mode)  # a link stays a link
