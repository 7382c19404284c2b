"""A child process that is spoken to in lines of JSON, and is always ended with SIGKILL.

Children are forked from a zygote, which has done the imports; see `children/zygote.py`. So a child
costs milliseconds, and ten thousand of them an hour.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ... import server_store
from ..adapter import Death
from ..counter import COUNTER_VARIABLE, counter

PROJECT = Path(__file__).parents[3]
SECONDS = 60.0
"""After so long something has gone wrong for good."""


class Died(Exception):
    """The process is dead, as it was told to be."""


class Zygote:
    """The process that forks the children."""

    def __init__(
        self, module: str = "tests.conformance.children.zygote", **environment: str
    ) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        known = {**os.environ, "PYTHONPATH": path, COUNTER_VARIABLE: counter().url}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={**known, **environment},
                pass_fds=[theirs.fileno()],
            )
        self._channel = ours
        self._channel.recv(2)  # it is ready
        atexit.register(self.close)

    def close(self) -> None:
        """End it; what it forked is dead by now."""
        self._channel.close()
        self._process.wait()

    def fork(
        self, program: str, home: Path, environment: dict[str, str], descriptors: list[int]
    ) -> int:
        """A new child; its id."""
        order = json.dumps({"program": program, "home": str(home), "environment": environment})
        socket.send_fds(self._channel, [order.encode()], descriptors)
        return int(json.loads(self._channel.recv(100))["pid"])

    def wait(self, pid: int) -> int:
        """The exit code of a child, once it has ended."""
        self._channel.send(json.dumps({"wait": pid}).encode())
        return int(json.loads(self._channel.recv(100))["code"])


zygote = functools.cache(Zygote)
"""The one of this process."""


class Wire:
    """One process in one home: the module `program`, run with the home as its argument."""

    def __init__(
        self,
        program: str,
        home: Path,
        death: Death | None,
        signal_name: str = "SIGKILL",
        **environment: str,
    ) -> None:
        """At a named point of `death` the process sends itself the signal."""
        self._death = death
        self._name = program
        self._zygote = zygote()
        kill_at = ""
        if death is not None and death.is_named:
            kill_at = f"{death.where}:{death.number:g}={death.what or signal_name}"
        self._input, self._output = os.pipe(), os.pipe()
        with (home / "stderr").open("ab") as errors:
            self.pid = self._zygote.fork(
                program,
                home,
                {
                    "HERMES_HOME": str(home),
                    "HERMES_TEST_KILL_AT": kill_at,
                    **server_store.environment(),
                    **environment,
                },
                [self._input[0], self._output[1], errors.fileno()],
            )
        os.close(self._input[0])
        os.close(self._output[1])
        self._timer: threading.Timer | None = None
        self._code: int | None = None
        self._came = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> int:
        """Kill it, if it still lives; how it ended."""
        self._stop_timer()
        self._kill()
        code = self._wait()
        os.close(self._input[1])
        os.close(self._output[0])
        return code

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def _kill(self) -> None:
        if self._code is None:  # until it was waited for, the id is nobody else's
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self) -> int:
        if self._code is None:
            self._code = self._zygote.wait(self.pid)
        return self._code

    def start_moment(self) -> None:
        """The first prompt is sent now: a death at a moment is counted from here."""
        if self._death is not None and not self._death.is_named and self._timer is None:
            self._timer = threading.Timer(self._death.number, self._kill)
            self._timer.start()

    def send(self, **frame: Any) -> None:
        """Write a line."""
        line = json.dumps(frame).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._input[1], line) :]
        except BrokenPipeError as error:
            raise Died from error

    def receive(self) -> dict[str, Any]:
        """The next line; Died when there is none any more."""
        until = time.monotonic() + SECONDS
        while b"\n" not in self._came:
            left = max(0.0, until - time.monotonic())
            readable, _, _ = select.select([self._output[0]], [], [], left)
            if not readable:
                raise AssertionError(f"{self._name} says nothing any more")
            more = os.read(self._output[0], 65536)
            if not more:
                self._ended()
            self._came += more
        line, _, self._came = self._came.partition(b"\n")
        frame: dict[str, Any] = json.loads(line)
        return frame

    def _ended(self) -> None:
        self._stop_timer()  # it must not kill whoever has the id after the wait
        code = self._wait()
        if self._death is None or code != -signal.SIGKILL:
            raise AssertionError(f"{self._name} died: exit {code}; see stderr in its home")
        raise Died
