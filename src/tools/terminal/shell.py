"""The shell around a command, and what it leaves behind: working directory and environment.

Each command runs in a shell of its own. When the shell is about to end, however it comes to that,
it writes its directory and its exported variables into a private file beside the output; the next
command starts with them. A shell that is killed, or replaced by `exec`, writes nothing, and then
the next command starts where this one did.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..processes.identity import MARKER

# Belong to the shell, not to the user; a session's own values are set anew for each command.
_NOT_KEPT = re.compile(rf"_|SHLVL|PWD|{MARKER}|HERMES_(SESSION|UI|CRON)_.*|__hermes_\w*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STATE_LIMIT = 4_000_000
_LONGEST_PATH, _LONGEST_ENTRY, _MOST_ENVIRON = 4_095, 131_000, 1_500_000
"""Beyond these the system starts no program."""


@dataclass(frozen=True, slots=True)
class ShellState:
    """What a shell wrote down at its end."""

    cwd: str
    environ: dict[str, str] | None
    """None if it could not be read, e.g. because it became too large for the system."""


@dataclass(slots=True)
class Memory:
    """What the next command starts with."""

    cwd: str | None = None
    """None: wherever the backend starts."""
    environ: dict[str, str] = field(default_factory=dict)
    """Variables that commands have set."""
    unset: set[str] = field(default_factory=set)
    """Variables that commands have removed."""

    def learn(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Take over what a command changed in its environment."""
        for name, value in after.items():
            if before.get(name) != value and not _NOT_KEPT.fullmatch(name):
                self.environ[name] = value
                self.unset.discard(name)
        for name in before:
            if name not in after and not _NOT_KEPT.fullmatch(name):
                self.environ.pop(name, None)
                self.unset.add(name)

    def apply(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with these changes."""
        kept = {name: value for name, value in base.items() if name not in self.unset}
        return {**kept, **self.environ}


def script(
    folder: str,
    *,
    state_file: str | None = None,
    prelude: str = "",
    sudo: bool = False,
    stdin: bool = False,
) -> str:
    """The text for `sh -c` that runs `<folder>/command` and leaves its state in a file.

    That is `<folder>/state`, unless `state_file` names another. `prelude` runs before the command.
    With `sudo` the first line of standard input is the password, after which there is no more input
    unless `stdin` says so.
    """
    command, state = shlex.quote(f"{folder}/command"), shlex.quote(state_file or f"{folder}/state")
    save = (
        "{ command printf '%s\\0' \"$(command pwd)\"; /usr/bin/env -0; command printf '.\\0'; }"
        f" >|{state} 2>/dev/null"
    )
    # The first `set` silences tracing, and itself.
    quiet = "{ __hermes_code=$?; set +aeuxv; } 2>/dev/null"
    at_exit = f'{quiet}; [ -n "${{__hermes_saved-}}" ] || {save}'
    steps = [
        # An earlier command may have left a PATH with nothing in it.
        f'__hermes_command="$(PATH=/usr/bin:/bin:$PATH cat {command})"',
        prelude,
        "sudo -S -p '' -v || exit 1" if sudo else "",
        "exec </dev/null" if sudo and not stdin else "",
        f"trap {shlex.quote(at_exit)} EXIT",
        'eval "$__hermes_command"',
        # A command may have set a trap of its own; this is where it did not call `exit`.
        quiet,
        save,
        "__hermes_saved=1",
        'exit "$__hermes_code"',
    ]
    return "; ".join(step for step in steps if step)


def exports(environ: Mapping[str, str], unset: set[str], cwd: str | None) -> str:
    """Shell text that sets up an environment and a directory where none is inherited."""
    steps = [
        f"export {name}={shlex.quote(value)}"
        for name, value in environ.items()
        if _IDENTIFIER.fullmatch(name)
    ]
    steps += [f"unset {name}" for name in sorted(unset) if _IDENTIFIER.fullmatch(name)]
    if cwd:
        complaint = "printf '[The directory %s cannot be entered; running in %s.]\\n'"
        steps.append(
            f'cd -- {_home_path(cwd)} 2>/dev/null || {complaint} {shlex.quote(cwd)} "$PWD"'
        )
    return "; ".join(steps)


def parse_environ(data: bytes) -> dict[str, str]:
    """The environment in `env -0` form."""
    entries = (entry.partition(b"=") for entry in data.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}


def parse_state(data: bytes) -> ShellState | None:
    """What the shell wrote, or None if it did not come to its end."""
    if len(data) > _STATE_LIMIT or not data.endswith(b"\0.\0"):
        return None
    cwd, _, rest = data[: -len(b".\0")].partition(b"\0")
    if not cwd.startswith(b"/") or len(cwd) > _LONGEST_PATH:
        return None
    environ = parse_environ(rest)
    # A shell cannot have more than this, but what runs in its place can write what it likes.
    is_usable = len(rest) <= _MOST_ENVIRON and all(
        len(entry) <= _LONGEST_ENTRY for entry in rest.split(b"\0")
    )
    return ShellState(os.fsdecode(cwd), environ if environ and is_usable else None)


def read_state(path: Path) -> ShellState | None:
    """What the shell wrote into a file in a folder that commands can write to.

    Whatever they put in its place, no link is followed and nothing is waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # deleted, or replaced
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return parse_state(file.read(_STATE_LIMIT + 1))


def _home_path(path: str) -> str:
    """A quoted path in which a leading `~` still means the home folder over there."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:])
    return shlex.quote(path)
