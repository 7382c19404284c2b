"""Jobs that are due again and again, several gateways that run them, and a clock that jumps.

What each job should have been due for is reckoned here, from its schedule alone; what became of it
is read from the store and the chat. Each due time must be covered by exactly one run or one stretch
that a rule left out.
"""

from __future__ import annotations

import json
import mmap
import random
import struct
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from agent.jobs.job import MISSED_AFTER, JobSettings
from gateway.delivery import UNSURE

from .adapter import Death
from .children.jobs_child import CHAT
from .children.occurrences_child import CLOCK, FAILING, SILENT
from .implementations.looking import store
from .implementations.server import CONFIG
from .implementations.wire import Died, Wire

PROGRAM = "tests.conformance.children.occurrences_child"
LONGEST_MOMENT = 0.6
"""Seconds after its order within which a process is killed at a moment."""
WRITES = (8, 20, 60)
"""So many writes a process makes that does little, some, or everything."""
EFFECTS = 3
LONGEST_JITTER = 30
JUMPS = (0, 61, 125, 600, 3 * 3600, -400)
"""Seconds by which the clock jumps, between two lives or in the middle of one."""
JOBS: dict[str, tuple[int, dict[str, Any]]] = {
    "once": (60, {"kind": "message", "missed": "once"}),
    "skip": (300, {"kind": "message", "missed": "skip"}),
    "all": (240, {"missed": "all", "missed_most": 3, "overlap": "queue"}),
    "own": (180, {"where": "own"}),
    "jittered": (120, {"jitter": LONGEST_JITTER, "overlap": "queue"}),
    FAILING: (120, {"missed": "all", "missed_most": 2, "overlap": "queue"}),
    SILENT: (600, {}),
}
"""How many seconds apart each is due, and its settings."""


class World:
    """A home with jobs, its clock, and the gateways that run them."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.home, self.chance = home, chance
        (home / "config.yaml").write_text(json.dumps(CONFIG))
        (home / CLOCK).write_bytes(struct.pack("d", 0.0))
        with (home / CLOCK).open("r+b") as file:
            self._clock = mmap.mmap(file.fileno(), 8)
        self.ahead = 0.0
        self.began = int(time.time()) - 30
        with store(home) as db:
            for name, (seconds, about) in JOBS.items():
                settings = JobSettings(
                    prompt=name, deliver="chat", to=CHAT, usd_per_day=1e6, **about
                )
                db.add_job(
                    name, user_id=None, name=name, schedule=f"every {seconds} from {self.began}",
                    timezone="UTC", settings=settings.kept(), next_due=self.began,
                    next_at=self.began,
                )  # fmt: skip

    def jump(self, seconds: float) -> None:
        """Set the clock of everybody."""
        self.ahead += seconds
        self._clock[:8] = struct.pack("d", self.ahead)

    def draw_death(self) -> Death:
        """Where a process is to die: at a moment, around a write, or around an effect."""
        kind = self.chance.random()
        if kind < 0.4:
            return Death("moment", self.chance.uniform(0, LONGEST_MOMENT))
        if kind < 0.9:
            where = self.chance.choice(("before", "during", "after"))
            return Death(where, self.chance.randint(1, self.chance.choice(WRITES)))
        return Death(
            self.chance.choice(("tool-before", "tool-after")), self.chance.randint(1, EFFECTS)
        )

    def live(self, deaths: list[Death | None], jump: float = 0) -> list[Death]:
        """Let so many gateways run what is due, and die; the points that were died at."""
        reached: list[Death] = []
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(PROGRAM, self.home, death)) for death in deaths]
            for wire in wires:
                with suppress(Died):
                    wire.receive()
                    wire.start_moment()
                    wire.send(do="settle")
            self.jump(jump)
            for wire, death in zip(wires, deaths, strict=True):
                try:
                    assert wire.receive() == {"done": True}
                except Died:
                    if death is not None and death.is_named:
                        reached.append(death)
        return reached

    def faults(self) -> list[str]:
        """What does not hold once everything has settled."""
        with store(self.home) as db:
            faults = [f"{each.rule}: {each.problem}" for each in db.check_store()]
            jobs = {name: db.get_job(name) for name in JOBS}
            runs = {name: db.list_job_runs(name, 10_000) for name in JOBS}
            fresh = [name for name in JOBS if JOBS[name][1].get("where") != "own"]
            sessions = [
                db.get_session(run["session_id"])
                for name in fresh
                for run in runs[name]
                if run["session_id"]
            ]
            said = db.list_deliveries(("pending", "sending", "delivered", "failed"))
        open_still = [each for each in sessions if each is not None and each["ended_at"] is None]
        faults += [f"the session {session['id']} is open" for session in open_still]
        names = {str(row["obligation_id"]) for row in said}
        for name, job in jobs.items():
            assert job is not None
            seconds = JOBS[name][0]
            due = range(self.began, int(job["next_due"]), seconds)
            faults += uncovered(name, due, runs[name])
            faults += untold(name, runs[name], names)
        effects = self.home / "effects"
        marks = Counter(effects.read_text().split() if effects.exists() else [])
        faults += [f"{mark} happened {n} times" for mark, n in marks.items() if n > 1]
        return faults + self._wrongly_shown(runs)

    def _wrongly_shown(self, runs: dict[str, list[dict[str, Any]]]) -> list[str]:
        """Answers that the chat shows twice, not at all without a word, or of no such run."""
        file = self.home / "chat"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        unsure = sum(line["text"] == UNSURE for line in lines)
        shown: dict[str, int] = defaultdict(int)
        for line in lines:
            parts = str(line["key"]).split(":")
            if parts[0] == "job":
                shown[f"job:{parts[1]}:{parts[2].partition('~')[0]}"] += line["text"] != UNSURE
        ended = {run["id"]: run["state"] for every in runs.values() for run in every}
        faults = [f"{name} is shown {n} times" for name, n in shown.items() if n > 1]
        faults += [
            f"{name} is shown, and is {ended.get(name)}"
            for name, n in shown.items()
            if n and ended.get(name) not in ("delivered", "failed")
        ]
        missing = [
            name for name, state in ended.items() if state == "delivered" and not shown[name]
        ]
        return faults + ([f"never shown: {missing}"] if len(missing) > unsure else [])


def uncovered(name: str, due: range, runs: list[dict[str, Any]]) -> list[str]:
    """Due times that no run or rule covers, or more than one."""
    times: Counter[int] = Counter()
    faults = []
    for run in runs:
        first, last = int(run["due_at"]), int(run["until"])
        stretch = [moment for moment in due if first <= moment <= last]
        if run["state"] == "skipped" and len(stretch) != run["skipped"]:
            faults.append(f"{run['id']} left out {run['skipped']}, and covers {len(stretch)}")
        if run["state"] not in ("delivered", "silent", "done", "failed", "skipped"):
            faults.append(f"{run['id']} is {run['state']}")
        if not stretch:
            faults.append(f"{run['id']} was not due")
        times.update(stretch)
    return faults + [f"{name} at {m}: {times[m]} outcomes" for m in due if times[m] != 1]


def untold(name: str, runs: list[dict[str, Any]], said: set[str]) -> list[str]:
    """Failures and missed stretches that were not told, or told when they should not be."""
    faults, failures = [], 0
    for run in reversed(runs):  # oldest first
        if run["state"] == "skipped":
            missed = f"say:job:{name}:missed:{int(run['due_at'])}"
            was_missed = run["ended_at"] - run["due_at"] > MISSED_AFTER + LONGEST_JITTER
            if was_missed and run["error"] == "nothing was running then" and missed not in said:
                faults.append(f"{run['id']} was missed, and nobody was told")
            continue
        failures = failures + 1 if run["state"] == "failed" else 0
        is_due = failures > 0 and failures & (failures - 1) == 0
        if is_due != (f"say:{run['id']}:failed" in said):
            faults.append(f"{run['id']} is {run['state']}, {failures} in a row: told {not is_due}")
    return faults
