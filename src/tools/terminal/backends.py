"""Where commands run: here, in a Docker container or on another machine.

A backend says how to start the local process that runs a command (the shell itself, or the client
that reaches one), how to read what the shell left behind, and how to end what is not a child of
ours. Reading output, time limits and the ledger are the same for all.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Protocol

from ..base import ToolError
from ..processes.identity import MARKER, marker_value
from .environ import child_environment, is_secret
from .shell import Memory, ShellState, read_state, script

if TYPE_CHECKING:
    from ..wall.seatbelt import Seatbelt
    from ..wall.warden import Warden

COMMAND_LIMIT = 90_000
"""Bytes of a command; more would not fit into one argument of a client."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One command, and everything it is to be started with."""

    marker: str
    command: str
    folder: Path
    """Private to this run; deleted at its end."""
    base: Mapping[str, str]
    """The environment before what commands changed."""
    sent: Mapping[str, str]
    """The part of `base` that goes along wherever the command runs."""
    memory: Memory
    cwd: str | None
    passed: frozenset[str] = frozenset()
    """The names in `sent` that `pass_env` allows: credentials."""
    pty: bool = False
    stdin: bool = False
    sudo: bool = False
    """The first line of standard input is the password."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    warden: Warden | Seatbelt | None = None
    """The warden that starts it inside a wall."""
    states: Path | None = None
    """Where shells inside a wall leave their states, if not in `folder`."""
    release: Callable[[], None] | None = None
    """Called when the run has ended, to revoke what was granted to it alone."""

    @property
    def state_file(self) -> Path:
        """Where the shell leaves its state; inside a wall, something else may be there instead."""
        return self.states / self.marker if self.states else self.folder / "state"

    @property
    def needs_input(self) -> bool:
        """Whether something will be written to its standard input."""
        return self.stdin or self.sudo

    @property
    def private(self) -> dict[str, str]:
        """The variables that go along and must not stand in any command line, where every user of
        a machine can read them."""
        going = {**self.sent, **self.memory.environ}
        return {
            name: value
            for name, value in going.items()
            if name not in self.memory.unset
            and (name in self.passed or (name in self.memory.environ and is_secret(name, value)))
        }

    def environ(self) -> dict[str, str]:
        """The command's environment, where it inherits ours."""
        return {**self.memory.apply(self.base), MARKER: marker_value(self.marker)}


@dataclass(frozen=True, slots=True)
class Invocation:
    """The local process that a backend asks for."""

    argv: list[str]
    environ: dict[str, str]
    cwd: Path | None = None
    trailer: bytes = b""
    """What the output's last part, which is not the command's, begins with."""
    warden: Warden | Seatbelt | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a command that has ended."""

    code: int | None
    state: ShellState | None = None
    before: Mapping[str, str] | None = None
    """The environment it started with."""
    problem: str = ""
    """What went wrong on the way to it, and what to do."""


class Backend(Protocol):
    """What a place to run commands in must offer."""

    name: str

    @property
    def where(self) -> dict[str, Any]:
        """The settings to find it again after a restart; empty for this machine."""
        ...

    def prepare(self, launch: Launch) -> Invocation:
        """Get ready for a command and say how to start it."""
        ...

    def ending(self, launch: Launch, code: int | None, trailer: bytes) -> Ending:
        """Read what the command left behind."""
        ...

    def kill(self, marker: str, grace: float) -> None:
        """End the run's processes that are not children of ours; OSError if that fails."""
        ...

    def call(self, text: str, seconds: float) -> int:
        """Run a line of shell there, quietly, for its exit code; OSError if that fails."""
        ...

    def abandon(self, marker: str, kind: str) -> None:
        """End an orphaned run of an earlier Hermes there; OSError if that fails."""
        ...

    def close(self) -> None:
        """Give back what was set up for the conversation."""
        ...


class LocalBackend:
    """Commands on this machine, run by bash (by sh where there is none)."""

    name = "local"

    @property
    def where(self) -> dict[str, Any]:
        """Here."""
        return {}

    def prepare(self, launch: Launch) -> Invocation:
        """The shell itself."""
        (launch.folder / "command").write_bytes(encoded(launch.command))
        os.close(os.open(launch.state_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shell = shell_path()
        text = script(
            str(launch.folder),
            state_file=str(launch.state_file),
            sudo=launch.sudo,
            stdin=launch.stdin,
        )
        argv = [shell, "-c", text, Path(shell).name]
        cwd = launch.cwd or "/"
        # With PWD the shell keeps the path that was chosen, where there are symbolic links.
        environ = {**launch.environ(), "PWD": cwd}
        return Invocation(argv, environ, Path(cwd), warden=launch.warden)

    def ending(self, launch: Launch, code: int | None, trailer: bytes) -> Ending:
        """Read the state file."""
        return Ending(code, read_state(launch.state_file), launch.environ())

    def kill(self, marker: str, grace: float) -> None:
        """Nothing: they are all on this machine."""

    def call(self, text: str, seconds: float) -> int:
        """Run a line of shell."""
        return helper(["sh", "-c", text], child_environment(os.environ), seconds)[0]

    def abandon(self, marker: str, kind: str) -> None:
        """Nothing: they are all on this machine."""

    def close(self) -> None:
        """Nothing was set up."""


def make_backend(settings: Mapping[str, Any], home: Path) -> Backend:
    """The backend that the terminal's settings ask for."""
    name = str(settings.get("backend") or "local")
    if name == "local":
        return LocalBackend()
    if name == "docker":
        from .docker import DockerBackend

        return DockerBackend(settings, home)
    if name == "ssh":
        from .ssh import SshBackend

        return SshBackend(settings, home)
    raise ToolError(
        f"There is no terminal backend {name!r}. Set terminal.backend in config.yaml to local,"
        " docker or ssh."
    )


def encoded(command: str) -> bytes:
    """A command's bytes, if it can be run at all."""
    data = command.encode("utf-8", "replace")
    if len(data) > COMMAND_LIMIT:
        raise ToolError(
            f"The command is too long ({len(data):,} bytes; {COMMAND_LIMIT:,} at most). Write it to"
            " a file and run that."
        )
    if b"\0" in data:
        raise ToolError("A command cannot contain a NUL character. Write it as \\0 or $'\\x00'.")
    return data


def helper(
    argv: list[str],
    environ: dict[str, str],
    seconds: float,
    give_up: Callable[[], bool] = lambda: False,
    stdin: bytes = b"",
) -> tuple[int, str]:
    """Run a helper process to its end: its exit code and the little it printed.

    OSError if it cannot be started, takes too long or is given up.
    """
    with TemporaryFile() as printed, TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            argv,
            env=environ,
            stdin=given,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + seconds
        try:
            while True:
                try:
                    code = process.wait(0.05)
                    break
                except subprocess.TimeoutExpired:
                    if give_up():
                        raise InterruptedError(f"{argv[0]} was stopped") from None
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{argv[0]} took more than {seconds:.0f} s") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        printed.seek(0)
        return code, printed.read(10_000).decode(errors="replace").strip()


@cache
def shell_path() -> str:
    """The shell that runs commands here."""
    return shutil.which("bash") or shutil.which("sh") or "/bin/sh"
