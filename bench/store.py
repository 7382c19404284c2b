"""The session store, measured beside bare SQLite and, where it is installed, hermes-agent 0.19.0.

All sides write with the same durability (WAL, synchronous=FULL), which is asked of their writing
connections and reported. "Bare" is a loop over apsw on the same tables with the same indexes and
connection settings.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import apsw

from .measure import (
    Finding,
    Spread,
    in_columns,
    interleaved,
    machine,
    paired_ratio,
    progress,
    scratch_folder,
    spread,
    table,
    verdict,
    write_results,
)
from .processes import Child, clean_environment
from .rows import Row
from .store_group import group
from .store_lab import FULL, QUICK, SLOW_PHASE, Lab, disk_bytes, text_bytes
from .store_long import long
from .store_rivals import rivals, small_rivals
from .store_search import search
from .store_writers import writers
from .yardstick import HOW_TO, find_yardstick

APPEND_RATIO = 0.80
LOAD_RATE = 300_000
DISK_RATIO = 2.5
IMPORT_SECONDS = 0.040
BARE_STORE = "the same rows with apsw alone"


def _append_rate(child: Child, chunk: int) -> float:
    child.ask("prepare", count=chunk)
    reply = child.ask("append", session="appended")
    if reply["errors"]:
        raise RuntimeError(f"Appending failed: {reply['errors'][0]}")
    return len(reply["ids"]) / (reply["ended"] - reply["started"])


def append(lab: Lab) -> list[Finding]:
    """One message per commit, into an empty file and into a big one."""
    big_copy = lab.folder / "big-bare" / "state.db"
    big_copy.parent.mkdir()
    shutil.copyfile(lab.big, big_copy)
    os.sync()  # else the copy is still being written while appends wait for the disk
    progress("appending, one message per commit")
    sizes = lab.sizes
    with contextlib.ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {}
        files = {side: (side, lab.folder / f"append-{side}" / "state.db") for side in lab.sides}
        files |= {"ours, big": ("ours", lab.big), "bare, big": ("bare", big_copy)}
        for name, (side, path) in files.items():
            child = stack.enter_context(lab.child(side, path))
            child.ask("create", session="appended")
            sides[name] = functools.partial(_append_rate, child, sizes.append_chunk)
            stack.callback(child.ask, "close")
        rates = interleaved(sides, sizes.append_rounds, seconds=SLOW_PHASE)
    shutil.rmtree(big_copy.parent)
    median = {name: statistics.median(found) for name, found in rates.items()}
    at_start = paired_ratio(rates["ours"], rates["bare"])
    when_big = paired_ratio(rates["ours, big"], rates["bare, big"])
    flat = paired_ratio(rates["ours, big"], rates["ours"])
    bare_flat = paired_ratio(rates["bare, big"], rates["bare"])
    appended = sizes.append_rounds * sizes.append_chunk
    return [
        Finding(
            f"append, the first {appended:,} messages: per second",
            *in_columns(median, "{:,.0f}"),
            ratio=at_start.median,
            goal=f"ratio ≥ {APPEND_RATIO:.2f}",
            met=at_start.median >= APPEND_RATIO,
            details={"rates": rates, "ratio": at_start},
            row=Row(
                "store.append",
                "store: append, a commit for each message",
                "messages/s",
                {side: rates[side] for side in lab.sides},
                higher=True,
                bare=BARE_STORE,
                differs="hermes-agent's index is written with each message, ours before a search",
            ),
        ),
        Finding(
            f"append, after {sizes.stored:,} messages: per second",
            ours=f"{median['ours, big']:,.0f}",
            bare=f"{median['bare, big']:,.0f}",
            ratio=when_big.median,
            goal=f"ratio ≥ {APPEND_RATIO:.2f}",
            met=when_big.median >= APPEND_RATIO,
            details={"ratio": when_big},
        ),
        Finding(
            f"append, rate after {sizes.stored:,} against the first",
            ours=f"{flat.median:.2f}",
            bare=f"{bare_flat.median:.2f}",
            goal=f"flat: ≥ {APPEND_RATIO:.2f}",
            met=flat.median >= APPEND_RATIO,
            details={"ours": flat, "bare": bare_flat},
        ),
    ]


def load(lab: Lab) -> list[Finding]:
    """A long conversation with tool calls, from the file to dicts."""
    progress(f"loading a conversation of {lab.sizes.conversation:,} messages")
    files = {"ours": lab.conversation, "bare": lab.conversation}
    if lab.yardstick:
        files["theirs"] = lab.theirs

    def measured(child: Child) -> dict[str, float]:
        reply = child.ask("load", session="long")
        if reply["count"] != lab.sizes.conversation:
            raise RuntimeError(f"Loaded {reply['count']} of {lab.sizes.conversation} messages")
        return reply

    with contextlib.ExitStack() as stack:
        sides = {}
        for side, path in files.items():
            child = stack.enter_context(lab.child(side, path))
            measured(child)  # opens the reading connection
            sides[side] = functools.partial(measured, child)
        replies = interleaved(sides, lab.sizes.load_rounds)
    count = lab.sizes.conversation
    rates = {side: [count / r["seconds"] for r in found] for side, found in replies.items()}
    per_cpu = {side: [count / r["cpu"] for r in found] for side, found in replies.items()}
    median = {side: statistics.median(found) for side, found in rates.items()}
    return [
        Finding(
            f"load {count:,} messages: per second",
            *in_columns(median, "{:,.0f}"),
            ratio=paired_ratio(rates["ours"], rates["bare"]).median,
            goal=f"≥ {LOAD_RATE:,}",
            met=median["ours"] >= LOAD_RATE,
            # On a busy machine this is what the code can do, and the rate what it got.
            details={"rates": rates, "per_cpu_second": per_cpu},
            row=Row(
                "store.load",
                f"store: load a conversation of {count:,} messages",
                "messages/s",
                rates,
                higher=True,
                bare=BARE_STORE,
            ),
        )
    ]


def disk(lab: Lab) -> list[Finding]:
    """What the store and its index weigh, against the text that is in them."""
    took = lab.index_seconds
    files, text = disk_bytes(lab.big), text_bytes(lab.big)
    ours = sum(files.values()) / text
    theirs = None
    if lab.yardstick:
        theirs = sum(disk_bytes(lab.theirs_big).values()) / text_bytes(lab.theirs_big)
    return [
        Finding(
            f"disk, {text / 1e6:,.0f} MB of text: files against text",
            ours=f"{ours:.2f}",
            bare=f"{files[lab.big.name] / text:.2f}",
            theirs="" if theirs is None else f"{theirs:.2f}",
            goal=f"≤ {DISK_RATIO}",
            met=ours <= DISK_RATIO,
            details={
                "files": files,
                "text": text,
                "index_seconds": took,
                "bare": "state.db alone, without search",
            },
            row=Row(
                "store.disk",
                "store: disk, per byte of text",
                "bytes",
                {
                    "ours": [ours],
                    "bare": [files[lab.big.name] / text],
                    **({} if theirs is None else {"theirs": [theirs]}),
                },
                bare="the messages alone, without a search index",
            ),
        )
    ]


class Start(NamedTuple):
    """One start of an interpreter: how long it took, and how long it ran."""

    seconds: float
    cpu: float


def _start(python: str, code: str, folder: Path) -> Start:
    started = time.perf_counter()
    process = subprocess.Popen([python, "-c", code], cwd=folder, env=clean_environment(folder))
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{python} -c {code!r} ended with status {process.returncode}")
    return Start(seconds, usage.ru_utime + usage.ru_stime)


def imports(lab: Lab) -> list[Finding]:
    """What `import hermes_state` adds to the start of an interpreter."""
    progress("importing in fresh interpreters")
    pythons = {"ours": sys.executable} | ({"theirs": lab.yardstick} if lab.yardstick else {})
    sides = {
        (side, code): functools.partial(_start, python, code, lab.folder / "home")
        for side, python in pythons.items()
        for code in ("import hermes_state", "pass")
    }
    for start in sides.values():
        start()  # compiles what was not yet compiled
    starts = interleaved(sides, lab.sizes.import_rounds)
    added: dict[str, Spread] = {}
    added_cpu: dict[str, Spread] = {}
    for side in pythons:
        pairs = list(zip(starts[side, "import hermes_state"], starts[side, "pass"], strict=True))
        added[side] = spread([full.seconds - empty.seconds for full, empty in pairs])
        added_cpu[side] = spread([full.cpu - empty.cpu for full, empty in pairs])
    return [
        Finding(
            "import hermes_state, on top of bare Python",
            *in_columns({side: s.median * 1000 for side, s in added.items()}, "{:.0f} ms"),
            goal=f"≤ {IMPORT_SECONDS * 1000:.0f} ms",
            met=added["ours"].median <= IMPORT_SECONDS,
            details={"added": added, "added_cpu": added_cpu},
        )
    ]


MEASUREMENTS: dict[str, Callable[[Lab], list[Finding]]] = {
    "rivals": rivals,  # first: it fills the stores of both at once
    "small": small_rivals,
    "append": append,
    "load": load,
    "writers": writers,
    "group": group,
    "search": search,
    "long": long,
    "disk": disk,
    "import": imports,
}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts of the store, or all, and print what was found."""
    chosen = list(parts) or list(MEASUREMENTS)
    sizes = QUICK if os.environ.get("QUICK") else FULL
    started = time.perf_counter()
    before = machine()
    findings: list[Finding] = []
    with scratch_folder() as folder:
        lab = Lab(folder, sizes, find_yardstick())
        for name in chosen:
            findings += MEASUREMENTS[name](lab)
    after, seconds = machine(), time.perf_counter() - started
    sqlite = apsw.sqlite_lib_version()
    target = write_results(
        "store",
        findings,
        {
            "before": before,
            "after": after,
            "sqlite": sqlite,
            "durability": lab.durability,
            "seconds": seconds,
        },
    )
    print(table(findings))
    settings = ", ".join(f"{side} {found}" for side, found in sorted(lab.durability.items()))
    if settings:
        print(f"\njournal mode/synchronous (2 is FULL): {settings}")
    if len(set(lab.durability.values())) > 1:
        print("The sides do NOT write with the same durability; do not compare their rates.")
    print(
        f"SQLite {sqlite}, Python {before['python']}, {before['cores']} cores, load "
        f"{before['load'][0]:.1f} before, {after['load'][0]:.1f} after, {seconds:.0f} s; "
        f"numbers in {target}"
    )
    print(verdict(findings))
    if sizes is QUICK:
        print("This was a short run; the goals are meant for the full one.")
    if not lab.yardstick:
        print(HOW_TO)
    return findings
