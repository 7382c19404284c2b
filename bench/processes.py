"""Processes that answer one line of JSON with another: the asking side of `bench.lines`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parent.parent


def clean_environment(home: Path) -> dict[str, str]:
    """This environment, but with a home of its own and no import path of ours."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        name: given
        for name, given in os.environ.items()
        if not name.startswith(("HERMES_", "PYTHON"))
    }
    return environment | {"HOME": str(home), "HERMES_HOME": str(home / ".hermes")}


class Child:
    """A process that does what it is asked, such as one that has a store open."""

    def __init__(
        self,
        home: Path,
        *,
        python: str | None = None,
        seed: int = 1,
        module: str = "bench.child",
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        # Other interpreters get the project's folder for `bench`, which is not on their path.
        self._process = subprocess.Popen(
            [python or sys.executable, "-m", module, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=clean_environment(home),
        )

    def send(self, do: str, **arguments: Any) -> None:
        """Ask for something without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The answer to what was sent."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read()[-2000:].decode(errors="replace")
            raise RuntimeError(f"A measuring process ended with status {status}: {said}")
        return json.loads(line)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send and receive."""
        self.send(do, **arguments)
        return self.receive()

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self.stop()
