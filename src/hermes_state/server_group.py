"""Writes of several threads in one transaction of a server, so that they pay for one commit.

A few threads lead: each runs its own write and then, in the same transaction, what others have
queued meanwhile, as far as the locks of those writes are free. Whoever is queued gets its own
result once the commit is on disk. If anything fails in such a group, all of it is rolled back and
every write is run again alone, in its own thread: its error is its own.

A lock that another process holds keeps nobody else waiting: a group only tries locks, and a write
that was not taken along for a while goes on by itself.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .dialect import Connection
from .locks import ROW, ConversationId, Scope
from .server_connection import ServerConnection

T = TypeVar("T")

LEADERS = 4
"""How many transactions a process has under way at once before its writes form groups."""

GROUP = 32
"""How many writes join one transaction at most: it holds their locks until its commit."""

PATIENCE = 0.1
"""Seconds after which a write that nobody took along goes on by itself."""


class State(enum.Enum):
    """What has become of a queued write."""

    WAITING = enum.auto()
    LEADS = enum.auto()
    """It has a place among the leaders, and runs in its own thread."""
    TAKEN = enum.auto()
    DONE = enum.auto()
    ALONE = enum.auto()
    """Its group was rolled back: it is to be run again, by itself."""
    UNKNOWN = enum.auto()
    """Its group's commit was interrupted; `mark` tells the server's answer."""


class Queued(Generic[T]):
    """A write of a thread that waits to be run by it or by another."""

    __slots__ = ("_turn", "mark", "result", "scope", "state", "tell", "work")

    def __init__(self, work: Callable[[Connection], T], scope: str, tell: bool | str) -> None:
        self.work, self.scope, self.tell = work, scope, tell
        self.state = State.WAITING
        self.result: T
        """Set once it is run."""
        self.mark = ("", 0)
        self._turn = threading.Lock()  # the cheapest way to wait for one other thread
        self._turn.acquire()

    def settle(self, state: State, mark: tuple[str, int] = ("", 0)) -> None:
        """Let its thread go on."""
        self.state, self.mark = state, mark
        self._turn.release()

    def wait(self, seconds: float = -1) -> bool:
        """Wait until it is settled; False if it was not in this time."""
        return self._turn.acquire(timeout=seconds)


class WriteQueue:
    """The writes of a process that wait while others are under way."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Queued[Any]] = deque()
        self._leading = 0

    def enter(self, write: Queued[Any]) -> State:
        """Wait until the write may run, or was run by others; whoever leads must `leave`."""
        with self._guard:
            if self._leading < LEADERS:
                self._leading += 1
                write.state = State.LEADS
                return State.LEADS
            self._waiting.append(write)
        try:
            while not write.wait(PATIENCE):
                if self._step_out(write):
                    return State.LEADS
        except BaseException:  # Ctrl-C: nothing of this write goes on behind its caller's back
            self._give_up(write)
            raise
        return write.state

    def _step_out(self, write: Queued[Any]) -> bool:
        """Take a place of its own for a write that is still waiting."""
        with self._guard:
            if write.state is not State.WAITING:
                return False
            self._waiting.remove(write)
            self._leading += 1
            write.state = State.LEADS
            return True

    def _give_up(self, write: Queued[Any]) -> None:
        with self._guard:
            if write.state is State.WAITING:
                self._waiting.remove(write)
                return
        if write.state is State.TAKEN:
            write.wait()
        if write.state is State.LEADS:
            self.leave()

    def take(self) -> list[Queued[Any]]:
        """The writes that have waited longest; who takes them settles them or puts them back."""
        if not self._waiting:
            return []
        with self._guard:
            taken = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            for write in taken:
                write.state = State.TAKEN
        return taken

    def put_back(self, writes: Sequence[Queued[Any]]) -> None:
        """Have writes wait again, before all others."""
        with self._guard:
            for write in reversed(writes):
                write.state = State.WAITING
                self._waiting.appendleft(write)

    def leave(self) -> None:
        """Hand the leader's place to the write that has waited longest."""
        with self._guard:
            if self._leading > LEADERS or not self._waiting:
                self._leading -= 1
                return
            write = self._waiting.popleft()
            write.settle(State.LEADS)


def lock_at_once(
    connection: ServerConnection, writes: Sequence[Queued[Any]]
) -> tuple[list[Queued[Any]], list[Queued[Any]]]:
    """Take the locks of writes as far as they are free: those that may run now, and the others.

    The store's lock is shared by whoever asks, so no session can move to another conversation; one
    that is created meanwhile may have got another conversation than was locked, and is looked at
    again with the lock.
    """
    wanted = [write for write in writes if write.scope != ROW]
    if not wanted:
        return list(writes), []
    names = [_conversation(connection, write.scope) for write in wanted]
    tries = ", ".join(
        f"{name}, pg_try_advisory_xact_lock(hashtextextended({name}, 0))" for name in names
    )
    before, after = connection.run_scripts(f"SELECT {tries}; SELECT {', '.join(names)}")
    free = {
        write
        for number, write in enumerate(wanted)
        if before[2 * number + 1] == b"t" and before[2 * number] == after[number]
    }
    locked = [write for write in writes if write.scope == ROW or write in free]
    return locked, [write for write in wanted if write not in free]


def _conversation(connection: ServerConnection, scope: Scope) -> str:
    """An expression for the conversation of a scope."""
    assert scope is not None
    key = connection.quoted(scope)
    if isinstance(scope, ConversationId):
        return f"{key}::text"
    return f"COALESCE((SELECT conversation_id FROM sessions WHERE id = {key}), {key})"
