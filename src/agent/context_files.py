"""Files that tell the model about the project and its user: found, limited and screened.

A project may bring `.hermes.md` or `HERMES.md` (in every folder from the top of its repository to
the present one), `AGENTS.md`, `CLAUDE.md`, `.cursorrules` and `.cursor/rules/*.mdc`. What is too
long keeps its head and tail. What looks like an attack is marked for the model as data. A link that
leads out of the project is never followed: it could point at a secret.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.screening import notice, suspicion

FILE_LIMIT = 20_000
"""Characters of one file."""
PROJECT_LIMIT = 60_000
"""Characters of all of a project's files together."""
_READ_LIMIT = 500_000
"""Bytes up to which a file is read at all."""


class ContextFile(NamedTuple):
    """A file for the prompt: its text, or why it was left out."""

    name: str
    text: str
    left_out: str = ""


def project_files(cwd: Path) -> list[ContextFile]:
    """The context files of the project that `cwd` lies in, outermost first, each once."""
    top = project_top(cwd)
    files: list[ContextFile] = []
    seen: set[Path] = set()
    texts: set[str] = set()
    room = PROJECT_LIMIT
    for path in _candidates(cwd, top):
        real = path.resolve()
        if real in seen:
            continue
        seen.add(real)
        file = read_file(path, name=path.relative_to(top).as_posix(), limit=FILE_LIMIT, within=top)
        if file is None or (file.text and file.text in texts):
            continue
        if len(file.text) > room:
            file = ContextFile(file.name, "", "the project's other context files fill the room")
        room -= len(file.text)
        texts.add(file.text)
        files.append(file)
    return files


def project_top(cwd: Path) -> Path:
    """The root of the git repository around `cwd`, or `cwd` itself."""
    for folder in (cwd, *cwd.parents):
        if (folder / ".git").exists():
            return folder
    return cwd


def read_file(
    path: Path, *, name: str, limit: int, within: Path | None = None
) -> ContextFile | None:
    """One file, shortened to `limit` characters and screened; None if it is missing or empty.

    With `within`, a file whose real place is outside that folder is left out.
    """
    try:
        info = path.stat()
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            return ContextFile(name, "", "it is a link that leads out of the project")
        if not stat.S_ISREG(info.st_mode):
            return None
        if info.st_size > _READ_LIMIT:
            return ContextFile(name, "", f"it is too large ({info.st_size:,} bytes)")
        text = path.read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return ContextFile(name, "", f"it cannot be read ({error.strerror})")
    except UnicodeDecodeError:
        return ContextFile(name, "", "it is not UTF-8 text")
    if not text:
        return None
    if "\0" in text:
        return ContextFile(name, "", "it is not text")
    reason = suspicion(text)
    head = f"{notice(reason)}\n" if reason else ""
    return ContextFile(name, head + shorten(text, limit))


def shorten(text: str, limit: int) -> str:
    """`text`, or its head and tail with a mark between them, at most about `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 7 // 10
    tail = limit - head
    marker = f"\n\n[… {len(text) - limit:,} characters left out here …]\n\n"
    return text[:head].rstrip() + marker + text[-tail:].lstrip()


def _candidates(cwd: Path, top: Path) -> Iterator[Path]:
    """Where context files may be, in the order they appear in the prompt."""
    inside = [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(top)]
    for folder in reversed(inside):
        own = folder / ".hermes.md"
        yield own if own.exists() else folder / "HERMES.md"
    for folder in dict.fromkeys((top, cwd)):
        yield folder / "AGENTS.md"
        yield folder / "CLAUDE.md"
        yield folder / ".cursorrules"
        rules = folder / ".cursor" / "rules"
        if rules.is_dir():
            yield from sorted(rules.glob("*.mdc"))
