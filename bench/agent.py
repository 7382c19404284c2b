"""The turn engine, measured beside the same writes done bare, a bare HTTP client and bare Python,
and, where it is installed, hermes-agent 0.19.0."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .lab import Lab, Measurement, run_all, seconds, zero_delay_model
from .measure import Finding, in_columns, interleaved, medians, progress, spread
from .processes import ROOT, Child, clean_environment
from .rows import Row
from .startup_command import question

TOOL_CALLS = 10


def _child(lab: Lab, function: str, *arguments: Any) -> Any:
    output = subprocess.run(
        [sys.executable, "-m", "bench.agent_child", function, *map(json.dumps, arguments)],
        cwd=ROOT,
        env=clean_environment(lab.folder / "home"),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return json.loads(output)


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
    with zero_delay_model(2000) as url:
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


def imports(lab: Lab) -> list[Finding]:
    """Importing the engine, on top of bare Python."""
    progress("imports")
    environment = clean_environment(lab.folder / "home")

    def side(code: str) -> Callable[[], float]:
        return lambda: seconds([sys.executable, "-c", code], environment)

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


def engine(lab: Lab) -> list[Finding]:
    """A turn with ten calls of `todo` over HTTP: the engine's time, beside bare steps."""
    progress("turns with ten calls of todo, over HTTP")
    sides: dict[str, Callable[[], float]] = {}
    with zero_delay_model(20, calls=TOOL_CALLS) as url, contextlib.ExitStack() as stack:
        for side in (*lab.sides, "bare"):
            home = lab.folder / f"engine-{side}"
            lab.home(home.name, url)
            child = stack.enter_context(
                Child(home, python=lab.python(side), module="bench.engine_child")
            )
            child.ask("open", side=side, folder=str(home), url=url)
            turn = functools.partial(_engine_turn, child)
            for _ in range(2):
                turn()  # the first turns load what is lazy
            sides[side] = turn
        times = interleaved(sides, 7 if lab.quick else 25, seconds=20 if lab.quick else 90)
    median = medians(times)
    return [
        Finding(
            "a turn with ten calls of todo, over HTTP",
            *in_columns(median, "{:.1f} ms", 1e3),
            ratio=median["ours"] / median["bare"],
            details=times,
            row=Row.of(
                "engine.turn", "engine: first turn of a conversation, ten tool calls", "ms",
                times, 1e3,
                bare="the same requests and a commit for each message, with httpx and apsw alone",
            ),
        )
    ]  # fmt: skip


def _engine_turn(child: Child) -> float:
    reply = child.ask("turn", text="Plan ten steps.")
    if reply["calls"] != TOOL_CALLS or not reply["text"].startswith("word0"):
        raise RuntimeError(f"A turn was not what it should be: {reply}")
    return float(reply["seconds"])


MEASUREMENTS: dict[str, Measurement] = {
    "turn": turn,
    "engine": engine,
    "stream": stream,
    "import": imports,
    "crowd": crowd,
    "chat": question,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the engine, or all, and print what was found."""
    return run_all("agent", MEASUREMENTS, parts)
