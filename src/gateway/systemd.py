"""The gateway under systemd: its unit, and whether a process is kept running by one.

What is written into a unit is quoted, so that a home may have any name. A gateway that systemd
keeps is systemd's to stop: it would start one again that was ended in another way.
"""

from __future__ import annotations

import sys
from pathlib import Path

UNIT_NAME = "hermes-gateway.service"
UNIT = """\
[Unit]
Description=Hermes gateway
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={python} -m hermes_cli.main gateway run
Environment={home}
Restart=always
RestartSec=5
TimeoutStopSec=60
UMask=0077

[Install]
WantedBy=default.target
"""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "\n": "\\n", "\t": "\\t"})


def install_unit(home: Path, folder: Path | None = None) -> Path:
    """Write a systemd unit for this person; returns where it is."""
    folder = folder or Path.home() / ".config" / "systemd" / "user"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / UNIT_NAME
    text = UNIT.format(python=quoted(sys.executable), home=quoted(f"HERMES_HOME={home}"))
    path.write_text(text, encoding="utf-8")
    return path


def quoted(text: str) -> str:
    """One word of a unit file, whatever is in it."""
    return f'"{text.translate(_ESCAPES)}"'


def stop_command(pid: int, proc: Path = Path("/proc")) -> str | None:
    """How a process that systemd keeps running is stopped; None if systemd does not keep it."""
    try:
        groups = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
        environ = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None  # no Linux, or it is gone
    # Programs that a service starts are in its group too; systemd names the one it started itself.
    if f"SYSTEMD_EXEC_PID={pid}".encode() not in environ:
        return None
    for line in groups.splitlines():
        unit = line.rpartition("/")[2]
        if unit.endswith(".service") and not unit.startswith("user@"):
            return f"systemctl {'--user ' if '/user@' in line else ''}stop {unit}"
    return None
