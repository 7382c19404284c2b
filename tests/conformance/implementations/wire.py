"""A child process that is spoken to in lines of JSON, and is always ended with SIGKILL."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ..adapter import Death

CHILDREN = Path(__file__).parent.parent / "children"
"""Where the programs are."""

SECONDS = 30.0
"""After so long something has gone wrong for good."""


class Died(Exception):
    """The process is dead, as it was told to be."""


class Wire:
    """One process in one home."""

    def __init__(self, program: Path, home: Path, death: Death | None, *arguments: str) -> None:
        environment = {**os.environ, "HERMES_HOME": str(home)}
        environment.pop("HERMES_TEST_KILL_AT", None)
        self._death = death
        if death is not None and death.where != "moment":
            environment["HERMES_TEST_KILL_AT"] = f"{death.where}:{int(death.number)}"
        with (home / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(program), str(home), *arguments],
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
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # what was still to be written to the dead
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
            raise AssertionError(f"{self._process.args} says nothing any more") from None
        if not line.endswith(b"\n"):  # the end, or what was being written when it was killed
            if self._death is None:
                raise AssertionError(f"{self._process.args} died: exit {self._process.wait()}")
            raise Died
        frame: dict[str, Any] = json.loads(line)
        return frame
