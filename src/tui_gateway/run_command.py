"""Running one command to its end, with bounded time and output."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, NamedTuple

from tools.terminal.environ import child_environment

LONGEST = 200_000
"""Bytes of each of its outputs that are kept."""


class TookTooLongError(Exception):
    """The command was stopped because its time was over."""


class Done(NamedTuple):
    """What a command printed and how it ended."""

    stdout: str
    stderr: str
    code: int


def run(command: str, folder: Path, seconds: float) -> Done:
    """Run a command in a shell; it and all of its group are ended when the time is over.

    Raises OSError if it cannot be started, TookTooLongError if it is not done in time.
    """
    from hermes_base.redaction import redact

    child = subprocess.Popen(
        [shutil.which("bash") or "/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=child_environment(os.environ),
        start_new_session=True,
    )
    assert child.stdout is not None and child.stderr is not None
    outputs = [_Output(child.stdout), _Output(child.stderr)]
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        raise TookTooLongError(f"It was stopped after {seconds:g} seconds.") from None
    finally:
        # Also what it left in the background, which would keep the pipes open.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for output in outputs:
            output.close()
    return Done(redact(outputs[0].text()), redact(outputs[1].text()), code)


class _Output:
    """Reads a pipe to its end and keeps the beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._left_out = 0
        self._thread = threading.Thread(target=self._read, name="hermes-shell", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed, as its time was over
            while data := os.read(self._pipe.fileno(), 65_536):
                room = LONGEST - len(self._kept)
                self._kept += data[: max(0, room)]
                self._left_out += max(0, len(data) - max(0, room))

    def close(self) -> None:
        """Wait for the end of what was written; a process that escaped may hold it open."""
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self._pipe.close()

    def text(self) -> str:
        """What was read."""
        text = bytes(self._kept).decode("utf-8", "replace")
        return f"{text}\n[… {self._left_out:,} bytes more]" if self._left_out else text
