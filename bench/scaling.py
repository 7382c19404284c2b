"""Several gateways over one database: turns per second, added latency, and what the database does.

1, 2 and 4 replicas of `hermes gateway run`, each bound to its share of the cores, with a model that
takes 300 ms; the database, the model and those who ask have what is left, and on a small machine
that is the same cores. `bench.simulation` is driven by what is found here.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from .gateway_server import Gateway, Load, load, running
from .lab import Lab, Measurement, run_all, zero_delay_model
from .measure import OUT, Finding, progress
from .postgres import server
from .rows import Row
from .scaling_events import events
from .simulation import COSTS_FILE, Costs

MODEL_SECONDS = 0.3
REPLICAS = (1, 2, 4)
MANY = (240, 4)
"""Conversations at once, over all replicas, and the turns of each."""
QUICK_MANY = (60, 2)
FEW = 4
"""At once, for the latency when nothing is in the way."""
_NOT_THEIRS = "hermes-agent has no store on a server"
_TICKS = os.sysconf("SC_CLK_TCK")


class Work(NamedTuple):
    """What the database has done up to a moment."""

    transactions: int
    """Those that only read included."""
    writes: int
    wal_bytes: int
    flushes: int
    seconds: float
    """Processor time of all its processes."""


class Found(NamedTuple):
    """What came of a load on some replicas."""

    turns_per_second: float
    added: float
    """Seconds that half of the turns did not take longer than the model."""
    added_late: float
    """The same for 99 of 100."""
    work: Work
    """What the database did for one turn."""
    gateway_seconds: float
    """Processor time of the gateways for one turn."""


def processor_seconds(pids: Iterable[int]) -> float:
    """Processor time that processes have used, those included that they have waited for."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / _TICKS


def database_work(address: str) -> Work:
    """What the database of an address has done so far, all of its server's log included."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT xact_commit + xact_rollback,"
            " CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"
            " FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        wal = connection.execute("SELECT wal_bytes FROM pg_stat_wal").fetchone()
        flushes = connection.execute(_flushes(connection.info.server_version)).fetchone()
        own = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row and wal and flushes and own
        # While it is connected: its process is gone a moment after.
        parent = int(Path(f"/proc/{own[0]}/stat").read_text().rpartition(")")[2].split()[1])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    used = processor_seconds([parent, *map(int, children)])
    return Work(int(row[0]), int(row[1]), int(wal[0]), int(flushes[0]), used)


def _flushes(version: int) -> str:
    if version >= 180000:
        return "SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'"
    return "SELECT wal_sync FROM pg_stat_wal"


def shares(replicas: int, cores: list[int]) -> list[set[int]]:
    """The cores of each replica: as even as they can be, shared where there are too few."""
    if replicas >= len(cores):
        return [{cores[number % len(cores)]} for number in range(replicas)]
    each = len(cores) // replicas
    return [set(cores[number * each : (number + 1) * each]) for number in range(replicas)]


@contextlib.contextmanager
def replicas(lab: Lab, count: int, model: str, address: str) -> Iterator[list[Gateway]]:
    """Gateways over one database, each on its share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        found = []
        for share in shares(count, cores):
            gateway = stack.enter_context(running(lab, "ours", model, {"HERMES_STORE": address}))
            for task in Path(f"/proc/{gateway.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), share)
            load(gateway.url, 1, 2, stream=False)  # the first turn loads what is lazy
            found.append(gateway)
        yield found


def ask(
    gateways: list[Gateway], conversations: int, turns: int, name: str
) -> tuple[float, list[Load]]:
    """Conversations at once, spread over the replicas; turns per second, and each one's load."""
    each = max(1, conversations // len(gateways))
    with ThreadPoolExecutor(len(gateways)) as pool:
        loads = list(
            pool.map(
                lambda number: load(
                    gateways[number].url, each, turns, stream=False, name=f"{name}{number}"
                ),
                range(len(gateways)),
            )
        )
    return sum(one.turns_per_second for one in loads), loads


def measure(gateways: list[Gateway], address: str, conversations: int, turns: int) -> Found:
    """One load, with what it cost."""
    pids = [gateway.pid for gateway in gateways]
    before, used = database_work(address), processor_seconds(pids)
    rate, loads = ask(gateways, conversations, turns, f"s{conversations}-")
    after, used_after = database_work(address), processor_seconds(pids)
    done = max(1, conversations // len(gateways)) * len(gateways) * turns
    each = Work(*((b - a) / done for a, b in zip(before, after, strict=True)))
    return Found(
        rate,
        statistics.median(one.p50 for one in loads) - MODEL_SECONDS,
        max(one.p99 for one in loads) - MODEL_SECONDS,
        each,
        (used_after - used) / done,
    )


def scale(lab: Lab) -> list[Finding]:
    """Turns per second and added latency with 1, 2 and 4 replicas, and what a turn costs."""
    rounds = 1 if lab.quick else 3
    many, turns = min(MANY, QUICK_MANY) if lab.quick else MANY
    findings: list[Finding] = []
    costs: list[Found] = []
    with zero_delay_model(delay=MODEL_SECONDS) as model:
        for count in REPLICAS:
            progress(f"{count} replicas on one database")
            with server(lab) as address, replicas(lab, count, model, address) as gateways:
                quiet = [measure(gateways, address, FEW, turns) for _ in range(rounds)]
                loaded = [measure(gateways, address, many, turns) for _ in range(rounds)]
            costs += loaded
            findings += _findings(count, many, quiet, loaded)
    kept = Costs(
        gateway_seconds=statistics.median(one.gateway_seconds for one in costs),
        database_seconds=statistics.median(one.work.seconds for one in costs),
        commits=statistics.median(one.work.writes for one in costs),
        flush_seconds=flush_seconds(lab.folder),
        model_seconds=MODEL_SECONDS,
    )
    OUT.mkdir(exist_ok=True)
    (OUT / COSTS_FILE).write_text(json.dumps(asdict(kept), indent=1) + "\n")
    return findings


def flush_seconds(folder: Path, times: int = 50) -> float:
    """How long this disk takes to keep 8 KiB, as the database asks it to."""
    took = []
    with (folder / "flushed").open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 8192)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def _findings(count: int, many: int, quiet: list[Found], loaded: list[Found]) -> list[Finding]:
    name = f"{count} replica{'s' * (count > 1)}"
    rates = [one.turns_per_second for one in loaded]
    added = [one.added for one in quiet]
    late = max(one.added_late for one in quiet)
    work = loaded[-1].work
    key = f"scaling.{count}"
    return [
        Finding(
            f"{name}, {many} conversations at once, a model that takes 300 ms: turns per second",
            f"{statistics.median(rates):.0f}",
            details={"loaded": [_facts(one) for one in loaded]},
            row=Row.of(f"{key}.rate", f"{name} on PostgreSQL: turns per second", "turns/s",
                       {"ours": rates}, higher=True, absent=_NOT_THEIRS),
        ),
        Finding(
            f"{name}, {FEW} conversations at once: added to the model's time, p50 / p99",
            f"{statistics.median(added) * 1e3:.0f} / {late * 1e3:.0f} ms",
            details={"quiet": [_facts(one) for one in quiet]},
            row=Row.of(f"{key}.added", f"{name} on PostgreSQL: time added per turn", "ms",
                       {"ours": added}, 1e3, absent=_NOT_THEIRS),
        ),
        Finding(
            f"{name}: the database, for one turn",
            f"{work.transactions:.1f} transactions, {work.writes:.1f} of them write,"
            f" {work.wal_bytes / 1024:.1f} KiB of log,"
            f" {work.flushes:.1f} flushes, {work.seconds * 1e3:.1f} ms of a core",
        ),
        Finding(
            f"{name}: the gateway, for one turn",
            f"{statistics.median(one.gateway_seconds for one in loaded) * 1e3:.1f} ms of a core",
        ),
    ]  # fmt: skip


def _facts(found: Found) -> dict[str, Any]:
    return {**found._asdict(), "work": found.work._asdict()}


MEASUREMENTS: dict[str, Measurement] = {"scale": scale, "events": events}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure, and print what was found."""
    return run_all("scaling", MEASUREMENTS, parts)
