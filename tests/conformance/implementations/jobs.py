"""Jobs: the gateway, with occurrences of jobs as its inbound, and a chat that gets the answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..adapter import Death
from ..children.jobs_child import about_job
from .engine import Engine
from .gateway import Gateway
from .looking import RACE, store


class Jobs(Gateway):
    """One conversation of many jobs, each of which is accepted when it is made."""

    name = "jobs"
    forks_anywhere: bool | None = True
    program = "tests.conformance.children.jobs_child"

    def conversation(self, home: Path) -> str | None:
        """The session that the jobs name."""
        return "s"

    def waiting(self, home: Path) -> list[str]:
        """Also: jobs that are not claimed yet."""
        with store(home) as db:
            jobs = self._select(db, "SELECT name FROM jobs WHERE state = 'active' ORDER BY name")
        return super().waiting(home) + sorted(jobs, key=lambda name: (len(name), name))

    def faults(self, home: Path) -> list[str]:
        """Also: occurrences that have not one outcome each, or failed and were not told."""
        with store(home) as db:
            faults = [
                f"the job {name} has {runs} runs in the state {state}"
                for name, state, runs in db._execute_write(
                    lambda conn: list(
                        conn.execute(
                            "SELECT j.name, j.state, COUNT(r.id) FROM jobs j"
                            " LEFT JOIN job_runs r ON r.job_id = j.id GROUP BY j.id"
                        )
                    )
                )
                if runs != (state == "done")
            ]
            failed = self._select(db, "SELECT id FROM job_runs WHERE state = 'failed'")
            said = self._select(db, "SELECT obligation_id FROM delivery_obligations")
        faults += [f"{run} failed, untold" for run in failed if f"say:{run}:failed" not in said]
        return [*super().faults(home), *faults]

    def fork(self, home: Path, at: int, death: Death | None = None) -> None:
        """Branch behind the first `at` messages."""
        Engine.fork(self, home, at, death)

    def _prepare(self, home: Path, subject: str) -> dict[str, Any]:
        if subject == "turn":
            self.cut_off(home)
            return {"do": "take_race"}
        with store(home) as db:
            db.add_job(RACE, **about_job(RACE, int(time.time())))
        return {"do": "take_race"}
