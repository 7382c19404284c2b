"""Paths in what people type or drop: quoted, with escaped spaces, or as file:// addresses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit


def split_path(text: str, folder: Path) -> tuple[Path | None, str]:
    """The file that a text begins with and what stands behind it; None if it is no file's path.

    Only texts that look like a path count: an ordinary sentence must not become a file because
    there is one of that name.
    """
    text = text.strip()
    for written, rest in _readings(text):
        if not written.startswith(("/", "~", "./", "../", "file://")):
            continue
        path = _as_path(written, folder)
        if path is not None:
            return path, rest.strip()
    return None, text


def _readings(text: str) -> list[tuple[str, str]]:
    """The ways to read where the path ends."""
    if text[:1] in ("'", '"'):
        inner, quote, rest = text[1:].partition(text[0])
        return [(inner, rest)] if quote else []
    readings = [(text, "")]  # all of it: some terminals do not escape spaces
    match = re.match(r"((?:\\.|[^\s\\])+)(.*)", text, re.DOTALL)
    if match:
        readings.append((re.sub(r"\\(.)", r"\1", match[1]), match[2]))
    return readings


def _as_path(written: str, folder: Path) -> Path | None:
    if written.startswith("file://"):
        try:
            address = urlsplit(written)
        except ValueError:  # no address can look like that
            return None
        if address.netloc not in ("", "localhost"):
            return None
        written = unquote(address.path)
    return existing_file(folder, written)


def existing_file(folder: Path, written: str) -> Path | None:
    """The file that a text names, `~` and relative to `folder`; None if there is none."""
    path = _below(folder, written)
    return path if path is not None and path.is_file() else None


def existing_folder(folder: Path, written: str) -> Path | None:
    """The folder that a text names, `~` and relative to `folder`; None if there is none."""
    path = _below(folder, written)
    return path if path is not None and path.is_dir() else None


def _below(folder: Path, written: str) -> Path | None:
    try:
        path = folder / Path(written.strip()).expanduser()
        path.stat()
    except (OSError, ValueError, RuntimeError):  # not there, or no path can look like that
        return None
    return path if written.strip() else None
