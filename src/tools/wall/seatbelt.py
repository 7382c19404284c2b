"""A wall as a profile of `sandbox-exec`, for macOS.

Written from the documentation of the profile language and of the system's own profiles, and not
tried on a Mac yet: `hermes doctor` says so. Each command gets the profile; the proxy listens on
this machine's loopback, and the profile allows that one port.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .policy import Wall

_TAKE_TERMINAL = 'exec <"$0" >"$0" 2>&1; exec "$@"'
_ALWAYS_WRITABLE = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")
_SECRET_SERVICES = ("com.apple.SecurityServer", "com.apple.securityd", "com.apple.pasteboard.1")
"""What hands out keys from the keychain, and the clipboard."""


def profile(wall: Wall, port: int | None) -> str:
    """The wall in the language of `sandbox-exec`, where the last rule that fits holds."""
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        f"(allow file-write* {_places(map(Path, _ALWAYS_WRITABLE))})",
        "(deny signal (target others))",
        "(deny process-info* (target others))",
        *(f'(deny mach-lookup (global-name "{name}"))' for name in _SECRET_SERVICES),
    ]
    if wall.network != "full":
        rules.append("(deny network*)")
        rules.append('(allow network* (local ip "localhost:*"))')
        rules.append('(deny network-outbound (remote ip "*:*"))')
        if port is not None:
            rules.append(f'(allow network-outbound (remote ip "localhost:{port}"))')
    depth = {path: len(path.parts) for path in (*wall.hidden, *wall.readable, *wall.writable)}
    for path in sorted(depth, key=lambda path: depth[path]):
        if path in wall.writable:
            rules.append(f"(allow file-read* file-write* {_places([path])})")
        elif path in wall.readable:
            rules.append(f"(allow file-read* {_places([path])})")
        else:
            rules.append(f"(deny file-read* file-write* {_places([path])})")
    return "\n".join(rules)


def _places(paths: Iterable[Path]) -> str:
    return " ".join(f"(subpath {_quoted(str(path))})" for path in paths)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Seatbelt:
    """A wall that is put around each command anew; the same to callers as a `Warden`."""

    has_terminals = False
    stands = True

    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self.listener: socket.socket | None = None
        if wall.network == "proxy":
            self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1] if self.listener else None
        self._profile = profile(wall, port)

    def run(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        fds: Sequence[int],
        *,
        pty: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a command with these descriptors as its 0, 1, 2 and so on."""
        words = ["sandbox-exec", "-p", self._profile, *argv]
        if pty:
            words = ["/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(fds[0]), *words]
        further = "".join(f" {number}<&{fd}" for number, fd in enumerate(fds[3:], start=3))
        if further:
            words = ["/bin/sh", "-c", f'exec "$@"{further}', "sh", *words]
        return subprocess.Popen(
            words,
            env=dict(environ),
            cwd=cwd,
            stdin=fds[0],
            stdout=fds[1],
            stderr=fds[2],
            pass_fds=tuple(fds[3:]),
            start_new_session=True,
        )

    def is_idle(self) -> bool:
        """Nothing is kept between commands, so there is nothing to gain by closing it."""
        return False

    def close(self) -> None:
        """Close the way to the proxy; what still runs is ended by the ledger of processes."""
        if self.listener is not None:
            self.listener.close()
