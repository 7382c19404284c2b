"""Landlock by system calls: this process, and all that it starts, can touch only what is listed.

The kernel's interface is versioned (the ABI); rights that a kernel does not know are left out, and
`missing` says in words what that leaves open.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_RULE_BENEATH = 1
_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE = 1 << 14
_ALL_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
READ = EXECUTE | READ_FILE | READ_DIR
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | 1 << 15
"""The rights that a rule for a file, as opposed to a folder, may carry."""
_SCOPED_SOCKETS, _SCOPED_SIGNALS = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 without Landlock."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _ASK_VERSION)))


def missing(version: int) -> list[str]:
    """What this version cannot stop, in words."""
    gaps = [
        "changes of permissions, owners and times of files that the account owns",
        "changes of what git runs by itself in the work tree",
    ]
    if version < 6:
        gaps.append("signals to other processes of the account")
    if version < 3:
        gaps.append("cutting files short")
    return gaps


def all_rights(version: int) -> int:
    """Every right on files that this version knows."""
    return max(rights for since, rights in _ALL_BY_ABI.items() if since <= version)


def restrict(readable: list[str], writable: list[str]) -> None:
    """Confine this process for good; OSError if the kernel refuses."""
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    handled = all_rights(version)
    scoped = _SCOPED_SOCKETS | _SCOPED_SIGNALS if version >= 6 else 0
    attributes = struct.pack("QQQ", handled, 0, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _call(_CREATE, attributes, size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, READ & handled)
        for path in writable:
            _allow(ruleset, path, handled)
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs could not be set")
        _call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def leave_abstract_sockets() -> None:
    """Cut this process off from sockets outside that have no path, where the kernel can.

    They belong to the network, and yet are how an X server and message buses are spoken to.
    """
    if abi() < 6:
        return
    ruleset = _call(_CREATE, struct.pack("QQQ", 0, 0, _SCOPED_SOCKETS), 24, 0)
    try:
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs could not be set")
        _call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it went away since the list was made: nothing to allow
    try:
        if os.readlink(f"/proc/self/fd/{folder}") != path:  # noqa: PTH115 - no pathlib in here
            return  # a link was put there since: it leads to a place that was not listed
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _FOR_FILES
        _call(_ADD, ruleset, _RULE_BENEATH, struct.pack("=Qi", rights, folder), 0)
    finally:
        os.close(folder)


def _call(number: int, *arguments: object) -> int:
    answer = int(_libc.syscall(number, *arguments))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return answer
