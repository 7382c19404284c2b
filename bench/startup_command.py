"""Starting the `hermes` command: its first words, its first frame, one question."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .agent import Lab, _config_for, _zero_delay_server
from .measure import Finding, interleaved, progress, spread
from .processes import clean_environment

PAINTED, WHOLE = 0.250, 0.700
"""Seconds to the first frame, and to the whole interface."""
TIMES_BARE = 3.0
SHARE_OF_QUESTION = 1 / 8
_READ_SECONDS = 20.0


class Shown(NamedTuple):
    """Seconds from the start of the process in a terminal."""

    painted: float
    """The first frame was there."""
    whole: float
    """The interface with its status line was there."""


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        command, env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    return time.perf_counter() - started


def words(lab: Lab) -> list[Finding]:
    """`hermes --version` and `hermes --help`, beside bare Python."""
    progress("hermes --version and --help")
    ours = str(Path(sys.executable).parent / "hermes")
    theirs = str(Path(lab.yardstick).parent / "hermes") if lab.yardstick else None
    environment = clean_environment(lab.folder / "words")
    findings = []
    for option in ("--version", "--help"):
        sides: dict[str, Callable[[], float]] = {
            "bare": lambda: _seconds([sys.executable, "-c", "pass"], environment),
            "ours": lambda option=option: _seconds([ours, option], environment),  # type: ignore[misc]
        }
        if theirs:
            sides["theirs"] = lambda option=option: _seconds([theirs, option], environment)  # type: ignore[misc]
        times = interleaved(sides, 5 if lab.quick else 15)
        median = {side: spread(all_).median for side, all_ in times.items()}
        findings.append(
            Finding(
                f"hermes {option}",
                f"{median['ours'] * 1e3:.0f} ms",
                f"{median['bare'] * 1e3:.0f} ms",
                f"{median['theirs'] * 1e3:.0f} ms" if theirs else "",
                ratio=median["ours"] / median["bare"],
                goal="at most 3 times bare Python",
                met=median["ours"] <= TIMES_BARE * median["bare"],
                details=times,
            )
        )
    return findings


def question(lab: Lab) -> list[Finding]:
    """One question from start to exit, on an endpoint that answers at once."""
    progress("one question")
    sides: dict[str, Callable[[], float]] = {}
    with _zero_delay_server(20) as url:
        for side, python in (("ours", sys.executable), ("theirs", lab.yardstick)):
            if python is None:
                continue
            environment = clean_environment(lab.folder / f"question-{side}")
            _config_for(Path(environment["HERMES_HOME"]), url)
            command = [str(Path(python).parent / "hermes"), "chat", "-Q", "-q", "Say something."]
            _seconds(command, environment)  # the first start sets things up
            sides[side] = lambda command=command, environment=environment: _seconds(  # type: ignore[misc]
                command, environment
            )
        times = interleaved(sides, 3 if lab.quick else 9, seconds=90)
    median = {side: spread(all_).median for side, all_ in times.items()}
    share = median["ours"] / median["theirs"] if "theirs" in median else None
    return [
        Finding(
            "one question, start to exit",
            f"{median['ours'] * 1e3:.0f} ms",
            "",
            f"{median['theirs'] * 1e3:.0f} ms" if share else "",
            goal=f"at most an eighth of theirs (ours/theirs {share:.2f})" if share else "",
            met=share <= SHARE_OF_QUESTION if share else None,
            details=times,
        )
    ]


def interface(lab: Lab) -> list[Finding]:
    """The full-screen interface in a terminal: its first frame, and all of it."""
    progress("the interface in a terminal")
    environment = clean_environment(lab.folder / "interface")
    environment["TERM"] = "xterm-256color"
    with _zero_delay_server(20) as url:
        _config_for(Path(environment["HERMES_HOME"]), url)
        _show(environment)  # the first start sets things up
        shown = [_show(environment) for _ in range(3 if lab.quick else 9)]
    painted = spread([one.painted for one in shown]).median
    whole = spread([one.whole for one in shown]).median
    return [
        Finding(
            "interface: first frame",
            f"{painted * 1e3:.0f} ms",
            goal="under 250 ms",
            met=painted < PAINTED,
            details={"ours": [one.painted for one in shown]},
        ),
        Finding(
            "interface: all of it",
            f"{whole * 1e3:.0f} ms",
            goal="under 700 ms",
            met=whole < WHOLE,
            details={"ours": [one.whole for one in shown]},
        ),
    ]


def _show(environment: dict[str, str]) -> Shown:
    leader, follower = pty.openpty()
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "hermes")],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        cwd=environment["HOME"],
        start_new_session=True,
    )
    os.close(follower)
    try:
        painted = _until(leader, b"Hermes", started)
        # The model's name stands in the status line, which the server has to tell.
        whole = _until(leader, b"zero", started)
        return Shown(painted, whole)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        _drain(leader, process)
        os.close(leader)


def _until(leader: int, wanted: bytes, started: float) -> float:
    seen = b""
    while time.perf_counter() - started < _READ_SECONDS:
        if select.select([leader], [], [], 0.5)[0]:
            seen += os.read(leader, 65536)
            if wanted in seen:
                return time.perf_counter() - started
    raise RuntimeError(f"The interface did not show {wanted!r}; it showed {seen[-500:]!r}")


def _drain(leader: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + 10
    while process.poll() is None and time.perf_counter() < deadline:
        if select.select([leader], [], [], 0.05)[0]:
            try:
                os.read(leader, 65536)
            except OSError:
                break
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
