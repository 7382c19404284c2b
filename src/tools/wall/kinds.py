"""Which kind of wall this machine can build, found out by building one.

Namespaces are switched off on some distributions, and a kernel may have Landlock and not use it:
so each kind is tried once, the strongest first, and the first that stands is used from then on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Literal

from .bubblewrap import namespaces

Kind = Literal["bubblewrap", "landlock", "sandbox-exec", "none"]
_TRY_SECONDS = 10
_lock = threading.Lock()
_known: dict[str, Means] = {}


@dataclass(frozen=True, slots=True)
class Means:
    """What walls are built with here."""

    kind: Kind
    has_network: bool = True
    """Whether what is inside can have a network of its own, and so the proxy."""
    as_root: bool = False
    """Built with the rights of root, and without a user namespace."""
    gaps: tuple[str, ...] = ()
    """What it cannot stop, in words."""
    why: str = ""
    """Why nothing stronger could be had."""

    def __str__(self) -> str:
        words = {
            "bubblewrap": "bubblewrap",
            "landlock": "Landlock",
            "sandbox-exec": "sandbox-exec (not tried)",
            "none": "no wall",
        }
        gaps = f"; it does not stop {' or '.join(self.gaps)}" if self.gaps else ""
        return f"{words[self.kind]}{gaps}"


def means() -> Means:
    """What walls are built with here; found out at the first call.

    `HERMES_WALL` names the kinds that may be tried, for tests and for those who know better.
    """
    allowed = os.environ.get("HERMES_WALL", "bubblewrap,landlock,sandbox-exec")
    with _lock:
        if allowed not in _known:
            _known[allowed] = _find([kind.strip() for kind in allowed.split(",")])
        return _known[allowed]


def _find(allowed: list[str]) -> Means:
    if sys.platform == "darwin" and "sandbox-exec" in allowed:
        if shutil.which("sandbox-exec"):
            return Means("sandbox-exec", gaps=("signals to other processes of the account",))
        return Means("none", why="sandbox-exec is not there")
    if sys.platform != "linux":
        return Means("none", why=f"there is none for {sys.platform}")
    why = []
    if "bubblewrap" in allowed:
        for as_root in (True, False) if os.geteuid() == 0 else (False,):
            problem = _try_bubblewrap(as_root)
            if not problem:
                return Means("bubblewrap", as_root=as_root)
        why.append(f"bubblewrap: {problem}")
    if "landlock" in allowed:
        return _try_landlock("; ".join(why))
    return Means("none", why="; ".join(why) or "HERMES_WALL allows none")


def _try_bubblewrap(as_root: bool) -> str:
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    options = namespaces(as_root=as_root, own_network=True)
    argv = ["bwrap", *options, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TRY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[-200:]


def _try_landlock(why: str) -> Means:
    from .inside import landlock, seccomp

    version = landlock.abi()
    if version == 0:
        return Means("none", why=f"{why}; Landlock: this kernel does not have it".lstrip("; "))
    if not seccomp.is_known_machine():
        return Means("none", why=f"{why}; Landlock: not on this processor yet".lstrip("; "))
    gaps = landlock.missing(version)
    has_network = _has_own_network()
    if not has_network:
        gaps.append("nothing of the network, which stays closed but for commands that get all")
    return Means("landlock", has_network=has_network, gaps=tuple(gaps), why=why)


def _has_own_network() -> bool:
    """Whether a process of this account may have a network of its own."""
    flags = 0x40000000 | (0 if os.geteuid() == 0 else 0x10000000)
    code = f"import ctypes,sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    try:
        return subprocess.run(argv, timeout=_TRY_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
