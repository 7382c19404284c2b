"""Starting the `hermes` command: its first words, one question, its interface in a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import NamedTuple

from .lab import Lab, seconds, zero_delay_model
from .measure import Finding, in_columns, interleaved, medians, progress
from .rows import Row

PAINTED, WHOLE = 0.250, 0.700
"""Seconds to the first frame, and to the whole interface."""
TIMES_BARE = 3.0
QUESTION_SECONDS = 0.400
SHARE_OF_QUESTION = 1 / 8
ROWS, COLUMNS = 40, 120
_READ_SECONDS = 20.0
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[^\[\]]|\s")
BARE_QUESTION = """
import json, sys, urllib.request as web
asked = {"model": "zero", "messages": [{"role": "user", "content": "Say something."}]}
print(web.urlopen(sys.argv[1] + "/v1/chat/completions", json.dumps(asked).encode()).read())
"""
BARE_PYTHON = "an interpreter that starts and does nothing"


class Shown(NamedTuple):
    """Seconds from the start of the process in a terminal."""

    painted: float
    """Something to see was there."""
    whole: float
    """The interface with the model's name was there."""


def words(lab: Lab) -> list[Finding]:
    """`hermes --version` and `hermes --help`, beside bare Python."""
    progress("hermes --version and --help")
    findings = []
    for option in ("--version", "--help"):
        environment = lab.home("words")
        sides: dict[str, Callable[[], float]] = {
            side: functools.partial(seconds, [lab.hermes(side), option], environment)
            for side in lab.sides
        }
        for start in sides.values():
            start()  # the first start sets things up
        times = interleaved({"bare": lab.bare_python, **sides}, 5 if lab.quick else 15)
        median = medians(times)
        findings.append(
            Finding(
                f"hermes {option}",
                *in_columns(median, "{:.0f} ms", 1e3),
                ratio=median["ours"] / median["bare"],
                goal="at most 3 times bare Python",
                met=median["ours"] <= TIMES_BARE * median["bare"],
                details=times,
                row=_first_words(times) if option == "--version" else None,
            )
        )  # fmt: skip
    return findings


def _first_words(times: dict[str, list[float]]) -> Row:
    return Row.of("start.version", "start: hermes --version", "ms", times, 1e3, bare=BARE_PYTHON)


def question(lab: Lab) -> list[Finding]:
    """One question from start to exit, on an endpoint that answers at once."""
    progress("one question, from start to exit")
    with zero_delay_model() as url:
        bare = [sys.executable, "-c", BARE_QUESTION, url]
        sides: dict[str, Callable[[], float]] = {
            "bare": functools.partial(seconds, bare, lab.home("question-bare"))
        }
        for side in lab.sides:
            environment = lab.home(f"question-{side}", url)
            command = [lab.hermes(side), "chat", "-Q", "-q", "Say something."]
            seconds(command, environment)  # the first start sets things up
            sides[side] = functools.partial(seconds, command, environment)
        times = interleaved(sides, 3 if lab.quick else 9, seconds=90)
    median = medians(times)
    share = median["ours"] / median["theirs"] if "theirs" in median else 0.0
    goal = f", at most an eighth of theirs (ours/theirs {share:.2f})" if share else ""
    return [
        Finding(
            "one question, start to exit",
            *in_columns(median, "{:.0f} ms", 1e3),
            ratio=median["ours"] / median["bare"],
            goal=f"at most {QUESTION_SECONDS * 1e3:.0f} ms{goal}",
            met=median["ours"] <= QUESTION_SECONDS and share <= SHARE_OF_QUESTION,
            details=times,
            row=Row.of("start.question", "start: one question, to the exit", "ms", times, 1e3,
                       bare="a script of three lines that asks the model and keeps nothing"),
        )
    ]  # fmt: skip


def interface(lab: Lab) -> list[Finding]:
    """The full-screen interface in a terminal: its first frame, and all of it."""
    progress("the interface in a terminal")
    differs = ""
    sides: dict[str, Callable[[], Shown]] = {}
    with zero_delay_model() as url:
        for side in lab.sides:
            command = [lab.hermes(side)]
            if side == "theirs" and shutil.which("node"):
                command.append("--tui")
            elif side == "theirs":
                differs = "its full-screen interface needs node; this is its line interface"
            environment = lab.home(f"interface-{side}", url) | {"TERM": "xterm-256color"}
            _show(command, environment)  # the first start sets things up
            sides[side] = functools.partial(_show, command, environment)
        shown = interleaved(sides, 3 if lab.quick else 9)
    painted = {side: [one.painted for one in found] for side, found in shown.items()}
    whole = {side: [one.whole for one in found] for side, found in shown.items()}
    early = "ours shows a frame before the interface is loaded; the next row is all of it"
    first = f"{differs}; {early}" if differs else early
    return [
        _interface_finding("first frame", "painted", painted, PAINTED, first),
        _interface_finding("all of it", "whole", whole, WHOLE, differs),
    ]


def _interface_finding(
    what: str, key: str, times: dict[str, list[float]], limit: float, differs: str
) -> Finding:
    median = medians(times)
    return Finding(
        f"interface: {what}",
        *in_columns(median, "{:.0f} ms", 1e3),
        goal=f"under {limit * 1e3:.0f} ms",
        met=median["ours"] < limit,
        details=times,
        row=Row.of(f"start.{key}", f"start: interface, {what}", "ms", times, 1e3,
                   differs=differs),
    )  # fmt: skip


def _show(command: list[str], environment: dict[str, str]) -> Shown:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment,
        cwd=environment["HOME"], start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        painted, seen = _until(leader, b"", b"", started)
        # The model's name stands in the status line, which the server has to tell.
        whole, _ = _until(leader, b"zero", seen, started)
        return Shown(painted, whole)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        _drain(leader, process)
        os.close(leader)


def visible(output: bytes) -> bytes:
    """What can be seen of a terminal's output: no control sequences, no blanks."""
    return _ESCAPES.sub(b"", output)


def _until(leader: int, wanted: bytes, seen: bytes, started: float) -> tuple[float, bytes]:
    """When `wanted`, or anything, could be seen, and all output so far."""
    while not (shown := visible(seen)) or wanted not in shown:
        if time.perf_counter() - started > _READ_SECONDS:
            raise RuntimeError(f"The interface did not show {wanted!r}; it showed {seen[-500:]!r}")
        if select.select([leader], [], [], 0.5)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:  # nobody has the other end open any more
                said = f"{wanted!r}; it showed {seen[-500:]!r}"
                raise RuntimeError(f"The interface ended before it showed {said}") from None
    return time.perf_counter() - started, seen


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
