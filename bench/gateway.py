"""The gateway, measured through its API server with a model that answers at once, beside the same
requests sent to that model directly and, where it is installed, hermes-agent 0.19.0."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

from .gateway_server import Gateway, Load, load, peak, running
from .lab import Lab, Measurement, run_all, zero_delay_model
from .measure import Finding, in_columns, interleaved, medians, progress
from .rows import Row

SIZES = (1, 20, 100, 500)
TURNS = {1: 10, 20: 2, 100: 1, 500: 1}
"""Turns of each conversation in a round, by the number of conversations."""
ROUNDS = {1: 10, 20: 5, 100: 3, 500: 3}
QUICK_ROUNDS = {1: 3, 20: 1, 100: 1, 500: 0}
THEIRS_ONCE = 500
"""So many conversations are put to theirs in one round only, which takes it more than a minute."""
QUICK_WITHOUT_THEIRS = 100
TIMES_THEIRS = 20
ONE_TURN = 0.010
ASKED_DIRECTLY = "the model asked directly"

Figures = dict[str, list[float]]


def start(lab: Lab) -> list[Finding]:
    """From the start of the process to the first answer of /health, and memory then."""
    progress("starting the gateway")
    with zero_delay_model() as model:

        def one(side: str) -> tuple[float, float]:
            with running(lab, side, model) as gateway:
                return gateway.seconds, gateway.memory()

        sides = {side: functools.partial(one, side) for side in lab.sides}
        found = interleaved(sides, 2 if lab.quick else 5)
    seconds = {side: [took for took, _ in starts] for side, starts in found.items()}
    memory = {side: [held for _, held in starts] for side, starts in found.items()}
    return [
        Finding(
            "start of the gateway", *in_columns(medians(seconds), "{:.0f} ms", 1e3),
            details=seconds,
            row=Row.of("gateway.start", "gateway: start", "ms", seconds, 1e3),
        ),
        _memory(
            "memory when idle", memory,
            Row("gateway.idle", "gateway: memory when idle", "MiB", memory),
        ),
    ]  # fmt: skip


def _memory(what: str, memory: Figures, row: Row) -> Finding:
    median = medians(memory)
    half = median["ours"] <= median["theirs"] / 2 if "theirs" in median else None
    return Finding(
        what, *in_columns(median, "{:.0f} MiB"),
        goal="" if half is None else "half of theirs", met=half, details=memory, row=row,
    )  # fmt: skip


def whole(lab: Lab) -> list[Finding]:
    """Conversations at once, answers in one piece."""
    return _crowds(lab, stream=False)


def streamed(lab: Lab) -> list[Finding]:
    """Conversations at once, answers streamed."""
    return _crowds(lab, stream=True)


def _crowds(lab: Lab, *, stream: bool) -> list[Finding]:
    rounds = QUICK_ROUNDS if lab.quick else ROUNDS
    found = []
    for conversations in SIZES:
        if rounds[conversations]:
            how = "streamed" if stream else "whole"
            progress(f"{conversations} conversations at once, {how}")
            found += crowd(lab, conversations, rounds[conversations], stream=stream)
    return found


def crowd(lab: Lab, conversations: int, rounds: int, *, stream: bool) -> list[Finding]:
    """Some conversations at once: turns per second, time per turn, memory."""
    turns = TURNS.get(conversations, 1)
    with zero_delay_model() as model, contextlib.ExitStack() as stack:
        gateways: dict[str, Gateway] = {}
        for side in lab.sides:
            if side == "theirs" and lab.quick and conversations >= QUICK_WITHOUT_THEIRS:
                continue
            gateways[side] = stack.enter_context(running(lab, side, model))
            load(gateways[side].url, 1, 2, stream=stream)  # the first turn loads what is lazy
        before = {side: gateway.memory() for side, gateway in gateways.items()}
        urls = {"bare": model, **{side: gateway.url for side, gateway in gateways.items()}}
        once = conversations >= THEIRS_ONCE and "theirs" in urls
        asked = {
            side: functools.partial(load, url, conversations, turns, stream=stream, name="c")
            for side, url in urls.items()
        }
        found: dict[str, list[Load]] = interleaved(asked, 1 if once else rounds)
        if once:
            more = {side: ask for side, ask in asked.items() if side != "theirs"}
            for side, loads in interleaved(more, rounds - 1).items():
                found[side] += loads
        memory = {side: [gateway.memory()] for side, gateway in gateways.items()}
    each = (memory["ours"][0] - before["ours"]) / conversations * 1024
    differs = f"hermes-agent in one round, the others in {rounds}" if once else ""
    absent = "a quick run leaves it out" if lab.yardstick and "theirs" not in urls else ""
    return _findings(Crowd(conversations, stream, found, memory, each, differs, absent))


class Crowd(NamedTuple):
    """What was found of some conversations at once."""

    conversations: int
    stream: bool
    found: dict[str, list[Load]]
    memory: Figures
    each: float
    """KiB that a conversation added to ours."""
    differs: str
    absent: str

    def row(
        self, key: str, what: str, unit: str, samples: Figures, *given: Any, **more: Any
    ) -> Row:
        """A row of the common table."""
        streamed = ", streamed" if self.stream else ""
        return Row.of(
            f"gateway.{key}{'.streamed' if self.stream else ''}.{self.conversations}",
            f"gateway, {self.conversations} at once{streamed}: {what}",
            unit, samples, *given, absent=self.absent, **more,
        )  # fmt: skip

    def figures(self, name: str) -> Figures:
        """One figure of every round, by side."""
        return {side: [getattr(one, name) for one in of] for side, of in self.found.items()}


def _findings(crowd: Crowd) -> list[Finding]:
    conversations, found = crowd.conversations, crowd.found
    name = f"{conversations} at once, {'streamed' if crowd.stream else 'whole'}"
    rates = crowd.figures("turns_per_second")
    over = {side: _over(loads, found["bare"]) for side, loads in found.items() if side != "bare"}
    median = medians(rates)
    faster = median["ours"] / median["theirs"] if "theirs" in median else None
    goal_rate = conversations == 100 and faster is not None
    findings = [
        Finding(
            f"{name}: turns per second", *in_columns(median, "{:.0f}"), ratio=faster,
            goal=f"{TIMES_THEIRS} times theirs" if goal_rate else "",
            met=faster >= TIMES_THEIRS if goal_rate and faster is not None else None,
            details={side: [one._asdict() for one in loads] for side, loads in found.items()},
            row=crowd.row("rate", "turns per second", "turns/s", rates, higher=True,
                          differs=crowd.differs, bare=ASKED_DIRECTLY),
        ),
        Finding(
            f"{name}: overhead per turn, p50", *in_columns(medians(over), "{:.1f} ms", 1e3),
            goal=f"under {ONE_TURN * 1e3:.0f} ms" if conversations == 1 else "",
            met=medians(over)["ours"] < ONE_TURN if conversations == 1 else None,
            row=crowd.row("over", "time added per turn", "ms", over, 1e3, differs=crowd.differs),
        ),
        _memory(
            f"{name}: memory after (ours: {crowd.each:.0f} KiB each)", crowd.memory,
            crowd.row("memory", "memory", "MiB", crowd.memory),
        ),
    ]  # fmt: skip
    if crowd.stream:
        first = crowd.figures("first_p50")
        findings.append(
            Finding(
                f"{name}: first token, p50", *in_columns(medians(first), "{:.1f} ms", 1e3),
                row=crowd.row("first", "first token", "ms", first, 1e3, differs=crowd.differs,
                              bare=ASKED_DIRECTLY),
            )
        )  # fmt: skip
    return findings


def _over(loads: list[Load], bare: list[Load]) -> list[float]:
    """What a side takes longer than the model itself, round by round."""
    return [one.p50 - alone.p50 for one, alone in zip(loads, bare, strict=False)]


def slow(lab: Lab) -> list[Finding]:
    """Conversations in flight together on a model that takes a second."""
    conversations = 100 if lab.quick else 500
    progress(f"{conversations} conversations on a model that takes a second")
    with zero_delay_model(delay=1.0) as model, running(lab, "ours", model) as gateway:
        load(gateway.url, 1, 1, stream=False)
        peak(model)
        ours = load(gateway.url, conversations, 1, stream=False)
        most = peak(model)
    return [
        Finding(
            f"{conversations} conversations, a model that takes 1 s",
            f"{ours.seconds:.2f} s in all, {most} at once",
            goal="all in flight together",
            met=most == conversations,
            details=ours._asdict(),
        )
    ]


MEASUREMENTS: dict[str, Measurement] = {
    "start": start,
    "whole": whole,
    "streamed": streamed,
    "slow": slow,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the gateway, or all, and print what was found."""
    return run_all("gateway", MEASUREMENTS, parts)
