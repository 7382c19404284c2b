"""Commands on another machine, through `ssh`.

Settings: `ssh_host` (a name from ~/.ssh/config will do), and if needed `ssh_user`, `ssh_port` and
`ssh_key`. Nothing is ever asked: the key must work without a passphrase or through an agent, and
the host must be known. Commands of a while share one connection.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base import ToolError
from .backends import Ending, Invocation, Launch, helper
from .environ import child_environment
from .remote import kill_script, leave_environ, read_trailer, remote_argv, trailer_start

_KEYS = ("backend", "ssh_host", "ssh_user", "ssh_port", "ssh_key")
_SOCKET_PATH_LIMIT = 60
"""Characters of the folder for shared connections; a socket's whole path has room for 100."""
_CONTROL_SECONDS = 15
_SEND_SECONDS = 60
_SSH_FAILED = 255
"""How ssh ends when the connection is to blame; also a command may, but none of ours does."""


class SshBackend:
    """Runs commands on the configured host."""

    name = "ssh"

    def __init__(self, settings: Mapping[str, Any], home: Path) -> None:
        self._settings = {key: settings[key] for key in _KEYS if settings.get(key)}
        host = str(settings.get("ssh_host") or "")
        if not host or host.startswith("-"):
            raise ToolError(
                "The ssh backend needs a host. Set terminal.ssh_host in config.yaml, e.g. to a name"
                " from ~/.ssh/config."
            )
        self._host = f"{settings['ssh_user']}@{host}" if settings.get("ssh_user") else host
        self._sockets = home / "ssh"

    @property
    def where(self) -> dict[str, Any]:
        """The host and how to reach it."""
        return self._settings

    def prepare(self, launch: Launch) -> Invocation:
        """The client, with the command as one safe word."""
        options = ["-tt"] if launch.pty else ["-T"]
        if not (launch.pty or launch.needs_input):
            options.append("-n")
        private = bool(launch.private)
        if private:
            self._send_environ(launch)
        words = _line(remote_argv(launch, environ_file=private))
        argv = [*self._client(), *options, "--", self._host, words]
        return Invocation(argv, dict(launch.base), trailer=trailer_start(launch.marker))

    def _send_environ(self, launch: Launch) -> None:
        """Leave the private variables over there, through the client's standard input."""
        text, content = leave_environ(launch)
        argv = [*self._client(), "-T", "--", self._host, _line(["sh", "-c", text])]
        code, printed = helper(
            argv,
            child_environment(os.environ),
            _SEND_SECONDS,
            launch.cancelled.is_set,
            stdin=content,
        )
        if code != 0:
            raise ToolError(
                f"The variables of terminal.pass_env could not be sent to {self._host}:"
                f" {printed[-300:] or f'ssh ended with {code}'}"
            )

    def ending(self, launch: Launch, code: int | None, trailer: bytes) -> Ending:
        """Read the trailer; without one, the connection is to blame."""
        problem = (
            f"ssh could not run the command on {self._host}, or lost the connection. Check that"
            f" this works by hand: ssh -o BatchMode=yes {self._host} true"
        )
        return read_trailer(trailer, code, problem)

    def kill(self, marker: str, grace: float) -> None:
        """End the run's processes on the host.

        If ssh itself fails, try once more without the shared connection: it may be one that ends
        at this moment.
        """
        text, seconds = kill_script(marker, grace), _CONTROL_SECONDS + grace
        code = self.call(text, seconds)
        if code == _SSH_FAILED:
            code = self.call(text, seconds, options=["-o", "ControlPath=none"])
        if code != 0:
            raise ConnectionError(f"a run on {self._host} may still be going on")

    def call(self, text: str, seconds: float, options: Sequence[str] = ()) -> int:
        """Run a line of shell on the host."""
        words = _line(["sh", "-c", text])
        argv = [*self._client(options), "-T", "-n", "--", self._host, words]
        return helper(argv, child_environment(os.environ), seconds)[0]

    def abandon(self, marker: str, kind: str) -> None:
        """End the run's processes on the host, and the shared connection."""
        self.kill(marker, 0.5)
        self.close()

    def close(self) -> None:
        """Close the shared connection."""
        argv = [*self._client(), "-O", "exit", "--", self._host]
        helper(argv, child_environment(os.environ), _CONTROL_SECONDS)

    def _client(self, options: Sequence[str] = ()) -> list[str]:
        # Of two values for an option, ssh takes the first.
        argv = ["ssh", *options, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        argv += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"]
        if len(str(self._sockets)) <= _SOCKET_PATH_LIMIT:
            self._sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
            argv += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]
            argv += ["-o", f"ControlPath={self._sockets}/%C"]
        if self._settings.get("ssh_port"):
            argv += ["-p", str(self._settings["ssh_port"])]
        if self._settings.get("ssh_key"):
            key = Path(str(self._settings["ssh_key"])).expanduser()
            argv += ["-i", str(key), "-o", "IdentitiesOnly=yes"]
        return argv


def _line(words: list[str]) -> str:
    return " ".join(map(shlex.quote, words))
