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
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .background_work import works_for, works_in

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

    from .config import GatewayConfig, ResetPolicy

log = logging.getLogger(__name__)

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
    contents = [message.get("content") or "" for message in messages]
    texts = (text if isinstance(text, str) else str(text) for text in contents)
    return _ROW_BYTES * len(contents) + sum(map(len, texts))


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
        (used.get(key, 0.0), key) for key, entry in cache.items() if entry[0] is not PENDING
    )
    idle = [key for when, key in by_use if when < edge]
    rest = [key for when, key in by_use if when >= edge]
    surplus = max(0, len(rest) - size)
    total = sum(weights.get(key, 0) for key in rest[surplus:])
    while total > most_bytes and surplus < len(rest) - 1:
        total -= weights.get(rest[surplus], 0)
        surplus += 1
    return idle + rest[:surplus]


def evict(cache: Cache | None, lock: Any, key: str) -> None:
    """Let a chat's agent go, and free what it holds."""
    if cache is None:
        return
    with guarded(lock):
        entry = cache.pop(key, None)
    if entry is not None and entry[0] is not PENDING:
        close_agent(entry[0])


def close_agent(agent: Any) -> None:
    """End what an agent's tools have left running; never raises."""
    close = getattr(agent, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception:
        # The agent is evicted either way; its processes are ended at the next start.
        log.exception("An agent could not be closed")


async def recount(cache: Cache, lock: Any, db: AsyncSessionDB, key: str, session_id: str) -> None:
    """After a turn of our own: what the session has now is what we know."""
    row = await db.get_session(session_id)
    if row is None:
        return
    with guarded(lock):
        entry = cache.get(key)
        if entry is not None:
            cache[key] = rebaselined(entry, session_id, int(row["message_count"] or 0))


class AgentCache:
    """The agents of every chat, with when each was used and how much it holds."""

    def __init__(
        self,
        config: GatewayConfig,
        running: Container[str],
        policy_of: Callable[[str], ResetPolicy],
    ) -> None:
        """`running` has the keys whose turn runs: their agents stay."""
        self._config = config
        self._running = running
        self._policy_of = policy_of
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.lock = threading.Lock()
        self.used: dict[str, float] = {}
        self.weights: dict[str, int] = {}

    def get(self, key: str) -> Entry | None:
        """What is kept for a chat."""
        with self.lock:
            return self.entries.get(key)

    def keep(self, key: str, entry: Entry) -> None:
        """Keep an agent for the next turn; those that nobody used for long make room."""
        self.touch(key)  # or it would be the first to go
        with self.lock:
            self.entries[key] = entry
            self.entries.move_to_end(key)
        if len(self.entries) > self._config.cache_size:
            self.sweep()

    def touch(self, key: str) -> None:
        """A chat's agent is in use."""
        self.used[key] = time.monotonic()

    def follow(self, key: str, agent: Any, session_id: str) -> None:
        """An agent has moved to another session; its messages are counted after the turn."""
        with self.lock:
            cached = self.entries.get(key)
            if cached is not None and cached[0] is agent and len(cached) > 3:
                self.entries[key] = (agent, cached[1], None, session_id)

    def evict(self, key: str) -> None:
        """Let a chat's agent go, and free what it holds."""
        evict(self.entries, self.lock, key)

    def sweep(self) -> int:
        """Let go of agents that nobody used for long, and of the oldest if there are too many."""
        config = self._config
        with self.lock:
            keys = oldest_beyond(
                self.entries,
                self.used,
                self.weights,
                size=config.cache_size,
                most_bytes=config.cache_bytes,
                idle_seconds=config.cache_idle_seconds,
            )
        keys = [key for key in keys if key not in self._running and not self.works_for(key)]
        for key in keys:
            self.evict(key)
            self.used.pop(key, None)
            self.weights.pop(key, None)
        return len(keys)

    def note_weight(self, key: str, agent: Any) -> None:
        """After a turn: how much the agent holds now; the oldest go if all hold too much."""
        self.weights[key] = weight(agent)
        if sum(self.weights.values()) > self._config.cache_bytes:
            self.sweep()

    def works_for(self, key: str) -> bool:
        """Whether something still runs in the background of a chat's agent."""
        return works_for(self.entries.get(key), partial(self._policy_of, key))

    def works_in(self, session_id: str) -> bool:
        """Whether something still runs in the background of a session."""
        return works_in(session_id, self.entries, self._policy_of)
