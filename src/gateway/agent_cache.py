"""Agents kept between turns, so that their prompt prefix, and the provider's cache of it, stay.

An entry is (agent, signature, message count, session id). It is used again while the configuration
is the same and nobody else has written to its session since our last turn. Entries of older shapes
(without count, or without session id) are understood. An entry of another session under the same
key says nothing about this one's count, so it is no reason to throw the agent away.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

_ROW_BYTES = 1_000

PENDING = object()
"""In an agent's place while it is being built."""

Entry = tuple[Any, ...]
Cache = MutableMapping[str, Entry]


def signature(**facts: Any) -> str:
    """What an agent was built from, as one comparable text; secrets go in as hashes only."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_current(entry: Entry, session_id: str, live_count: int | None) -> bool:
    """Whether an entry's view of its session is still the store's."""
    if len(entry) < 3 or entry[0] is PENDING:
        return True
    cached_id = entry[3] if len(entry) > 3 else None
    if cached_id is not None and cached_id != session_id:
        return True
    return entry[2] is None or live_count is None or entry[2] == live_count


def rebaselined(entry: Entry, session_id: str, live_count: int) -> Entry:
    """The entry after a turn of our own; unchanged if it is not about this session."""
    if len(entry) < 3 or entry[0] is PENDING:
        return entry
    if len(entry) > 3 and entry[3] is not None and entry[3] != session_id:
        return entry
    return (*entry[:2], live_count, *entry[3:])


@contextlib.contextmanager
def guarded(lock: Any) -> Iterator[None]:
    """Hold the cache's lock, where it has one."""
    if lock is None:
        yield
        return
    with lock:
        yield


def weight(agent: Any) -> int:
    """Roughly how many bytes an agent keeps in memory: the conversation it holds."""
    messages = getattr(agent, "_session_messages", None) or ()
    return sum(_ROW_BYTES + len(str(one.get("content") or "")) for one in messages)


def oldest_beyond(
    cache: Cache,
    used: MutableMapping[str, float],
    weights: Mapping[str, int],
    *,
    size: int,
    most_bytes: int,
    idle_seconds: float,
) -> list[str]:
    """The keys to let go: idle for too long, and the least recently used beyond the bounds."""
    edge = time.monotonic() - idle_seconds
    by_use = sorted(
        (used.get(key, 0.0), key) for key, one in cache.items() if one[0] is not PENDING
    )
    idle = [key for when, key in by_use if when < edge]
    rest = [key for when, key in by_use if when >= edge]
    surplus = max(0, len(rest) - size)
    total = sum(weights.get(key, 0) for key in rest[surplus:])
    while total > most_bytes and surplus < len(rest) - 1:
        total -= weights.get(rest[surplus], 0)
        surplus += 1
    return idle + rest[:surplus]
