"""The measuring side of `bench.child`: starting interpreters and asking them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from .measure import OUT

ROOT = Path(__file__).parent.parent

INSTALL_YARDSTICK = (
    "hermes-agent 0.19.0 is not measured, as it is not installed. To install it: "
    "python3 -m venv bench/out/yardstick && "
    "bench/out/yardstick/bin/python -m pip install hermes-agent==0.19.0"
)


def find_yardstick() -> str | None:
    """The interpreter that has hermes-agent: $HERMES_AGENT_PYTHON, or the venv in bench/out."""
    named = os.environ.get("HERMES_AGENT_PYTHON")
    if named:
        if not os.access(named, os.X_OK):
            raise SystemExit(f"HERMES_AGENT_PYTHON={named} is no interpreter; correct or unset it.")
        return named
    usual = OUT / "yardstick" / "bin" / "python"
    return str(usual) if usual.exists() else None


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
    """A process that has one store open and does what it is asked."""

    def __init__(self, home: Path, *, python: str | None = None, seed: int = 1) -> None:
        # Other interpreters get the project's folder for `bench`, which is not on their path.
        self._process = subprocess.Popen(
            [python or sys.executable, "-m", "bench.child", str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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
            raise RuntimeError(
                f"A measuring process ended with status {self._process.wait()}; "
                "what it said is above."
            )
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
