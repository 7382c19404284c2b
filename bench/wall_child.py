"""A process whose memory is measured: with commands outside, then a wall with busy connections.

Prints the megabytes of resident memory as JSON: `before` any wall, after commands without one;
`walled` with a wall; `connected` with twenty connections through its proxy.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

CONNECTIONS = 20
_PROGRAM = """
import os, pathlib, socket, sys, time
proxy = os.environ["http_proxy"].rpartition("/")[2].split(":")
opened = []
for _ in range({count}):
    one = socket.create_connection((proxy[0], int(proxy[1])))
    one.sendall(b"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    assert b" 200 " in one.recv(4096)
    one.sendall(b"x" * 65536)
    received = 0
    while received < 65536:
        received += len(one.recv(65536))
    opened.append(one)
pathlib.Path("connected").touch()
time.sleep(60)
"""


def _megabytes() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS:")).split()[1]) / 1024


def _echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def _serve(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def main(place: Path) -> None:
    """Measure, and print what was found."""
    from tools.base import ToolContext, Workspace
    from tools.terminal.tool import close_terminal, terminal

    project = place / "project"
    for folder in (place / "home", project):
        folder.mkdir(parents=True, exist_ok=True)
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    settings = {
        "terminal": {"sandbox": "off", "allowed_hosts": ["127.0.0.1"]},
        "web": {"allow_private": ["127.0.0.1"]},
        "approvals": {"mode": "off"},
    }
    workspace = Workspace(place / "home", project, settings=settings)
    context = ToolContext("s1", "call_1", workspace=workspace)
    (project / "connect.py").write_text(
        _PROGRAM.format(count=CONNECTIONS, port=server.getsockname()[1])
    )
    for _ in range(3):
        terminal.run(context, "true")
    terminal.run(context, "sleep 60", background=True)
    found = {"before": _megabytes()}
    settings["terminal"]["sandbox"] = "required"  # type: ignore[index]
    terminal.run(context, "true")
    found["walled"] = _megabytes()
    terminal.run(context, f"{sys.executable} connect.py", background=True)
    until = time.monotonic() + 30
    while not (project / "connected").exists():
        if time.monotonic() > until:
            raise RuntimeError("The connections were not made.")
        time.sleep(0.05)
    found["connected"] = _megabytes()
    close_terminal(workspace)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
