"""The store on a PostgreSQL server, beside bare psycopg with the statements of an append alone.

The server is one of our own, on a disk, that flushes every commit; it is reached
over a socket. Threads of a process share its pool of connections; the bare side has a connection
for each thread.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .gateway_server import load, running
from .lab import Lab, Measurement, run_all, zero_delay_model
from .measure import Finding, in_columns, interleaved, medians, paired_ratio, progress
from .processes import Child
from .rows import Row

if TYPE_CHECKING:
    from tests import postgres

BARE = "the statements of an append with psycopg alone"
APPEND_RATIO = 0.60
TURN_SECONDS = 0.007
GATEWAY_RATIO = 0.50
SIZES = ((1, 1), (1, 8), (1, 32), (4, 1), (4, 8))
"""Processes, and threads in each, that append at once."""
_NOT_THEIRS = "hermes-agent has no store on a server"


@contextlib.contextmanager
def started_server() -> Iterator[postgres.Server]:
    """A server that keeps what it was told, with an empty database `bench`."""
    from tests import postgres

    running = postgres.Server(
        in_memory=False, fsync="on", full_page_writes="on", autovacuum="on", shared_buffers="128MB"
    )
    running.start()
    try:
        running.create("bench")
        yield running
    finally:
        running.stop()


@contextlib.contextmanager
def server(lab: Lab) -> Iterator[str]:
    """The address of an empty database on a server that keeps what it was told."""
    with started_server() as running:
        yield running.url("bench")


@contextlib.contextmanager
def _children(lab: Lab, address: str, count: int) -> Iterator[list[Child]]:
    children = [
        Child(lab.folder / f"pg{number}", module="bench.postgres_child") for number in range(count)
    ]
    try:
        for number, child in enumerate(children):
            home = lab.folder / f"pg{number}" / "home"
            home.mkdir(parents=True, exist_ok=True)
            child.ask("open", address=address, home=str(home))
        yield children
    finally:
        for child in children:
            child.ask("close")
            child.stop()


def _rate(children: list[Child], side: str, threads: int, each: int) -> float:
    for child in children:
        child.send("append", side=side, threads=threads, each=each)
    return sum(child.receive()["rate"] for child in children)


def append(lab: Lab) -> list[Finding]:
    """One message per commit: by one and several threads, in one and several processes."""
    findings = []
    messages, rounds = (100, 3) if lab.quick else (600, 7)
    with server(lab) as address:
        for processes, threads in SIZES:
            writers = processes * threads
            what = f"{threads} thread{'s' * (threads > 1)} in each of {processes}"
            progress(f"appending to a server: {what}")
            with _children(lab, address, processes) as children:
                each = max(20, messages // writers)
                for side in ("ours", "bare"):
                    _rate(children, side, threads, 20)  # what is prepared once
                rates = interleaved(
                    {
                        side: functools.partial(_rate, children, side, threads, each)
                        for side in ("ours", "bare")
                    },
                    rounds,
                )
            ratio = paired_ratio(rates["ours"], rates["bare"])
            findings.append(
                Finding(
                    f"server: append, {what}: per second",
                    *in_columns(medians(rates), "{:,.0f}"),
                    ratio=ratio.median,
                    goal=f"ratio ≥ {APPEND_RATIO:.2f}",
                    met=ratio.median >= APPEND_RATIO,
                    details={"rates": rates, "ratio": ratio},
                    row=Row(
                        f"postgres.append.{processes}x{threads}",
                        f"store on PostgreSQL: append, {what}",
                        "messages/s", rates, higher=True, bare=BARE, absent=_NOT_THEIRS,
                    ),
                )
            )  # fmt: skip
    return findings


def turn(lab: Lab) -> list[Finding]:
    """What a chat's turn writes, one turn after the other: without tools, and with ten."""
    findings = []
    with server(lab) as address, _children(lab, address, 1) as (child,):
        for tools, count in ((0, 20 if lab.quick else 200), (10, 5 if lab.quick else 60)):
            progress(f"turns with {tools} tool calls on a server")
            child.ask("turns", count=10, tools=tools)
            took = child.ask("turns", count=count, tools=tools)["seconds"]
            found = {"ours": took}
            findings.append(
                Finding(
                    f"server: the store's part of a turn with {tools} tool calls",
                    *in_columns(medians(found), "{:.1f} ms", 1e3),
                    goal=f"≤ {TURN_SECONDS * 1e3:.0f} ms" if not tools else "",
                    met=statistics.median(took) <= TURN_SECONDS if not tools else None,
                    details=found,
                    row=Row.of(
                        f"postgres.turn.{tools}",
                        f"store on PostgreSQL: its part of a turn with {tools} tool calls",
                        "ms", found, 1e3, absent=_NOT_THEIRS,
                    ),
                )
            )  # fmt: skip
    return findings


def gateway(lab: Lab) -> list[Finding]:
    """The gateway with its store on the server, beside the same gateway with a file."""
    findings = []
    for conversations, turns in ((1, 10), (100, 1), (500, 1)):
        if lab.quick and conversations > 100:
            continue
        progress(f"the gateway on a server, {conversations} conversations at once")
        with (
            server(lab) as address,
            zero_delay_model() as model,
            running(lab, "ours", model, {"HERMES_STORE": address}) as on_server,
            running(lab, "ours", model) as on_file,
        ):
            urls = {"ours": on_server.url, "bare": on_file.url}
            for url in urls.values():
                load(url, 1, 2, stream=False)  # the first turn loads what is lazy
            found = interleaved(
                {
                    side: functools.partial(load, url, conversations, turns, stream=False, name="c")
                    for side, url in urls.items()
                },
                2 if lab.quick else 5,
            )
        rates = {
            side: [loaded.turns_per_second for loaded in loads] for side, loads in found.items()
        }
        ratio = paired_ratio(rates["ours"], rates["bare"])
        is_goal = conversations == 100
        findings.append(
            Finding(
                f"server: gateway, {conversations} at once (bare: on a file): turns per second",
                *in_columns(medians(rates), "{:,.0f}"),
                ratio=ratio.median,
                goal=f"ratio ≥ {GATEWAY_RATIO:.2f}" if is_goal else "",
                met=ratio.median >= GATEWAY_RATIO if is_goal else None,
                details={"rates": rates, "ratio": ratio},
                row=Row(
                    f"postgres.gateway.{conversations}",
                    f"gateway on PostgreSQL, {conversations} at once: turns per second",
                    "turns/s", rates, higher=True, bare="the same gateway with its store in a file",
                    absent=_NOT_THEIRS,
                ),
            )
        )  # fmt: skip
    return findings


def search(lab: Lab) -> list[Finding]:
    """The first search on a machine, and those after it."""
    from .postgres_search import measure_search

    with server(lab) as address:
        return measure_search(lab, address, _NOT_THEIRS)


def stopped(lab: Lab) -> list[Finding]:
    """How long the event loop of gateways is held while the server says nothing."""
    from .postgres_stopped import measure_stopped

    with started_server() as running:
        return measure_stopped(lab, running, running.url("bench"), _NOT_THEIRS)


MEASUREMENTS: dict[str, Measurement] = {
    "append": append, "turn": turn, "gateway": gateway, "search": search, "stopped": stopped,
}  # fmt: skip


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the store on a server, or all, and print them."""
    return run_all("postgres", MEASUREMENTS, parts)
