"""Running a command through a client program that connects its input and output to elsewhere.

Over there a small shell script sets up the environment, runs the command exactly as it would run
here, and ends the output with a trailer: exit code, directory and environment. The trailer says
that the command has ended even when something it started keeps the connection open. Stopping the
client stops nothing over there, so the run's processes are looked up by their marker and ended.
"""

from __future__ import annotations

import base64
import binascii
import shlex

from ..base import ToolError
from ..processes.identity import MARKER
from .backends import Ending, Launch, encoded
from .shell import exports, parse_environ, parse_state, script

_ARGUMENT_LIMIT = 128_000
_TRAILER_LIMIT = 8_000_000
_STOP = b"\x1e"


def trailer_start(marker: str) -> bytes:
    """What the trailer of a run begins with."""
    return b"\x1eHERMES:" + marker.encode() + b":"


def remote_argv(launch: Launch, *, environ_file: bool = False) -> list[str]:
    """The words that run a command over there: safe for any login shell, since all that is quoted
    is plain, and the rest is base64.

    Of the variables the private ones are not among the words: they are in the environment already,
    or with `environ_file` in a file that `leave_environ` has left.
    """
    payload = base64.b64encode(_remote_script(launch, environ_file).encode()).decode()
    if len(payload) > _ARGUMENT_LIMIT:
        raise ToolError(
            "The command with its environment is too long for this backend. Put it into a file"
            " over there, or unset large variables."
        )
    return ["sh", "-c", 'eval "$(printf %s "$1" | base64 -d)"', "hermes", payload]


def leave_environ(launch: Launch) -> tuple[str, bytes]:
    """Shell text that leaves the private variables in a private file, and its standard input."""
    folder = f"/tmp/hermes-{launch.marker}"
    return (
        f"umask 077; mkdir {folder} && cat >{folder}/environ",
        exports(launch.private, set(), None).encode("utf-8", "surrogateescape"),
    )


def _remote_script(launch: Launch, environ_file: bool) -> str:
    folder = f"/tmp/hermes-{launch.marker}"
    command = encoded(launch.command).decode()
    private = launch.private
    changed = {
        name: value
        for name, value in {**launch.sent, **launch.memory.environ}.items()
        if name not in private and name not in launch.memory.unset
    }
    environ = f"{folder}/environ"
    make = ":" if environ_file else f"mkdir {folder}"  # `leave_environ` has made it
    prelude = "; ".join(
        (
            f". {environ}; PATH=/usr/bin:/bin:$PATH rm -f {environ}" if environ_file else ":",
            exports(changed, launch.memory.unset, launch.cwd) or ":",
            f"/usr/bin/env -0 >{folder}/before 2>/dev/null",
        )
    )
    inner = script(folder, prelude=prelude, sudo=launch.sudo, stdin=launch.stdin)
    return f"""
(umask 077; {make} && printf %s {shlex.quote(command)} >{folder}/command &&
  : >{folder}/state && : >{folder}/before) || exit 125
export {MARKER}={launch.marker}
if command -v bash >/dev/null 2>&1; then s=bash; else s=sh; fi
exec 2>/dev/null  # this shell itself would report how the other one was ended
"$s" -c {shlex.quote(inner)} "$s" 2>&1
code=$?
before=$(base64 <{folder}/before)
state=$(base64 <{folder}/state)
rm -rf {folder}
printf '\\036HERMES:%s:%s:%s:%s\\036' {launch.marker} "$code" "$before" "$state"
exit "$code"
"""


def kill_script(marker: str, grace: float) -> str:
    """Shell text that ends every process with that marker: SIGTERM, and SIGKILL after `grace`."""
    rounds = max(1, round(grace / 0.1))
    return f"""
find() {{ grep -ls {marker} /proc/[0-9]*/environ | cut -d/ -f3; }}
send() {{ for p in $(find); do kill "-$1" "$p"; done 2>/dev/null; }}
send TERM; send CONT; n=0
while [ -n "$(find)" ]; do
  [ $n -lt {rounds} ] || send KILL
  n=$((n+1)); [ $n -lt {rounds + 20} ] || exit 1
  sleep 0.1
done
rm -rf /tmp/hermes-{marker}
"""


class TrailerFilter:
    """Divides the output into what the command printed and the trailer."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._held = b""
        self.trailer = b""
        self.complete = False
        """Whether the whole trailer has arrived: the command has ended."""

    def feed(self, data: bytes) -> bytes:
        """The part of the next bytes that the command printed."""
        if not self._start or self.complete:
            return b"" if self.complete else data
        if self.trailer:
            self._collect(data)
            return b""
        data = self._held + data
        output, marker, rest = data.partition(self._start)
        if marker:
            self._held, self.trailer = b"", marker
            self._collect(rest)
            return output
        held = _common_end(data, self._start)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def rest(self) -> bytes:
        """What was held back and turned out to be ordinary output."""
        held, self._held = self._held, b""
        return held

    def _collect(self, data: bytes) -> None:
        content, marker, _ = data.partition(_STOP)
        self.trailer += content
        self.complete = bool(marker) or len(self.trailer) > _TRAILER_LIMIT


def read_trailer(trailer: bytes, code: int | None, problem: str) -> Ending:
    """What the trailer says; without one the client ended with `code` for want of a connection,
    or because it was stopped, and `problem` is what to say about it."""
    if not trailer:
        return Ending(code, problem=problem)
    parts = trailer.split(b":")
    if len(parts) != 5 or not parts[2].isdigit():
        return Ending(code)
    try:
        before, state = base64.b64decode(parts[3]), base64.b64decode(parts[4])
    except binascii.Error:
        return Ending(int(parts[2]))  # something else printed in the middle of it
    return Ending(int(parts[2]), parse_state(state), parse_environ(before))


def _common_end(data: bytes, start: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `start`."""
    for size in range(min(len(data), len(start) - 1), 0, -1):
        if data.endswith(start[:size]):
            return size
    return 0
