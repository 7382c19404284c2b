"""Starting: the session server, the command and the interface, beside bare Python and, where it is
installed, hermes-agent 0.19.0."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .agent import Lab, _config_for, _zero_delay_server, run_all
from .measure import (
    Finding,
    interleaved,
    paired_ratio,
    progress,
    spread,
)
from .processes import clean_environment
from .startup_command import interface, question, words

AT_MOST_TIME, AT_MOST_MEMORY = 1 / 3, 1 / 2
"""Our share of theirs."""


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
    with _zero_delay_server(20) as url:
        for side, python in (("ours", sys.executable), ("theirs", lab.yardstick)):
            if python is None:
                continue
            environment = clean_environment(lab.folder / f"start-{side}")
            _config_for(Path(environment["HERMES_HOME"]), url)

            def one(python: str = python, environment: dict[str, str] = environment) -> Start:
                return _start(python, environment, with_prompt=with_prompt)

            one()  # the first start sets things up
            sides[side] = one
        return interleaved(sides, rounds, seconds=90)


def _bare(lab: Lab) -> float:
    """The start of the interpreter alone."""
    environment = clean_environment(lab.folder / "home")
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
    return time.perf_counter() - started


def _finding(
    lab: Lab, what: str, starts: dict[str, list[Start]], field: str, form: str, scale: float
) -> Finding:
    figures = {side: [getattr(one, field) for one in all_] for side, all_ in starts.items()}
    shown = {side: form.format(spread(all_).median * scale) for side, all_ in figures.items()}
    share = AT_MOST_MEMORY if field.endswith("mb") else AT_MOST_TIME
    bare = spread([_bare(lab) for _ in range(5)]).median if field == "ready" else None
    ratio = paired_ratio(figures["ours"], figures["theirs"]) if "theirs" in figures else None
    goal = "at most half of theirs" if field.endswith("mb") else "at most a third of theirs"
    return Finding(
        what,
        shown["ours"],
        "" if bare is None else form.format(bare * scale),
        shown.get("theirs", ""),
        goal=f"{goal} (ours/theirs {ratio.median:.2f})" if ratio else "",
        met=ratio.median <= share if ratio else None,
        details=figures,
    )


def answer(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answer."""
    progress("starts up to the first answer")
    starts = _starts(lab, with_prompt=False, rounds=5 if lab.quick else 21)
    return [
        _finding(lab, "session server: ready", starts, "ready", "{:.0f} ms", 1e3),
        _finding(lab, "session server: first answer", starts, "answered", "{:.0f} ms", 1e3),
        _finding(lab, "memory then", starts, "answered_mb", "{:.0f} MB", 1),
    ]


def prompt(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answered prompt."""
    progress("starts up to the first answered prompt")
    starts = _starts(lab, with_prompt=True, rounds=3 if lab.quick else 11)
    return [
        _finding(
            lab, "session server: first answered prompt", starts, "completed", "{:.0f} ms", 1e3
        ),
        _finding(lab, "memory after it", starts, "completed_mb", "{:.0f} MB", 1),
    ]


MEASUREMENTS: dict[str, Callable[[Lab], list[Finding]]] = {
    "answer": answer,
    "prompt": prompt,
    "words": words,
    "question": question,
    "interface": interface,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the start, or all, and print what was found."""
    return run_all("startup", MEASUREMENTS, parts)
