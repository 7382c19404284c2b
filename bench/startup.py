"""Starting: the session server, the command and the interface, beside bare Python and, where it is
installed, hermes-agent 0.19.0."""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .lab import Lab, Measurement, run_all, zero_delay_model
from .measure import Finding, in_columns, interleaved, medians, paired_ratio, progress
from .rows import Row
from .startup_command import BARE_PYTHON, interface, question, words

AT_MOST_TIME, AT_MOST_MEMORY = 1 / 3, 1 / 2
"""Our share of theirs."""
_IN_TIME = "{:.0f} ms", 1e3, AT_MOST_TIME


class Start(NamedTuple):
    """One start, in seconds since the process was begun and in MB of resident memory."""

    ready: float
    """gateway.ready came."""
    answered: float
    """The first request, session.create, was answered."""
    answered_mb: float
    completed: float
    """The first prompt was answered, on an endpoint that takes no time; 0 if none was sent."""
    completed_mb: float


class _Server:
    """A session server on pipes, of ours or theirs."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [python, "-m", "tui_gateway.entry"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=environment["HOME"],
            env=environment,
        )

    def send(self, number: int, method: str, **params: Any) -> None:
        assert self._process.stdin is not None
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> tuple[dict[str, Any], float]:
        """The first frame that is wanted, and the seconds since the start."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            if wanted(frame):
                return frame, time.perf_counter() - self.started
        raise RuntimeError("The server ended before it answered.")

    def event(self, kind: str) -> tuple[dict[str, Any], float]:
        return self.until(lambda frame: frame.get("params", {}).get("type") == kind)

    def answer(self, number: int) -> tuple[dict[str, Any], float]:
        return self.until(lambda frame: frame.get("id") == number)

    def megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status")
        if not status.exists():
            return 0.0  # a system that does not tell
        found = [x for x in status.read_text().splitlines() if x.startswith("VmRSS:")]
        return int(found[0].split()[1]) / 1024

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start(python: str, environment: dict[str, str], *, with_prompt: bool) -> Start:
    server = _Server(python, environment)
    try:
        _, ready = server.event("gateway.ready")
        server.send(1, "session.create", cols=80)
        opened, answered = server.answer(1)
        answered_mb = server.megabytes()
        if not with_prompt:
            return Start(ready, answered, answered_mb, 0.0, 0.0)
        sid = opened["result"]["session_id"]
        server.send(2, "prompt.submit", session_id=sid, text="Say something.")
        complete, completed = server.event("message.complete")
        assert complete["params"]["payload"]["text"].startswith("word0"), complete
        return Start(ready, answered, answered_mb, completed, server.megabytes())
    finally:
        server.stop()


def _starts(lab: Lab, *, with_prompt: bool, rounds: int) -> dict[str, list[Start]]:
    sides: dict[str, Callable[[], Start]] = {}
    with zero_delay_model() as url:
        for side in lab.sides:
            environment = lab.home(f"start-{side}", url)
            one = functools.partial(
                _start, lab.python(side), environment, with_prompt=with_prompt
            )  # fmt: skip
            one()  # the first start sets things up
            sides[side] = one
        if not with_prompt:
            sides["bare"] = lambda: Start(lab.bare_python(), 0.0, 0.0, 0.0, 0.0)
        return interleaved(sides, rounds, seconds=90)


def _finding(what: str, starts: dict[str, list[Start]], field: str) -> Finding:
    memory = field.endswith("mb")
    form, scale, share = ("{:.0f} MB", 1, AT_MOST_MEMORY) if memory else _IN_TIME
    figures = {
        side: [getattr(one, field) for one in found]
        for side, found in starts.items()
        if side != "bare" or field == "ready"
    }
    ratio = paired_ratio(figures["ours"], figures["theirs"]) if "theirs" in figures else None
    goal = "at most half of theirs" if memory else "at most a third of theirs"
    return Finding(
        what,
        *in_columns(medians(figures), form, scale),
        goal=f"{goal} (ours/theirs {ratio.median:.2f})" if ratio else "",
        met=ratio.median <= share if ratio else None,
        details=figures,
        row=Row.of(
            f"start.{field}", f"start: {what.replace(':', ',')}", form.split()[-1], figures, scale,
            bare=BARE_PYTHON if "bare" in figures else "",
        ),
    )  # fmt: skip


def answer(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answer."""
    progress("starts up to the first answer")
    starts = _starts(lab, with_prompt=False, rounds=5 if lab.quick else 21)
    return [
        _finding("session server: ready", starts, "ready"),
        _finding("session server: first answer", starts, "answered"),
        _finding("session server: memory then", starts, "answered_mb"),
    ]


def prompt(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answered prompt."""
    progress("starts up to the first answered prompt")
    starts = _starts(lab, with_prompt=True, rounds=3 if lab.quick else 11)
    return [
        _finding("session server: first answered prompt", starts, "completed"),
        _finding("session server: memory after it", starts, "completed_mb"),
    ]


MEASUREMENTS: dict[str, Measurement] = {
    "answer": answer,
    "prompt": prompt,
    "words": words,
    "question": question,
    "interface": interface,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the start, or all, and print what was found."""
    return run_all("startup", MEASUREMENTS, parts)
