"""A filter of system calls: what no command inside a wall has any business with.

Built by hand as a classic BPF program, since it is short: the architecture is checked, each listed
call answers "not permitted", and of `socket` only some families pass. On a processor that is not in
the table the filter is refused rather than guessed.
"""

from __future__ import annotations

import ctypes
import os
import struct

_SET_SECCOMP, _FILTER_MODE, _NO_NEW_PRIVS = 22, 2, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _EAFNOSUPPORT, _ENOSYS = 1, 97, 38
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCH = 0, 4

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

_X86_64 = {
    "audit": 0xC000003E, "socket": 41, "clone": 56, "clone3": 435, "ioctl": 16,
    "add_key": 248, "request_key": 249, "keyctl": 250, "kexec_load": 246, "kexec_file_load": 320,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "open_by_handle_at": 304,
    "mount": 165, "umount2": 166, "pivot_root": 155, "move_mount": 429, "open_tree": 428,
    "fsopen": 430, "fsmount": 432, "fsconfig": 431, "fspick": 433, "mount_setattr": 442,
    "swapon": 167, "swapoff": 168, "reboot": 169, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "setns": 308, "unshare": 272, "acct": 163, "settimeofday": 164,
    "clock_settime": 227, "quotactl": 179, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "process_vm_writev": 311,
}  # fmt: skip
_AARCH64 = {
    "audit": 0xC00000B7, "socket": 198, "clone": 220, "clone3": 435, "ioctl": 29,
    "add_key": 217, "request_key": 218, "keyctl": 219, "kexec_load": 104, "kexec_file_load": 294,
    "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "open_by_handle_at": 265,
    "mount": 40, "umount2": 39, "pivot_root": 41, "move_mount": 429, "open_tree": 428,
    "fsopen": 430, "fsmount": 432, "fsconfig": 431, "fspick": 433, "mount_setattr": 442,
    "swapon": 224, "swapoff": 225, "reboot": 142, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "setns": 268, "unshare": 97, "acct": 89, "settimeofday": 170,
    "clock_settime": 112, "quotactl": 60, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "process_vm_writev": 271,
}  # fmt: skip
_TABLES = {"x86_64": _X86_64, "aarch64": _AARCH64}
_SPECIAL = {"audit", "socket", "clone", "clone3", "ioctl"}
_X32_BIT = 0x40000000
_NEW_USER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Put characters into somebody's terminal as if they had been typed."""


def is_known_machine() -> bool:
    """Whether there is a table for this processor."""
    return os.uname().machine in _TABLES


def install(families: list[int]) -> None:
    """Filter this process and all that it starts, for good; only these socket families remain."""
    calls = _TABLES.get(os.uname().machine)
    if calls is None:
        raise OSError(f"no table of system calls for {os.uname().machine}")
    program = _program(calls, families)
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs could not be set")
    if libc.prctl(_SET_SECCOMP, _FILTER_MODE, head, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def _program(calls: dict[str, int], families: list[int]) -> bytes:
    def deny(errno: int) -> bytes:
        return _step(_RETURN, _ERRNO | errno)

    steps = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, calls["audit"], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if calls is _X86_64:
        # The same calls under other numbers, which no program of today uses.
        steps += [_step(_AT_LEAST, _X32_BIT, 0, 1), deny(_ENOSYS)]
    for name, number in calls.items():
        if name not in _SPECIAL:
            steps += [_step(_EQUAL, number, 0, 1), deny(_EPERM)]
    # The C library falls back to clone, whose flags can be looked at.
    steps += [_step(_EQUAL, calls["clone3"], 0, 1), deny(_ENOSYS)]
    steps += [
        _step(_EQUAL, calls["clone"], 0, 4),
        _step(_LOAD, _argument(0)),
        _step(_AND, _NEW_USER),
        _step(_EQUAL, 0, 1, 0),
        deny(_EPERM),
        _step(_LOAD, _NUMBER),
        _step(_EQUAL, calls["ioctl"], 0, 5),
        _step(_LOAD, _argument(1)),
        _step(_EQUAL, _TIOCSTI, 1, 0),
        _step(_EQUAL, _TIOCLINUX, 0, 1),
        deny(_EPERM),
        _step(_LOAD, _NUMBER),
        _step(_EQUAL, calls["socket"], 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _argument(0)),
    ]
    for family in families:
        steps += [_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    steps.append(deny(_EAFNOSUPPORT))
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _argument(index: int) -> int:
    """Where the lower half of an argument is, on a little-endian machine."""
    return 16 + 8 * index
