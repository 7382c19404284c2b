"""The gateway as a process: one per home, stopped by a signal, and found by its lock."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from agent.config import load_config
from agent.descriptors import raise_descriptor_limit
from agent.logs import setup_logging
from agent.store import open_store

from . import restart, status
from .config_load import load_gateway_config, serves_page
from .page import PageBeside
from .run import GatewayRunner
from .status import GatewayLock, running_pid
from .supervision import STANDBY
from .systemd import stop_command

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "hermes_cli.main", "gateway", "run"]
CLEAN_MARK = ".clean_shutdown"
START_SECONDS = 20.0
STATUS_SECONDS = 15.0
RESTART_SECONDS = 120.0
COLLECTIONS = (10_000, 20, 20)
"""When garbage is collected: a turn makes thousands of objects and hardly a cycle, so Python's own
(700, 10, 10) spends a twelfth of a busy gateway's time on it."""


def run_gateway(home: Path) -> int:
    """Serve until a signal comes; returns the exit code.

    A restart does not return: the process executes itself again, under the same process id.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until it can be heeded it must not kill
    raise_descriptor_limit()
    lock = GatewayLock(home)
    lock.acquire()
    try:
        return asyncio.run(_serve(home, lock))
    finally:
        lock.release()


async def _serve(home: Path, lock: GatewayLock) -> int:
    from agent.abandoned_work import end_abandoned_work
    from agent.build import check_tool_choice
    from hermes_state import AsyncSessionDB, at_hand

    settings = load_config(home)
    setup_logging(home, settings.logging, gateway=True)
    for notice in settings.notices():
        log.warning("%s", notice)
    config = load_gateway_config(settings)
    for platform, platform_config in config.platforms.items():
        if platform_config.enabled:
            check_tool_choice(settings, platform.value)
    store = await asyncio.to_thread(open_store, home)  # a server may be slow to answer
    await at_hand(store, store.settle_at_startup)
    await at_hand(store, end_abandoned_work, home, store)
    db = AsyncSessionDB(store)
    runner = GatewayRunner(config, settings, db, home)
    page = PageBeside(home)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(name, runner.ending.set)
    loop.add_signal_handler(signal.SIGUSR1, runner.restart.begin)
    (home / CLEAN_MARK).unlink(missing_ok=True)
    try:
        await runner.start()
        log.info("The gateway runs with %s", ", ".join(runner.supervisor.states) or "no platform")
        for line in _started(runner.supervisor.states):
            print(line, file=sys.stderr, flush=True)
        if serves_page(settings):
            runner.spawn(page.keep())
        runner.spawn(_report(partial(runner._update_runtime_status, "running"), STATUS_SECONDS))
        runner.spawn(exempt_loaded(lambda: runner.conversations.finished > 0))
        await runner.ending.wait()
        if runner.restart.wanted:
            restart.note(home, config)
    finally:
        await asyncio.gather(runner.stop(), page.stop())
        await db.close()
    (home / CLEAN_MARK).touch(mode=0o600)
    if runner.restart.wanted:
        lock.release()
        _execute_again(home)
    return 0


def _started(states: dict[str, str]) -> list[str]:
    """What somebody who started it in a terminal is told; everything else is in the log."""
    if not states:
        return ["The gateway runs with no platform. Connect one with: hermes gateway setup"]
    lines = [f"The gateway runs with {', '.join(states)}; Ctrl-C ends it."]
    return lines + [
        f"{name} is {'on ' if state.startswith(STANDBY) else 'not connected: '}{state}"
        for name, state in states.items()
        if state not in ("connecting", "connected")
    ]


def _execute_again(home: Path) -> NoReturn:
    """Become a new gateway. From within the loop: no thread that hangs can hold it up."""
    log.info("The gateway executes itself again")
    atexit._run_exitfuncs()  # what other processes are left would pass for ours after it
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.execve(sys.executable, COMMAND, {**os.environ, "HERMES_HOME": str(home)})


async def exempt_loaded(has_worked: Callable[[], bool], seconds: float = STATUS_SECONDS) -> None:
    """Keep what is loaded out of further collections of garbage, now and after the first turn,
    which loads the rest: walking all of it holds the event loop for 50 ms and more."""
    gc.collect()  # what is garbage now would be kept too
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    while not has_worked():
        await asyncio.sleep(seconds)
    gc.freeze()


async def _report(update: Callable[[], None], seconds: float) -> None:
    while True:
        update()
        await asyncio.sleep(seconds)


def start_gateway(home: Path) -> int:
    """Start a gateway in the background; returns its process id once it has the lock."""
    running = running_pid(home)
    if running is not None:
        raise status.GatewayRunningError(running)
    logs = home / "logs"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(logs / "gateway.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            env={**os.environ, "HERMES_HOME": str(home)},
        )
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        state = status.read_runtime_status(home)
        if state.get("pid") == process.pid and state.get("state") == "running":
            return process.pid
        if process.poll() is not None:
            raise RuntimeError(f"The gateway ended at once. See {logs / 'gateway.out'}.")
        time.sleep(0.05)
    raise RuntimeError(f"The gateway is not up after {START_SECONDS:.0f} s. See {logs}.")


def stop_gateway(home: Path, seconds: float = 40.0) -> bool:
    """Ask the running gateway to end, and wait for it; False if none runs.

    RuntimeError if systemd keeps it running: it would only be started again.
    """
    pid = running_pid(home)
    if pid is None:
        return False
    command = stop_command(pid)
    if command is not None:
        raise RuntimeError(
            f"The gateway (process {pid}) is kept running by systemd, which would start it again."
            f" Stop it with: {command}"
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if running_pid(home) is None:
            return True
        time.sleep(0.05)
    raise RuntimeError(
        f"The gateway (process {pid}) has not ended after {seconds:.0f} s."
        f" Look at its log, or end it with: kill -9 {pid}"
    )


def restart_gateway(home: Path, seconds: float = RESTART_SECONDS) -> int:
    """Let the running gateway restart itself, or start one; returns its process id."""
    refused = restart.refusal(home)
    if refused is not None:
        raise RuntimeError(refused)  # rather than end one that works
    pid = running_pid(home)
    if pid is None:
        return start_gateway(home)
    before = status.read_runtime_status(home).get("started_at")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + seconds
    last_held = time.monotonic()
    while time.monotonic() < deadline:
        state = status.read_runtime_status(home)
        if running_pid(home) is not None:
            last_held = time.monotonic()
            if state.get("state") == "running" and state.get("started_at") != before:
                return int(state["pid"])
        elif time.monotonic() - last_held > START_SECONDS:
            break
        time.sleep(0.05)
    raise RuntimeError(
        f"The gateway (process {pid}) has not come back. See {home / 'logs' / 'gateway.log'}."
    )
