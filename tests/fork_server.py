"""A process that has imported everything and opened nothing, and forks programs for the tests.

`python -m tests.fork_server FD`: on the socket FD come orders in JSON. One with a program and three
descriptors forks a process that runs it on them, as `python PROGRAM` or `python -m PROGRAM` would;
one that says `code` is answered with a process's exit code. What a forked process is spared are the
imports, which are most of what a start costs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from hermes_base.certificates import certificates

from .conformance.children.zygote import import_all

_codes: dict[int, int] = {}
"""How processes have ended that nobody has asked for yet."""


def serve(orders: socket.socket) -> None:
    """Fork and answer as told, until nobody tells any more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([orders, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
            _reap()
        if orders not in ready:
            continue
        line, descriptors, _, _ = socket.recv_fds(orders, 1 << 20, 3)
        if not line:
            return
        order = json.loads(line)
        if "code" in order:
            answer = _code(order["code"])
        else:
            answer = os.fork()
            if answer == 0:
                for ours in (orders.detach(), reader, writer):
                    os.close(ours)
                _become(descriptors, **order)
            for descriptor in descriptors:
                os.close(descriptor)
        orders.send(json.dumps(answer).encode())


def _reap() -> None:
    """Whoever has ended is gone at once, as from a parent that waits."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _codes[pid] = os.waitstatus_to_exitcode(status)


def _code(pid: int) -> int:
    if pid not in _codes:
        _, status = os.waitpid(pid, 0)
        _codes[pid] = os.waitstatus_to_exitcode(status)
    return _codes.pop(pid)


def _become(
    descriptors: list[int], program: str, arguments: list[str], environ: dict[str, str], cwd: str
) -> None:
    """Be the program; does not return."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _codes.clear()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = [program, *arguments]
    code: Any = 0
    try:
        if Path(program).suffix == ".py":
            sys.path.insert(0, str(Path(program).parent))
            runpy.run_path(program, run_name="__main__")
        else:
            sys.modules.pop(program, None)  # it is run anew, as what it is
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, this copy must end here
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):  # it has closed it
                stream.flush()
        os._exit(code)


def load() -> None:
    """What programs would load sooner or later, and what they read once."""
    import_all()
    for late in ("yaml", "anyio._backends._asyncio"):
        importlib.import_module(late)
    certificates()


if __name__ == "__main__":
    load()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()  # what is here already is not looked at, and so not copied, in every process
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.send(b"{}")
        serve(channel)
