"""The session server as a child process, started before there is an event loop.

Its frames come from a thread that reads them, so that it works the same on every platform. What it
says on standard error is kept for the case that it ends at once, and never reaches the screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO

STOP_SECONDS = 15.0
"""How long the server has to end its sessions."""
TAIL = 4_000


class ServerProcess:
    """Starts servers, each when the one before is gone."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command or (sys.executable, "-m", "tui_gateway.entry"))
        self._early: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
        self.process: subprocess.Popen[bytes] | None = None
        """The one that runs, or ran last."""

    def start(self) -> None:
        """Begin to load the server; the first connection will be to this one."""
        self._early = self._spawn()

    async def dial(self) -> Pipes:
        """A connection to a new server; OSError if it cannot be started."""
        early, self._early = self._early, None
        self.process = early or self._spawn()
        return Pipes(self.process)

    def last_words(self) -> str:
        """The last line that a server wrote on standard error; empty if it wrote none."""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - TAIL))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )


class Pipes:
    """The connection to one server; a `Wire` of the client."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        threading.Thread(target=self._read, name="hermes-frames", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            # ValueError: closed; RuntimeError: the loop has ended, and nobody listens any more.
            for line in self._process.stdout:
                self._loop.call_soon_threadsafe(self._frames.put_nowait, line)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._frames.put_nowait, None)

    async def send(self, text: str) -> None:
        """Send a frame."""
        async with self._writing:
            try:
                await asyncio.to_thread(self._write, text.encode() + b"\n")
            except ValueError as error:
                raise BrokenPipeError("the server's input is closed") from error

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    async def receive(self) -> bytes | None:
        """The next frame; None at the end."""
        return await self._frames.get()

    async def close(self) -> None:
        """End the server: the end of input is its sign to end its sessions."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
