"""Processes for tests that start many of one program: forked where it is imported already.

They are processes like any other, with an id, memory and descriptors of their own, and die as any
other does; see `fork_server.py`. Where the system lacks what this needs, the program is started.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
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

    def ask(self, order: Mapping[str, Any], descriptors: list[int]) -> int:
        """What it answers."""
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(order).encode()], descriptors)
            return int(self._channel.recv(100))


_server = functools.cache(_Server)


class Forked:
    """A forked process, with what tests use of an `asyncio.subprocess.Process`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self.returncode = _server().ask({"code": self.pid}, [])
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


async def start(
    program: str | Path, *arguments: str, environ: Mapping[str, str], cwd: str | Path = "."
) -> Any:
    """Start a module or a file with pipes to its input and output."""
    if not hasattr(os, "pidfd_open"):
        named = [str(program)] if isinstance(program, Path) else ["-m", program]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *named,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environ,
            cwd=cwd,
            limit=LIMIT,
        )
    (input_, to_input), (from_output, output) = os.pipe(), os.pipe()
    order = {
        "program": str(program),
        "arguments": arguments,
        "environ": dict(environ),
        "cwd": str(Path(cwd).absolute()),
    }
    pid = _server().ask(order, [input_, output, 2])
    os.close(input_)
    os.close(output)
    process = Forked(pid)
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
