"""A process that runs what is due once, and dies at a chosen write."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from agent.config import load_config
from hermes_cli.job_runner import run_due_jobs
from hermes_state import SessionDB


def main(home: Path, die_at: int, when: str) -> None:
    """Run it; killed before or after that write if it is not 0."""
    writes = 0
    write = SessionDB._execute_write

    def counted(self: SessionDB, *args: Any, **kwargs: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == die_at and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = write(self, *args, **kwargs)
        if writes == die_at and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with SessionDB(home / "state.db") as db:
        SessionDB._execute_write = counted  # type: ignore[method-assign]
        run_due_jobs(load_config(home, {}), db)
    print(writes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
