"""`hermes gateway new-platform`: a plugin with a platform, which works as it is written."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from gateway.platforms.registry import find_manifest

TEMPLATE = "platform_template"
SUFFIX = ".txt"
"""Of the template's files, which are no modules of ours."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LONGEST_NAME = 32


class NewPlatformError(ValueError):
    """The platform cannot be made; the message says what to change."""


def write_platform(name: str, folder: Path) -> Path:
    """Write the plugin's folder into another; returns it. Raises NewPlatformError."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME or keyword.iskeyword(name):
        raise NewPlatformError(
            f"{name!r} cannot be the name of a platform: take small letters, digits and _, such as"
            " my_chat."
        )
    if find_manifest(name) is not None:
        raise NewPlatformError(f"There is a platform {name} already; take another name.")
    target = folder / name
    try:
        target.mkdir(parents=True)
    except FileExistsError as error:
        raise NewPlatformError(f"{target} is there already; nothing was changed.") from error
    words = [word.capitalize() for word in name.split("_")]
    values = {
        "@name@": name,
        "@NAME@": name.upper(),
        "@Class@": "".join(words),
        "@Label@": " ".join(words),
    }
    _copy(files(__package__) / TEMPLATE, target, values)
    return target


def _copy(source: Traversable, target: Path, values: dict[str, str]) -> None:
    for item in source.iterdir():
        path = target / _filled(item.name.removesuffix(SUFFIX), values)
        if item.is_dir():
            path.mkdir()
            _copy(item, path, values)
        elif item.name.endswith(SUFFIX):
            path.write_text(_filled(item.read_text(encoding="utf-8"), values), encoding="utf-8")


def _filled(text: str, values: dict[str, str]) -> str:
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text
