"""A child process that is spoken to in lines of JSON, and is always ended with SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ..adapter import Death

PROJECT = Path(__file__).parents[3]
SECONDS = 30.0
"""After so long something has gone wrong for good."""


class Died(Exception):
    """The process is dead, as it was told to be."""


class Wire:
    """One process in one home: the module `program`, run with the home as its argument."""

    def __init__(self, program: str, home: Path, death: Death | None) -> None:
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": path}
        environment.pop("HERMES_TEST_KILL_AT", None)
        self._death = death
        self._name = program
        if death is not None and death.where != "moment":
            environment["HERMES_TEST_KILL_AT"] = f"{death.where}:{int(death.number)}"
        with (home / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, str(home)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=home,
            )
        self._timer: threading.Timer | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, if it still lives."""
        if self._timer is not None:
            self._timer.cancel()
        self._process.kill()
        self._process.wait()
        self._reading.join()
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # what was still to be written to the dead
            self._process.stdin.close()
        self._process.stdout.close()

    def start_moment(self) -> None:
        """The first prompt is sent now: a death at a moment is counted from here."""
        if self._death is not None and self._death.where == "moment" and self._timer is None:
            self._timer = threading.Timer(self._death.number, self._process.kill)
            self._timer.start()

    def send(self, **frame: Any) -> None:
        """Write a line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(frame).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Died from error

    def receive(self) -> dict[str, Any]:
        """The next line; Died when there is none any more."""
        try:
            line = self._lines.get(timeout=SECONDS)
        except queue.Empty:
            raise AssertionError(f"{self._name} says nothing any more") from None
        if not line.endswith(b"\n"):  # the end, or what was being written when it was killed
            code = self._process.wait()
            if self._death is None or code != -signal.SIGKILL:
                raise AssertionError(f"{self._name} died: exit {code}; see stderr in its home")
            raise Died
        frame: dict[str, Any] = json.loads(line)
        return frame
