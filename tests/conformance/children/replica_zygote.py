"""Forks gateways that are replicas of each other, with leases of seconds instead of half a minute.

`python -m tests.conformance.children.replica_zygote FD`, as `zygote.py`. How long a lease lasts
is one constant, from which everything else follows; it is set before anybody has read it.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import threading
from typing import Any

from . import zygote

LEASE_VARIABLE = "CONFORMANCE_LEASE"
PAUSES = (
    "gateway.supervision",
    "gateway.delivery",
    "gateway.platforms.telegram.polling",
    "conversation.patience",
)
"""Where it is said how long to wait before something is tried again."""


def shorten(lease: float) -> None:
    """Let leases, and what waits for them, be short."""
    turns: Any = importlib.import_module("hermes_state.turns")
    turns.LEASE_SECONDS = lease
    connection: Any = importlib.import_module("hermes_state.server_connection")
    connection.IDLE_IN_TRANSACTION_SECONDS = lease / 2
    connection._SETTINGS["connect_timeout"] = 2
    connection._SETTINGS["tcp_user_timeout"] = int(lease * 500)


def shorten_pauses(lease: float) -> None:
    """Try again soon."""
    for name in PAUSES:
        module: Any = importlib.import_module(name)
        module.FIRST_PAUSE, module.LONGEST_PAUSE = lease / 20, lease / 4
    recovery: Any = importlib.import_module("gateway.recovery")
    recovery.LOOK_SECONDS, recovery.PACE_SECONDS = lease / 4, lease / 10


if __name__ == "__main__":
    seconds = float(os.environ[LEASE_VARIABLE])
    shorten(seconds)
    zygote.import_all()
    shorten_pauses(seconds)
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.send(b"{}")
        zygote.serve(channel)
