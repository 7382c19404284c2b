"""A gateway as a replica: `hermes gateway run` with tools that leave marks, a clock that may be
wrong, and a machine that is its own."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import agent.build
from gateway import balance
from gateway.process import run_gateway
from hermes_base import process
from hermes_state import formats
from tools.base import ToolContext, tool
from tools.registry import Registry

from ..script import result

EFFECTS = "CONFORMANCE_EFFECTS"
"""Where tools act: the address of an `EffectServer`, with the name of this replica."""
SKEW = "CONFORMANCE_SKEW"
"""Seconds by which this replica's clock is wrong."""
MACHINE = "CONFORMANCE_MACHINE"
"""The machine that it takes itself to be on; what runs on another cannot be seen to have ended."""
NEW = "CONFORMANCE_NEW"
"""What the release of this replica writes that those before it do not understand, by the names of
`hermes_state.formats.NEEDED`, as a JSON list; a release like the others without it."""
BALANCE = "CONFORMANCE_BALANCE"
"""Seconds after which it may let go of a platform that another should hold; minutes without it."""
_DIE_WITH_PARENT = 1


def marking_tools(url: str) -> Registry:
    """Tools that leave marks, and one that does nothing."""
    place = urlsplit(url)

    def act(mark: str) -> str:
        connection = http.client.HTTPConnection(place.netloc, timeout=60)
        connection.request("POST", f"{place.path}/{mark}", headers={"Content-Length": "0"})
        connection.getresponse().read()
        connection.close()
        return result("count_up", mark)

    def leave_mark(context: ToolContext, mark: str) -> str:
        return act(mark)

    def count_up(context: ToolContext, mark: str) -> str:
        return act(mark)

    def echo(context: ToolContext, mark: str) -> str:
        return result("echo", mark)

    return Registry(
        [
            tool(toolset="test", effect="effectful")(leave_mark),
            tool(toolset="test", effect="effectful")(count_up),
            tool(toolset="test", effect="none")(echo),
        ]
    )


def shift_clock(seconds: float) -> None:
    """Let this process's clock be wrong; how time passes is the same."""
    real = time.time
    time.time = lambda: real() + seconds


def main(home: Path) -> None:
    """The gateway of this home."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    machine = os.environ.get(MACHINE)
    if machine:
        process.machine = lambda: (machine, f"boot-{machine}", "")  # type: ignore[assignment]
    shift_clock(float(os.environ.get(SKEW) or 0))
    if new := os.environ.get(NEW):
        formats.UNDERSTOOD = formats.FIRST + 1
        formats.NEEDED = dict.fromkeys(json.loads(new), formats.UNDERSTOOD)
    if seconds := os.environ.get(BALANCE):
        balance.BALANCE_SECONDS = float(seconds)
    url = os.environ[EFFECTS]
    agent.build.usable_tools = lambda *_: marking_tools(url)
    run_gateway(home)
