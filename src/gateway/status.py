"""The gateway's lock, process id and status file: one gateway per home."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, BinaryIO

from agent.home import hermes_home
from hermes_base.files import write_private

PID_FILE = "gateway.pid"
STATUS_FILE = "gateway/status.json"
_ATTEMPTS = 5


class GatewayRunningError(RuntimeError):
    """Another gateway serves this home."""

    def __init__(self, pid: int | None) -> None:
        who = f" (process {pid})" if pid else ""
        super().__init__(
            f"A gateway is running for this home already{who}. Stop it with: hermes gateway stop"
        )
        self.pid = pid


class GatewayLock:
    """Held while a gateway runs; a crash releases it by itself."""

    def __init__(self, home: Path) -> None:
        self._path = home / PID_FILE
        self._file: BinaryIO | None = None

    def acquire(self) -> None:
        """Take the lock and leave our process id; raises GatewayRunningError."""
        import fcntl

        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        file = os.fdopen(descriptor, "r+b")
        # A check whether a gateway runs holds the lock for a moment.
        for attempt in range(_ATTEMPTS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if attempt + 1 == _ATTEMPTS:
                    file.close()
                    raise GatewayRunningError(read_pid(self._path.parent)) from error
                time.sleep(0.02)
        file.truncate()
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        self._file = file

    def release(self) -> None:
        """Let another gateway begin."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def read_pid(home: Path) -> int | None:
    """The process that is noted as the gateway of this home, if any."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((home / PID_FILE).read_text().split()[0])
    return None


def running_pid(home: Path) -> int | None:
    """The process that holds the gateway's lock now; None if no gateway runs."""
    import fcntl

    try:
        with (home / PID_FILE).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except OSError:
        return read_pid(home)
    return None


def remove_pid_file(home: Path | None = None) -> None:
    """Forget the process id of a gateway that is gone; that of a running one stays."""
    if home is None:
        home = hermes_home()
    if running_pid(home) is None:
        (home / PID_FILE).unlink(missing_ok=True)


def write_runtime_status(state: str, home: Path | None = None, **facts: Any) -> None:
    """Say how the gateway is, for `hermes gateway status` and the health endpoint."""
    if home is None:
        home = hermes_home()
    path = home / STATUS_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = {"state": state, "pid": os.getpid(), "updated_at": time.time(), **facts}
    write_private(path, json.dumps(status), durable=False)  # written again and again


def read_runtime_status(home: Path) -> dict[str, Any]:
    """What the gateway last said about itself; empty if it never ran."""
    try:
        state = json.loads((home / STATUS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
