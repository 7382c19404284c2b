"""Starting a process in a session of its own, with a pipe or a pseudo-terminal to its output.

The process leads a new process group, so all of it can be stopped at once. Its end is noticed when
the process itself ends, not when everything that holds its output has closed it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..wall.policy import TERMINAL_SIZE

if TYPE_CHECKING:
    from ..wall.seatbelt import Seatbelt
    from ..wall.warden import WalledProcess, Warden

FIRST_FURTHER = 3
_CHUNK = 65_536
_PIPE_SIZE = 1_048_576
_TICK = 0.05
_LATE_SECONDS = 0.1
"""How long output is read after the end, from those who still write."""

# A session leader that opens a terminal gets it as its controlling one; then job control and
# /dev/tty work, without any code between fork and exec.
_TAKE_TERMINAL = 'exec <"$0" >"$0" 2>&1; exec "$@"'


class Child:
    """A started process and the ends of its input and output."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | WalledProcess,
        output: int,
        stdin: int | None,
        *,
        is_pty: bool,
    ) -> None:
        self.process = process
        self.is_pty = is_pty
        self._output: int | None = output
        self._stdin = stdin
        self._input_lock = threading.Lock()
        """One thread reads and closes, another may write."""
        self._end = _end_of(process)

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self.process.pid

    def read(self, seconds: float) -> bytes:
        """The next output; empty if there was none for that long, or the process has ended."""
        poll = select.poll()
        for descriptor in (self._output, self._end):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        if self._end is None:
            seconds = min(seconds, _TICK)
        ready = {descriptor for descriptor, _ in poll.poll(max(0, seconds) * 1000)}
        return self._take() if self._output in ready else b""

    def rest(self, take: Callable[[bytes], object]) -> None:
        """What is still in the pipe when the process has ended."""
        left = self._waiting()
        deadline = time.monotonic() + _LATE_SECONDS
        while (left > 0 or time.monotonic() < deadline) and (data := self._take()):
            left -= len(data)
            take(data)

    def _waiting(self) -> int:
        """How many bytes are in the pipe: those are read, however long that takes."""
        import termios

        if self._output is None:
            return 0
        size = fcntl.ioctl(self._output, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", size)[0])

    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def write(self, data: bytes, seconds: float, give_up: Callable[[], bool]) -> int:
        """Write to its input; returns how many bytes it took before the time was over."""
        deadline, written = time.monotonic() + seconds, 0
        while written < len(data) and time.monotonic() < deadline and not give_up():
            with self._input_lock:
                if self._stdin is None:
                    raise BrokenPipeError(errno.EPIPE, "its input is closed")
                poll = select.poll()
                poll.register(self._stdin, select.POLLOUT)
                if poll.poll(_TICK * 1000):
                    written += self._put(self._stdin, data[written : written + 4096])
        return written

    def close_input(self) -> None:
        """Let it read the end of its input."""
        with self._input_lock:
            if self._stdin is None:
                return
            if self.is_pty:
                with suppress(BrokenPipeError):
                    self._put(self._stdin, b"\x04")
                return
            os.close(self._stdin)
            self._stdin = None

    def close(self) -> None:
        """Free the descriptors; the process must have ended."""
        with self._input_lock:
            held = {self._output, self._end, self._stdin}
            self._output = self._end = self._stdin = None
        for descriptor in held:
            if descriptor is not None:
                os.close(descriptor)

    @staticmethod
    def _put(descriptor: int, data: bytes) -> int:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno == errno.EIO:
                raise BrokenPipeError(errno.EPIPE, "its terminal is gone") from error
            raise

    def _take(self) -> bytes:
        if self._output is None:
            return b""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.EIO:  # how a pseudo-terminal says that nobody is left
                raise
            data = b""
        if not data:
            if not self.is_pty:
                os.close(self._output)
            self._output = None
        return data


def _end_of(process: subprocess.Popen[bytes] | WalledProcess) -> int | None:
    """What becomes readable when a process ends, where the system offers that."""
    if not isinstance(process, subprocess.Popen):
        return process.take_handle()
    return os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None


def spawn(
    argv: list[str],
    environ: Mapping[str, str],
    cwd: Path | None,
    *,
    pty: bool,
    stdin: bool,
    warden: Warden | Seatbelt | None = None,
    further: Sequence[int] = (),
) -> Child:
    """Start a process; without `stdin` it reads the end of its input at once.

    With a `warden` it is started inside that wall, and `further` descriptors are its
    `FIRST_FURTHER` and so on.
    """
    if pty:
        return _spawn_in_terminal(argv, environ, cwd, warden)
    output, its_output = os.pipe()
    its_input, own_input = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
    try:
        process = _start(argv, environ, cwd, its_input, its_output, warden, further)
    except OSError:
        for descriptor in (output, own_input):
            if descriptor is not None:
                os.close(descriptor)
        raise
    finally:
        os.close(its_output)
        os.close(its_input)
    _enlarge(output)
    for descriptor in (output, own_input):
        if descriptor is not None:
            os.set_blocking(descriptor, False)
    return Child(process, output, own_input, is_pty=False)


def _spawn_in_terminal(
    argv: list[str], environ: Mapping[str, str], cwd: Path | None, warden: Warden | Seatbelt | None
) -> Child:
    import termios

    size = struct.pack("HHHH", *TERMINAL_SIZE, 0, 0)
    if warden is not None and warden.has_terminals:
        walled = warden.run(argv, environ, cwd or Path("/"), [], pty=True)
        assert not isinstance(walled, subprocess.Popen), "only a warden has terminals"
        assert walled.terminal is not None, "it was asked for"
        os.set_blocking(walled.terminal, False)
        return Child(walled, walled.terminal, walled.terminal, is_pty=True)
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        process: subprocess.Popen[bytes] | WalledProcess
        if warden is not None:
            process = warden.run(argv, environ, cwd or Path("/"), [slave, slave, slave], pty=True)
        else:
            wrapped = ["/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(slave), *argv]
            process = _popen(wrapped, environ, cwd, slave, slave)
    except OSError:
        os.close(master)
        raise
    finally:
        os.close(slave)
    os.set_blocking(master, False)
    return Child(process, master, master, is_pty=True)


def _start(
    argv: list[str],
    environ: Mapping[str, str],
    cwd: Path | None,
    stdin: int,
    output: int,
    warden: Warden | Seatbelt | None,
    further: Sequence[int],
) -> subprocess.Popen[bytes] | WalledProcess:
    if warden is None:
        return _popen(argv, environ, cwd, stdin, output)
    return warden.run(argv, environ, cwd or Path("/"), [stdin, output, output, *further])


def _popen(
    argv: list[str], environ: Mapping[str, str], cwd: Path | None, stdin: int, output: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=dict(environ),
        cwd=cwd,
        stdin=stdin,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _enlarge(pipe: int) -> None:
    """A larger pipe means fewer turns for a command that prints a lot."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's share may be used up; the usual size will do
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
