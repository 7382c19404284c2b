"""Processes for tests that start many of one program: forked where it is imported already.

They are processes like any other, with an id, memory and descriptors of their own, and die as any
other does; see `fork_server.py`. Where the system lacks what this needs, the program is started.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
LIMIT = 2**26
"""The longest line that can be read."""


class _Server:
    """The process that forks, for this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
            )
        self._channel = ours
        self._lock = threading.Lock()
        if self._channel.recv(2) != b"{}":
            raise RuntimeError("what forks has not started; its error is above")
        atexit.register(self.close)

    def close(self) -> None:
        """End it; what it forked ends with its input."""
        self._channel.close()
        self._process.wait()

    def fork(self, order: Mapping[str, Any], descriptors: list[int]) -> tuple[int, int]:
        """A new process: its id, and a handle that means it even when it has ended."""
        pid, (handle,) = self._ask(order, descriptors)
        return pid, handle

    def code(self, pid: int) -> int:
        """How a process has ended."""
        return self._ask({"code": pid}, [])[0]

    def _ask(self, order: Mapping[str, Any], descriptors: list[int]) -> tuple[int, list[int]]:
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(order).encode()], descriptors)
            answer, handles, _, _ = socket.recv_fds(self._channel, 100, 1)
        for handle in handles:
            os.set_inheritable(handle, False)
        return int(answer), handles


_server = functools.cache(_Server)


class Forked:
    """A forked process, with what tests use of an `asyncio.subprocess.Process`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle = handle
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self.returncode = _server().code(self.pid)
        self._ended.set()

    def send_signal(self, number: int) -> None:
        """Send a signal; ProcessLookupError if it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class Process:
    """A forked process, with what tests use of a `subprocess.Popen`."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle = handle

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; TimeoutExpired if it has not after so long."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def _has_ended(self, seconds: float | None) -> bool:
        if self.returncode is None:
            if not select.select([self._handle], [], [], seconds)[0]:
                return False
            os.close(self._handle)
            self.returncode = _server().code(self.pid)
        return True

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


def open_process(
    command: Sequence[str],
    descriptors: Sequence[int],
    *,
    environ: Mapping[str, str],
    cwd: str | Path = ".",
    session: bool = False,
    terminal: bool = False,
) -> Any:
    """Start a Python program (its path, and arguments) on an input, an output and an error output.

    It can be in a session of its own, whose `terminal` its input is.
    """
    if not hasattr(os, "pidfd_open"):
        return start_process(
            command, descriptors, environ=environ, cwd=cwd, session=session, terminal=terminal
        )
    order = {
        "program": command[0],
        "arguments": command[1:],
        "environ": dict(environ),
        "cwd": str(Path(cwd).absolute()),
        "session": session,
        "terminal": terminal,
    }
    return Process(*_server().fork(order, list(descriptors)))


def start_process(
    command: Sequence[str],
    descriptors: Sequence[int],
    *,
    environ: Mapping[str, str],
    cwd: str | Path = ".",
    session: bool = False,
    terminal: bool = False,
) -> subprocess.Popen[bytes]:
    """What `open_process` does, with a process that is not forked but starts the program."""
    stdin, stdout, stderr = descriptors
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environ,
        cwd=cwd,
        start_new_session=session,
        preexec_fn=(lambda: os.close(os.open(os.ttyname(0), os.O_RDWR))) if terminal else None,
    )


def run(
    command: Sequence[str],
    *,
    input: str | None = None,
    environ: Mapping[str, str],
    cwd: str | Path = ".",
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, with text or nothing on its input; returns what it wrote."""
    (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = (os.pipe() for _ in range(3))
    if input is None:
        os.close(stdin)
        stdin = os.open(os.devnull, os.O_RDONLY)
    process = open_process(command, [stdin, stdout, stderr], environ=environ, cwd=cwd)
    for theirs in (stdin, stdout, stderr):
        os.close(theirs)
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_write_all, to_stdin, input or "")
        written = [pool.submit(_read_all, one) for one in (from_stdout, from_stderr)]
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out, err = (one.result() for one in written)
    return subprocess.CompletedProcess(list(command), code, out, err)


def _write_all(descriptor: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "w") as file:
        file.write(text)


def _read_all(descriptor: int) -> str:
    with os.fdopen(descriptor) as file:
        return file.read()


async def start(
    program: str | Path,
    *arguments: str,
    environ: Mapping[str, str],
    cwd: str | Path = ".",
    stderr: int | None = None,
) -> Any:
    """Start a module or a file with pipes to its input and output.

    With `stderr=asyncio.subprocess.PIPE` its error output can be read, too.
    """
    if not hasattr(os, "pidfd_open"):
        named = [str(program)] if isinstance(program, Path) else ["-m", program]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *named,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=environ,
            cwd=cwd,
            limit=LIMIT,
        )
    (input_, to_input), (from_output, output) = os.pipe(), os.pipe()
    order = {
        "program": str(program.absolute() if isinstance(program, Path) else program),
        "arguments": arguments,
        "environ": dict(environ),
        "cwd": str(Path(cwd).absolute()),
    }
    from_errors, errors = (None, os.dup(2)) if stderr is None else os.pipe()
    pid, handle = _server().fork(order, [input_, output, errors])
    for theirs in (input_, output, errors):
        os.close(theirs)
    process = Forked(pid, handle)
    if from_errors is not None:
        process.stderr = await _reader(from_errors)
    process.stdout = await _reader(from_output)
    process.stdin = await _writer(to_input)
    return process


async def _reader(descriptor: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LIMIT, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb", 0))
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    unused = asyncio.StreamReader(loop=loop)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(unused, loop=loop), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
