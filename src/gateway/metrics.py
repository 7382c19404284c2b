"""The gateway in numbers: what `/metrics` and `hermes gateway status --json` show.

Everything is counted while it happens and held in memory: looking costs nothing.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation.service import Conversations

    from .delivery import Delivery

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = (
    ("turns_running", "hermes_turns_running", "gauge", "Turns that run now."),
    ("turns_finished", "hermes_turns_finished_total", "counter", "Turns that have ended."),
    ("turns_failed", "hermes_turns_failed_total", "counter", "Turns that ended with an error."),
    ("waiting", "hermes_messages_waiting", "gauge", "Messages that wait for their turn."),
    ("delivered", "hermes_deliveries_total", "counter", "Texts that platforms have taken."),
    ("undelivered", "hermes_deliveries_failed_total", "counter", "Texts given up on."),
    ("chats", "hermes_chats", "gauge", "Chats that are known."),
    ("agents", "hermes_agents_cached", "gauge", "Agents kept between turns."),
    ("memory_bytes", "hermes_memory_bytes", "gauge", "Memory of the process."),
    ("uptime_seconds", "hermes_uptime_seconds", "gauge", "Seconds since the start."),
)


def gather(
    turns: Conversations,
    delivery: Delivery,
    platforms: Mapping[str, str],
    *,
    waiting: int,
    chats: int,
    agents: int,
    started_at: float,
) -> dict[str, Any]:
    """How the gateway is, by plain names; `platforms` are their states."""
    return {
        "platforms": dict(platforms),
        "turns_running": turns.in_flight,
        "turns_finished": turns.finished,
        "turns_failed": turns.failed,
        "turn_seconds": round(turns.seconds, 6),
        "waiting": waiting,
        "chats": chats,
        "agents": agents,
        "delivered": delivery.delivered,
        "undelivered": delivery.failed,
        "memory_bytes": memory_bytes(),
        "started_at": started_at,
        "uptime_seconds": round(time.time() - started_at, 3),
    }


def prometheus(facts: Mapping[str, Any]) -> str:
    """What `gather` found, as Prometheus reads it."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, metric, kind, what in _PLAIN:
        yield from (f"# HELP {metric} {what}", f"# TYPE {metric} {kind}", f"{metric} {facts[name]}")
    yield "# HELP hermes_turn_seconds Time that turns have taken."
    yield "# TYPE hermes_turn_seconds summary"
    yield f"hermes_turn_seconds_sum {facts['turn_seconds']}"
    yield f"hermes_turn_seconds_count {facts['turns_finished']}"
    yield "# HELP hermes_platform_up Whether a platform is connected."
    yield "# TYPE hermes_platform_up gauge"
    for platform, state in sorted(facts["platforms"].items()):
        yield f'hermes_platform_up{{platform="{platform}"}} {int(state == "connected")}'


def memory_bytes() -> int:
    """What the process holds now; where the system does not say, the most it has held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
