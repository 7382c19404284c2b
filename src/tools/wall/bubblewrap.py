"""A wall as arguments of `bwrap`: namespaces for files, processes and the network.

Everything is shown read-only; on top of that, from the outermost place to the innermost, come the
places that can be written and empty ones in the place of what is hidden.
"""

from __future__ import annotations

import os
from pathlib import Path

from .policy import Wall

INSIDE = Path(__file__).parent / "inside"
WARDEN_FOLDER = Path("/run/hermes-wall")
_KEPT_FOR_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETGID",
                  "CAP_SETUID", "CAP_SETPCAP")  # fmt: skip
"""The last one only lets the warden drop the others' bounds, and itself."""


def namespaces(*, as_root: bool, own_network: bool) -> list[str]:
    """The namespaces of a wall.

    As root no user namespace is made: in one of its own, root would own the mounts and could take
    away those that hide something. It keeps the rights that concern files, and loses the others.
    """
    options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--unshare-net"] if own_network else []
    if as_root:
        options += ["--cap-drop", "ALL"]
        options += [word for name in _KEPT_FOR_ROOT for word in ("--cap-add", name)]
    else:
        options += ["--unshare-user", "--disable-userns"]
    return [*options, "--new-session", "--die-with-parent"]


def arguments(
    wall: Wall, program: list[str], *, as_root: bool, is_first: bool = False
) -> list[str]:
    """`bwrap` and its arguments, up to and with the program that is to run inside.

    With `is_first` it is the first process there, which signals from inside neither stop nor end.
    """
    argv = ["bwrap", *namespaces(as_root=as_root, own_network=wall.network != "full")]
    argv += ["--as-pid-1"] if is_first else []
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    argv += ["--tmpfs", "/run", "--tmpfs", "/var/tmp", "--tmpfs", "/dev/shm"]
    if wall.network == "full":
        argv += _resolver()
    scratch = str(wall.scratch) if wall.scratch else None
    argv += ["--bind", scratch, "/tmp"] if scratch else ["--tmpfs", "/tmp"]
    argv += ["--ro-bind", str(INSIDE), str(WARDEN_FOLDER / INSIDE.name)]
    ordered = _ordered(wall)
    for path, rule in ordered:
        argv += _shown(path, rule, wall.empty)
    for path, rule in ordered:
        if rule == "hidden" and path.is_dir():
            # Not earlier: places inside it may have been shown since.
            argv += ["--remount-ro", str(path)]
    return [*argv, "--", *program]


def _ordered(wall: Wall) -> list[tuple[Path, str]]:
    rules = dict.fromkeys(wall.hidden, "hidden")
    rules |= dict.fromkeys(wall.readable, "readable")
    rules |= dict.fromkeys(wall.writable, "writable")
    return sorted(rules.items(), key=lambda entry: len(entry[0].parts))


def _shown(path: Path, rule: str, empty: Path) -> list[str]:
    name = str(path)
    if rule == "writable":
        return ["--bind", name, name]
    if rule == "readable":
        return ["--ro-bind", name, name]
    if path.is_dir():
        return ["--tmpfs", name]
    return ["--ro-bind", str(empty), name]


def _resolver() -> list[str]:
    """With the whole network, names are looked up as outside: /run may hold how."""
    real = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind-try", real, real] if real.startswith("/run/") else []
