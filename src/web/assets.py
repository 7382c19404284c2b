"""The files of the page: read once, compressed once, named by a digest of all of them.

A browser keeps everything under `/static/<digest>/` for good; only the shell is asked for again.
The shell names every module that the first screen needs, so that they are fetched side by side.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import posixpath
import re
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "static"
SHELLS = {"index.html": "app.js", "enter.html": "enter.js"}
"""The documents, and the module that each begins with."""
_TYPES = {".js": "text/javascript", ".webmanifest": "application/manifest+json"}
_IMPORTS = (
    re.compile(r"""(?:^|[;}\s])(?:import|export)\b[^"'()]*?\bfrom\s*["'](\.[^"']+)["']"""),
    re.compile(r"""(?:^|[;}\s])import\s*["'](\.[^"']+)["']"""),
)
_PACKED = ("text/", "application/manifest+json", "application/json", "image/svg+xml")


class Asset(NamedTuple):
    """One file, as it is sent."""

    content: bytes
    packed: bytes | None
    """The same in gzip, where that is worth it."""
    type: str


def is_static(name: str) -> bool:
    """Whether a file is served below the digest of all; the others have addresses of their own."""
    return not name.endswith((".html", "sw.js"))


class Assets:
    """Everything that is served without a key."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in ("LICENSES", "vendor.json")
        }
        self.digest = _digest(self._files)
        self._made: dict[str, Asset] = {}

    def find(self, name: str) -> Asset | None:
        """A file by its path below `static/`; None if there is none."""
        if name in self._made:
            return self._made[name]
        content = self._files.get(name)
        if content is None:
            return None
        if name.endswith((".html", "sw.js", ".webmanifest")):
            content = self._filled(name, content.decode("utf-8")).encode()
        kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "text/plain"
        is_text = kind.startswith(_PACKED)
        packed = gzip.compress(content, 9, mtime=0) if is_text and len(content) > 400 else None
        if is_text:
            kind += "; charset=utf-8"
        self._made[name] = Asset(content, packed, kind)
        return self._made[name]

    def names(self) -> list[str]:
        """Every file, by its path."""
        return list(self._files)

    def first_load(self, module: str = "app.js") -> list[str]:
        """The modules that the first screen needs: `module` and what it imports, at any depth."""
        wanted, seen = [module], []
        while wanted:
            name = wanted.pop(0)
            if name in seen or name not in self._files:
                continue
            seen.append(name)
            wanted += _imports(name, self._files[name].decode("utf-8"))
        return seen

    def _filled(self, name: str, text: str) -> str:
        place = f"/static/{self.digest}"
        if name == "sw.js":
            kept = [f"{place}/{module}" for module in self._files if is_static(module)]
            listed = ",".join(f'"{path}"' for path in kept)
            return text.replace('"@@FILES@@"', listed).replace("@@DIGEST@@", self.digest)
        links = "".join(
            f'<link rel="modulepreload" href="{place}/{module}">'
            for module in self.first_load(SHELLS.get(name, ""))
        )
        return text.replace("@@STATIC@@", place).replace("<!--@@MODULES@@-->", links)


def _digest(files: dict[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name, content in files.items():
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]


def _imports(name: str, text: str) -> list[str]:
    """What a module imports with the statement, by paths below `static/`."""
    found = [path for pattern in _IMPORTS for path in pattern.findall(text)]
    return [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in found]
