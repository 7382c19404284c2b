"""This side of a warden: build a wall, have commands started inside it, end it.

A wall ends when this process does, whatever ends it: the warden inside reads the end of its socket,
and with bubblewrap the kernel ends what is inside with its first process.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from . import bubblewrap, landlock
from .inside.seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, is_known_machine
from .inside.warden import receive, send
from .kinds import Means
from .policy import TERMINAL_SIZE, Wall

START_SECONDS = 20.0
_ANSWER_SECONDS = 1.0
_NO_PROCESS = 2**30
"""Stands for a process that is gone already: larger than any number that a process can have."""
_LAST_WORD_SECONDS = 2.0
_GONE = "The wall is gone; what ran inside has ended with it."
_starting = threading.Lock()


class WallError(OSError):
    """A wall that could not be built, or that is gone."""


class WalledProcess:
    """A command inside a wall, as `subprocess.Popen` would show one outside."""

    def __init__(self, status: socket.socket, handle: int, terminal: int | None = None) -> None:
        self._status = status
        self._handle = handle
        self.terminal = terminal
        """The outer end of its pseudo-terminal, if it has one; the caller's to close."""
        self._lock = threading.Lock()
        self.returncode: int | None = None
        try:
            self.pid = _pid_behind(handle)
        finally:
            with suppress(OSError):  # what it runs may have torn the wall down already
                self._status.send(b"k")

    def poll(self) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        with self._lock:
            if self.returncode is None:
                # The warden lives among those whom it starts, and may have been stopped by them:
                # of a process that has ended, it is given a moment to say how.
                is_over = _is_ready([self._handle], 0)
                self._status.settimeout(_LAST_WORD_SECONDS if is_over else 0)
                try:
                    self._take(receive(self._status)[0])
                except BlockingIOError:
                    return None
                except (TimeoutError, ConnectionError):
                    self._take(b"")
            return self.returncode

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        while (code := self.poll()) is None:
            _is_ready([self._handle, self._status.fileno()], None)
        return code

    def kill(self) -> None:
        """End it now."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def take_handle(self) -> int:
        """A descriptor that becomes readable when the process ends, to be closed by the caller."""
        return os.dup(self._handle)

    def _take(self, word: bytes) -> None:
        # Without a word the wall itself has ended, and with it all that was inside.
        self.returncode = int(word.removeprefix(b"exit ")) if word.startswith(b"exit ") else -9
        self._status.close()
        os.close(self._handle)


def _is_ready(descriptors: list[int], seconds: float | None) -> bool:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


class Warden:
    """A standing wall."""

    def __init__(self, wall: Wall, means: Means) -> None:
        """Build it; WallError says why that is not possible."""
        self.wall = wall
        self.has_terminals = means.kind == "bubblewrap"
        """Whether pseudo-terminals can be opened inside; otherwise it must be given one."""
        self._lock = threading.Lock()
        self.listener: socket.socket | None = None
        """Where what is inside finds the proxy: a socket of the network inside."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        config = _memory_file(json.dumps(_config(wall, means)).encode())
        errors, its_errors = os.pipe()
        fds = (theirs.fileno(), config)
        argv = _argv(wall, means, "warden", [str(descriptor) for descriptor in fds])
        try:
            self._process = _start_from_lasting_thread(argv, fds, its_errors)
        except OSError as error:
            os.close(errors)
            raise WallError(f"The wall could not be built: {error}.") from error
        finally:
            theirs.close()
            os.close(config)
            os.close(its_errors)
        self._control.settimeout(START_SECONDS)
        try:
            word, received = receive(self._control)
        except TimeoutError:
            word, received = b"error it took too long", []
        if word != b"ready":
            said = word.removeprefix(b"error ").decode() or _said(errors) or "it ended at once"
            os.close(errors)
            self.close()
            raise WallError(f"The wall could not be built: {said}.")
        os.close(errors)
        if received:
            self.listener = socket.socket(fileno=received[0])

    @property
    def stands(self) -> bool:
        """Whether it is still there."""
        if self._control.fileno() < 0:
            return False  # it did not answer, and was closed
        poll = select.poll()
        poll.register(self._control, 0)  # nothing but its end
        return self._process.poll() is None and not poll.poll(0)

    def run(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        fds: Sequence[int],
        *,
        pty: bool = False,
    ) -> WalledProcess:
        """Start a command with these descriptors as its 0, 1, 2 and so on; OSError if it can't.

        With `pty` and without descriptors it gets a pseudo-terminal.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "argv": list(argv),
            "env": dict(environ),
            "cwd": str(cwd),
            "pty": pty,
            "size": TERMINAL_SIZE,
        }
        file = _memory_file(json.dumps(request).encode())
        ours.settimeout(START_SECONDS)
        try:
            with self._lock:
                send(self._control, b"run", [theirs.fileno(), file, *fds])
            theirs.close()
            word, received = receive(ours)
        except OSError as error:
            ours.close()
            if isinstance(error, TimeoutError):
                self.close()  # stopped by what it started: the next command has a new one
            raise WallError(_GONE) from error
        finally:
            theirs.close()
            os.close(file)
        if word == b"started" and received:
            return WalledProcess(ours, *received)
        ours.close()
        if word == b"started":
            raise OSError(errno.EMFILE, "too many open files")
        if not word:
            raise WallError(_GONE)
        raise OSError(word.removeprefix(b"error ").decode("utf-8", "replace"))

    def is_idle(self) -> bool:
        """Whether nothing runs inside."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.settimeout(_ANSWER_SECONDS)
            try:
                with self._lock:
                    send(self._control, b"count", [theirs.fileno()])
                theirs.close()
                return receive(ours)[0] == b"0"
            except OSError:
                return False  # too busy to answer, or gone: either way not to be touched

    def close(self) -> None:
        """End everything inside."""
        if self.listener is not None:
            self.listener.close()
        self._control.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _config(wall: Wall, means: Means) -> dict[str, object]:
    is_landlock = means.kind == "landlock"
    readable, writable = landlock.rules(wall) if is_landlock else ([], [])
    families = [AF_INET, AF_INET6]
    if wall.network == "full":
        families += [AF_NETLINK]
    elif is_landlock and not means.has_network:
        families = []
    if not is_landlock:
        # Sockets with a path are hidden with their folders; Landlock cannot, so it has none.
        families += [AF_UNIX, AF_NETLINK]
    return {
        "supervise": is_landlock,
        "landlock": is_landlock,
        "readable": readable,
        "writable": writable,
        "own_network": is_landlock and means.has_network and wall.network != "full",
        "listen": wall.network == "proxy" and means.has_network,
        "scoped": not is_landlock and wall.network == "full",
        "filter": is_known_machine(),
        "families": families,
    }


def alone(wall: Wall, means: Means, program: Sequence[str]) -> tuple[list[str], int]:
    """How to start one program in a wall of its own, and the descriptor to pass on to it.

    The caller closes the descriptor once it has started it.
    """
    config = _memory_file(json.dumps({**_config(wall, means), "listen": False}).encode())
    return _argv(wall, means, "alone", [str(config), *program]), config


def _argv(wall: Wall, means: Means, module: str, arguments: Sequence[str]) -> list[str]:
    folder = bubblewrap.WARDEN_FOLDER if means.kind == "bubblewrap" else bubblewrap.INSIDE.parent
    # The interpreter itself, since a virtual environment may be where nothing is shown.
    python = os.path.realpath(sys.executable)
    program = [python, "-I", "-S", "-B", "-c", _START, module, str(folder), *arguments]
    if means.kind == "bubblewrap":
        is_first = module == "warden"
        return bubblewrap.arguments(wall, program, as_root=means.as_root, is_first=is_first)
    return program


_START = (
    "import sys; from importlib import import_module;"
    " name, folder = sys.argv.pop(1), sys.argv.pop(1);"
    " sys.path.insert(0, folder); import_module('inside.' + name).main()"
)


def _start_from_lasting_thread(
    argv: list[str], fds: tuple[int, int], errors: int
) -> subprocess.Popen[bytes]:
    """Start a process that is to end with this one.

    What asks the kernel to end with its parent ends with the thread that started it. So all walls
    are started by one thread, which lasts as long as the process.
    """
    done = threading.Event()
    result: list[subprocess.Popen[bytes] | OSError] = []

    def start() -> None:
        try:
            process = subprocess.Popen(
                argv,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=fds,
                start_new_session=True,
                cwd="/",
            )
            result.append(process)
        except OSError as error:
            result.append(error)
        finally:
            done.set()

    _lasting_thread().put(start)
    done.wait()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


class _LastingThread:
    """Does what it is given, one after the other, as long as the process lives."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._process = os.getpid()
        threading.Thread(target=self._work, name="hermes-walls", daemon=True).start()

    @property
    def is_ours(self) -> bool:
        """Whether it was not left behind in a process that forked."""
        return self._process == os.getpid()

    def put(self, work: Callable[[], None]) -> None:
        """Have it done."""
        self._queue.put(work)

    def _work(self) -> None:
        while True:
            self._queue.get()()


_thread: _LastingThread | None = None


def _lasting_thread() -> _LastingThread:
    global _thread
    with _starting:
        if _thread is None or not _thread.is_ours:
            _thread = _LastingThread()
        return _thread


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("hermes-wall")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pid_behind(handle: int) -> int:
    """The number that a process inside has outside."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            number = int(line.split()[1])
            return number if number > 0 else _NO_PROCESS
    raise WallError("The system does not say which process was started.")


def _said(errors: int) -> str:
    os.set_blocking(errors, False)
    try:
        return os.read(errors, 2000).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""
