"""A process that has imported everything and opened nothing, and forks programs for the tests.

`python -m tests.fork_server FD`: on the socket FD come orders in JSON. One with a program and three
descriptors forks a process that runs it on them, as `python PROGRAM` or `python -m PROGRAM` would;
one that says `code` is answered with a process's exit code. What a forked process is spared are the
imports, which are most of what a start costs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hermes_base.certificates import certificates

from . import server_store
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
        handles = []
        if "code" in order:
            answer = _code(order["code"])
        else:
            wait_for, prepared = os.pipe()
            answer = os.fork()
            if answer == 0:
                for ours in (orders.detach(), reader, writer, wait_for):
                    os.close(ours)
                _become(descriptors, prepared, **order)
            _codes.pop(answer, None)  # of one that had the same id before
            for descriptor in (*descriptors, prepared):
                os.close(descriptor)
            os.read(wait_for, 1)  # its end: the process has its input, output and terminal
            os.close(wait_for)
            # Opened here, where it cannot have been reaped yet, however soon it has ended.
            handles.append(os.pidfd_open(answer))
        socket.send_fds(orders, [json.dumps(answer).encode()], handles)
        for handle in handles:
            os.close(handle)


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
    descriptors: list[int],
    prepared: int,
    program: str,
    arguments: list[str],
    environ: dict[str, str],
    cwd: str,
    session: bool = False,
    terminal: bool = False,
) -> None:
    """Be the program, in a session of its own and with a terminal if told; does not return."""
    code: Any = 0
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _codes.clear()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if session:
            os.setsid()
        if terminal:
            os.close(os.open(os.ttyname(0), os.O_RDWR))
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        os.chdir(cwd)
        _open_streams()
        sys.argv = [program, *arguments]
        os.close(prepared)
        _run(program)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if not isinstance(ended.code, int | None):
            print(ended.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - whatever it is, this copy must end here
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    finally:
        _end(code)


def _open_streams() -> None:
    """New ones: how they are buffered depends on whether there is a terminal."""
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _output(1)
    sys.stderr = sys.__stderr__ = _output(2, "backslashreplace", line_buffering=True)


def _output(number: int, errors: str = "strict", line_buffering: bool = False) -> io.TextIOWrapper:
    if os.environ.get("PYTHONUNBUFFERED"):
        raw = open(number, "wb", 0, closefd=False)  # noqa: SIM115
        return io.TextIOWrapper(raw, errors=errors, write_through=True)
    return open(number, "w", 1 if line_buffering else -1, errors=errors, closefd=False)


def _run(program: str) -> None:
    if Path(program).is_absolute():
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        sys.modules.pop(program, None)  # it is run anew, as what it is
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _end(code: int) -> None:
    """End as an interpreter does: threads, then what is registered, then what is not written."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError):  # closed, or nobody reads it any more
                stream.flush()
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code & 0xFF)


def load() -> None:
    """What programs would load sooner or later, and what they read once."""
    import_all()
    import_all(["hermes_cli"])
    for late in ("yaml", "anyio._backends._asyncio"):
        importlib.import_module(late)
    certificates()
    server_store.install()


if __name__ == "__main__":
    load()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()  # what is here already is not looked at, and so not copied, in every process
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.send(b"{}")
        serve(channel)
