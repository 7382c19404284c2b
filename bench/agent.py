"""The turn engine, measured beside the same writes done bare, a bare HTTP client and bare Python,
and, where it is installed, hermes-agent 0.19.0."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .measure import (
    Finding,
    interleaved,
    machine,
    progress,
    scratch_folder,
    spread,
    table,
    verdict,
    write_results,
)
from .processes import INSTALL_YARDSTICK, ROOT, clean_environment, find_yardstick


class Lab(NamedTuple):
    """Where and how much to measure."""

    folder: Path
    quick: bool
    yardstick: str | None


def _child(lab: Lab, function: str, *arguments: Any) -> Any:
    output = subprocess.run(
        [sys.executable, "-m", "bench.agent_child", function, *map(json.dumps, arguments)],
        cwd=ROOT,
        env=clean_environment(lab.folder / "home"),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return json.loads(output)


@contextlib.contextmanager
def _zero_delay_server(chunks: int) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.zero_delay", str(chunks)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def turn(lab: Lab) -> list[Finding]:
    """A turn with ten tool calls: the engine against the same writes done bare."""
    progress("turns with ten tool calls")
    measured = _child(lab, "turns", 20 if lab.quick else 100)
    ours, bare = spread(measured["ours"]), spread(measured["bare"])
    ratio = ours.median / bare.median
    return [
        Finding(
            "a turn with ten tool calls",
            f"{ours.median * 1e3:.2f} ms",
            f"{bare.median * 1e3:.2f} ms",
            ratio=ratio,
            goal="at most 2 times the bare writes",
            met=ratio <= 2,
            details=measured,
        )
    ]


def stream(lab: Lab) -> list[Finding]:
    """CPU time of a streamed reply of 2,000 pieces."""
    progress("2,000 streamed pieces")
    with _zero_delay_server(2000) as url:
        measured = _child(lab, "chunks", url, 2000)
    ours, bare = spread(measured["ours"]), spread(measured["bare"])
    return [
        Finding(
            "2,000 streamed pieces, CPU",
            f"{ours.median * 1e3:.0f} ms",
            f"{bare.median * 1e3:.0f} ms",
            ratio=ours.median / bare.median,
            goal="within 60 ms",
            met=ours.median <= 0.060,
            details=measured,
        )
    ]


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - started


def imports(lab: Lab) -> list[Finding]:
    """Importing the engine, on top of bare Python."""
    progress("imports")
    environment = clean_environment(lab.folder / "home")

    def side(code: str) -> Callable[[], float]:
        return lambda: _seconds([sys.executable, "-c", code], environment)

    times = interleaved(
        {"ours": side("from agent import AIAgent"), "bare": side("pass")}, 7 if lab.quick else 21
    )
    ours, bare = spread(times["ours"]), spread(times["bare"])
    added = ours.median - bare.median
    return [
        Finding(
            "import of the engine, on top of Python",
            f"{added * 1e3:.0f} ms",
            f"{bare.median * 1e3:.0f} ms",
            ratio=ours.median / bare.median,
            goal="under 150 ms",
            met=added < 0.150,
            details=times,
        )
    ]


def crowd(lab: Lab) -> list[Finding]:
    """Many turns at once in one process, each with a tool call."""
    found = []
    for conversations in (100, 500):
        progress(f"{conversations} turns at once")
        rounds = [_child(lab, "crowd", conversations, 0.0) for _ in range(2 if lab.quick else 5)]
        slow = _child(lab, "crowd", conversations, 1.0)
        rate = spread([conversations / one["seconds"] for one in rounds])
        memory = spread([one["bytes"] / conversations / 1024 for one in rounds])
        found.append(
            Finding(
                f"{conversations} turns at once",
                f"{rate.median:.0f} turns/s, {memory.median:.0f} KiB each",
                details={"rounds": rounds},
            )
        )
        found.append(
            Finding(
                f"{conversations} turns at once, a model that takes 1 s",
                f"{slow['seconds']:.2f} s in all",
                details=slow,
            )
        )
    return found


def _config_for(home: Path, url: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(
        "model:\n  default: zero\n  provider: custom\n"
        f"  base_url: {url}/v1\n  api_key: k\n  context_length: 128000\n"
    )


def chat(lab: Lab) -> list[Finding]:
    """`hermes chat -Q -q`, from process start to exit, on an endpoint that answers at once."""
    progress("one question, from start to exit")
    with _zero_delay_server(20) as url:
        sides: dict[str, Callable[[], float]] = {}
        pythons = {"ours": sys.executable, "theirs": lab.yardstick}
        for side, python in pythons.items():
            if python is None:
                continue
            home = lab.folder / f"chat-{side}"
            environment = clean_environment(home)
            _config_for(Path(environment["HERMES_HOME"]), url)
            hermes = str(Path(python).parent / "hermes")
            command = [hermes, "chat", "-Q", "-q", "Say something."]
            _seconds(command, environment)  # the first start sets things up
            sides[side] = lambda command=command, environment=environment: _seconds(  # type: ignore[misc]
                command, environment
            )
        environment = clean_environment(lab.folder / "home")
        sides["bare"] = lambda: _seconds([sys.executable, "-c", "pass"], environment)
        times = interleaved(sides, 5 if lab.quick else 15)
    ours, bare = spread(times["ours"]), spread(times["bare"])
    theirs = spread(times["theirs"]) if "theirs" in times else None
    return [
        Finding(
            "hermes chat -Q -q, start to exit",
            f"{ours.median * 1e3:.0f} ms",
            f"{bare.median * 1e3:.0f} ms",
            f"{theirs.median * 1e3:.0f} ms" if theirs else "",
            ratio=ours.median / bare.median,
            goal="at most 400 ms",
            met=ours.median <= 0.400,
            details=times,
        )
    ]


MEASUREMENTS: dict[str, Callable[[Lab], list[Finding]]] = {
    "turn": turn,
    "stream": stream,
    "import": imports,
    "crowd": crowd,
    "chat": chat,
}


def run_all(
    name: str,
    measurements: Mapping[str, Callable[[Lab], list[Finding]]],
    parts: Iterable[str],
) -> list[Finding]:
    """Measure the given parts, or all, keep the numbers under `name`, print what was found."""
    findings: list[Finding] = []
    facts = {"start": machine()}
    with scratch_folder() as folder:
        lab = Lab(folder, bool(os.environ.get("QUICK")), find_yardstick())
        for part in list(parts) or list(measurements):
            findings += measurements[part](lab)
    write_results(name, findings, {**facts, "end": machine()})
    print(table(findings))
    print(f"\n{verdict(findings)}")
    if lab.yardstick is None:
        print(INSTALL_YARDSTICK)
    return findings


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the engine, or all, and print what was found."""
    return run_all("agent", MEASUREMENTS, parts)
