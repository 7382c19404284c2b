"""How an optional part of Hermes is installed, given how Hermes itself was.

A message names a command that works as it stands: with the interpreter that runs, and from the
folder that Hermes was installed from. Where that folder is gone, or there was none, it names the
packages of the part themselves. It never relies on our name at a package index, which others could
register.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import urllib.parse
import urllib.request
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTION = "hermes-thread"
"""The name in pyproject.toml; `hermes` alone is another project's."""
_SOURCE = Path(__file__).resolve().parents[2]
_EXTRA = re.compile(r"""(?:\s+and\s+)?\(?\bextra\s*==\s*["']([\w-]+)["']\)?(?:\s+and\s+)?""")


def install_hint(extra: str) -> str:
    """The command that installs an extra here, to be put behind "Run: "."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:  # run from its folder without an installation
        installed = None
    return install_command(extra, installed, _SOURCE)


def install_command(extra: str, installed: Distribution | None, source: Path) -> str:
    """The same for any installation; `source` is the folder above the packages' own."""
    pip = [sys.executable or "python3", "-m", "pip", "install"]
    if _is_project(source):
        return shlex.join([*pip, "-e", f"{source}[{extra}]"])
    folder = _installed_from(installed)
    if folder is not None:
        return shlex.join([*pip, f"{folder}[{extra}]"])
    return shlex.join([*pip, *_requirements(extra, installed)])


def _is_project(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return False
    return f'name = "{DISTRIBUTION}"' in text


def _installed_from(installed: Distribution | None) -> Path | None:
    """The folder that pip was given, if the project is still there."""
    try:
        origin = json.loads((installed and installed.read_text("direct_url.json")) or "{}")
        if "dir_info" not in origin:
            return None  # an archive, or an index: from there it may not be had again
        path = urllib.request.url2pathname(urllib.parse.urlsplit(origin["url"]).path)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # not what pip writes
    return Path(path) if _is_project(Path(path)) else None


def _requirements(extra: str, installed: Distribution | None) -> list[str]:
    wanted = []
    for requirement in (installed and installed.requires) or ():
        package, _, marker = requirement.partition(";")
        extras = _EXTRA.findall(marker)
        if extra in extras:
            condition = _EXTRA.sub("", marker).strip()
            wanted.append(f"{package.strip()}; {condition}" if condition else package.strip())
    return wanted or [f"{DISTRIBUTION}[{extra}]"]
