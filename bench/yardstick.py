"""The yardstick: hermes-agent 0.19.0 from PyPI, in an environment of its own.

`HERMES_AGENT_PYTHON` names an interpreter that has it already. Otherwise it is installed once under
`HERMES_BENCH_CACHE`, or `.bench` in the project. Where that does not succeed, the run goes on
without it, and says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .measure import progress

VERSION = "0.19.0"
# Its API server needs aiohttp, which it only asks for together with several chat platforms.
PACKAGES = (f"hermes-agent=={VERSION}", "aiohttp==3.14.1")
NAME = f"hermes-agent {VERSION}"
INSTALL_SECONDS = 600
HOW_TO = f"{NAME} is not measured, as it is not installed. `python -m bench --set-up` installs it."


class Yardstick(NamedTuple):
    """Where it is, or why it is not."""

    python: str | None
    missing: str = ""
    """In words, if `python` is None."""


def _folder() -> Path:
    cache = os.environ.get("HERMES_BENCH_CACHE")
    root = Path(cache) if cache else Path(__file__).parent.parent / ".bench"
    return root.absolute() / f"hermes-agent-{VERSION}"


def find_yardstick() -> str | None:
    """The interpreter that has it, if it was named or set up before."""
    named = os.environ.get("HERMES_AGENT_PYTHON")
    if named:
        if not os.access(named, os.X_OK):
            raise SystemExit(f"HERMES_AGENT_PYTHON={named} is no interpreter; correct or unset it.")
        return named
    ready = _folder() / ".ready"
    return str(_folder() / "bin" / "python") if ready.exists() else None


def set_up_yardstick() -> Yardstick:
    """Find it, or install it; never raises because that did not succeed."""
    if found := find_yardstick():
        has = _version(found)
        return Yardstick(found) if has == VERSION else _missing(f"{found} has {has or 'no such'}")
    folder = _folder()
    progress(f"installing {NAME} into {folder}, once")
    try:
        shutil.rmtree(folder, ignore_errors=True)  # half of one is no use
        folder.parent.mkdir(parents=True, exist_ok=True)
        for command in install_commands(folder):
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return _missing(said[-1] if said else str(error))
    except (OSError, subprocess.TimeoutExpired) as error:
        return _missing(str(error))
    (folder / ".ready").touch()
    return Yardstick(str(folder / "bin" / "python"))


def _version(python: str) -> str:
    code = "from importlib.metadata import version; print(version('hermes-agent'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def install_commands(folder: Path) -> list[list[str]]:
    """What makes the environment: uv if there is one, else venv and pip."""
    python = str(folder / "bin" / "python")
    check = [python, "-c", "import run_agent, hermes_state, gateway.run"]
    if uv := shutil.which("uv"):
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *PACKAGES],
            check,
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES],
        check,
    ]


def _missing(why: str) -> Yardstick:
    progress(f"{NAME} could not be set up, the run goes on without it: {why}")
    return Yardstick(None, f"could not be set up: {why}")
