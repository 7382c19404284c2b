"""The Hermes home: the one folder that holds configuration, secrets, memory and the store.

It is `HERMES_HOME`, or `~/.hermes` (on Windows `%LOCALAPPDATA%\\hermes`). Whatever Hermes creates
in it is readable by its owner alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


class ConfigError(Exception):
    """The Hermes home or its configuration cannot be used; the message says what to change."""


def hermes_home(environ: Mapping[str, str] | None = None) -> Path:
    """The Hermes home as an absolute path, created (0700) if it does not exist yet."""
    environ = os.environ if environ is None else environ
    home = home_path(environ)
    try:
        private_folder(home)
    except OSError as error:
        raise ConfigError(
            f"The Hermes home {home} cannot be created: {error.strerror}. Set HERMES_HOME to a"
            " folder you can write to."
        ) from error
    return home


def home_path(environ: Mapping[str, str]) -> Path:
    """Where the Hermes home is, without creating it."""
    chosen = environ.get("HERMES_HOME", "").strip()
    if chosen:
        return Path(chosen).expanduser().absolute()
    local_data = environ.get("LOCALAPPDATA")
    if sys.platform == "win32" and local_data:
        return Path(local_data, "hermes")
    try:
        return Path.home() / ".hermes"
    except RuntimeError as error:
        raise ConfigError(
            "Your home folder is not known. Set HERMES_HOME to the folder Hermes should use."
        ) from error


def private_folder(path: Path) -> Path:
    """`path`, created for its owner alone if it is missing; an existing folder is left as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def short_path(path: Path) -> str:
    """A path as people write it, with ~ for their home folder."""
    try:
        return f"~/{path.relative_to(Path.home()).as_posix()}"
    except (ValueError, RuntimeError):  # it is elsewhere, or nobody knows where home is
        return str(path)
