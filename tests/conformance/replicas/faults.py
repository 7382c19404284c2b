"""What is done to replicas and their database, drawn from a seed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

from ... import postgres
from .fleet import Fleet, Replica
from .history import History

DRAIN_SECONDS = 60.0
WEIGHTS = {
    "kill": 6,  # SIGKILL
    "stop": 3,  # SIGSTOP beyond the lease, then SIGCONT
    "pause": 1,  # SIGSTOP for less
    "cut": 2,  # no way to the database: connections are reset and refused
    "hold": 2,  # a way that swallows everything beyond the lease
    "delay": 1,  # a slow way
    "drain": 1,  # SIGTERM, as in an upgrade
    "backend": 2,  # the database ends every session
    "crash": 1,  # a session's process is killed, and the database recovers
    "postmaster": 1,  # the database is killed as by a power cut
    "restart": 1,  # the database is stopped and started
    "clock": 1,  # the database's clock jumps, as in a fail-over to a server with another
}
"""How often each kind of fault is drawn."""
ON_DATABASE = ("backend", "crash", "postmaster", "restart", "clock")
LONGEST_JUMP = 300.0
"""Seconds by which the clock of the database may jump, either way."""
AT_POLLER = 0.6
"""How many of the faults hit whoever polls the platform."""


class Faults:
    """Draws faults and makes them, several at once."""

    def __init__(
        self,
        fleet: Fleet,
        history: History,
        chance: random.Random,
        server: postgres.Server,
        start: Callable[[Replica], None],
    ) -> None:
        """`start` lets a replica live again."""
        self._fleet = fleet
        self._history = history
        self._chance = chance
        self._server = server
        self._start = start
        self._busy: set[str] = set()
        """Replicas, or the database, that something is being done to."""
        self._running: set[asyncio.Task[None]] = set()
        self._database = asyncio.Lock()
        self.problems: list[str] = []
        self.down = (0.0, 1.5)
        """For how many leases a replica that was killed is not started again."""

    @property
    def counts(self) -> dict[str, int]:
        """How many faults of each kind there were."""
        return dict(Counter(fault.kind for fault in self._history.faults))

    async def make(self, count: int, kinds: tuple[str, ...] = tuple(WEIGHTS)) -> None:
        """Make so many, at intervals that let some overlap; returns when all are over."""
        for _ in range(count):
            self._begin(self._chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0])
            await asyncio.sleep(self._chance.uniform(0.2, 1.2) * self._fleet.lease)
            while len(self._busy) >= len(self._fleet.replicas):
                await asyncio.sleep(0.05)  # somebody must be there to take over
        await self.over()

    async def every(self, seconds: float, during: float, kind: str) -> None:
        """One of a kind at a time, at fixed intervals, for so many seconds."""
        until = asyncio.get_running_loop().time() + during
        while asyncio.get_running_loop().time() < until:
            self._begin(kind)
            await asyncio.sleep(seconds)
        await self.over()

    async def over(self) -> None:
        """Wait until nothing is broken any more."""
        while self._running:
            await asyncio.wait(self._running)

    def _begin(self, kind: str) -> None:
        task = asyncio.create_task(self._make(kind))
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.problems.append(f"a fault could not be made: {task.exception()!r}")

    async def _make(self, kind: str) -> None:
        if kind in ON_DATABASE:
            async with self._database:  # two at once would start it twice, or not at all
                with self._alone(""), self._history.fault(kind):
                    await self._on_database(kind)
            return
        free = [one for one in self._fleet.replicas if one.name not in self._busy]
        if not free:
            return
        replica = self._choose(free)
        make: Callable[[Replica], Awaitable[None]] = getattr(self, f"_{kind}")
        with self._alone(replica.name), self._history.fault(kind, replica.name):
            await make(replica)

    def _choose(self, free: list[Replica]) -> Replica:
        if self._history.polls and self._chance.random() < AT_POLLER:
            poller = self._history.polls[-1].replica
            for replica in free:
                if replica.name == poller:
                    return replica
        return self._chance.choice(free)

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        self._busy.add(name)
        try:
            yield
        finally:
            self._busy.discard(name)

    def _leases(self, least: float, most: float) -> float:
        return self._fleet.lease * self._chance.uniform(least, most)

    async def _kill(self, replica: Replica) -> None:
        self._fleet.kill(replica)
        await asyncio.sleep(self._leases(*self.down))
        self._start(replica)

    async def _drain(self, replica: Replica) -> None:
        await self._fleet.drain(replica, DRAIN_SECONDS)
        self._start(replica)

    async def _stop(self, replica: Replica) -> None:
        await self._sleep(replica, self._leases(1.2, 2.2))

    async def _pause(self, replica: Replica) -> None:
        await self._sleep(replica, self._leases(0.1, 0.7))

    async def _sleep(self, replica: Replica, seconds: float) -> None:
        self._fleet.signal(replica, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._fleet.signal(replica, signal.SIGCONT)

    async def _cut(self, replica: Replica) -> None:
        replica.proxy.cut()
        await asyncio.sleep(self._leases(0.1, 2.0))
        replica.proxy.heal(drop=True)

    async def _hold(self, replica: Replica) -> None:
        replica.proxy.hold()
        await asyncio.sleep(self._leases(0.3, 2.2))
        replica.proxy.heal(drop=self._chance.random() < 0.5)

    async def _delay(self, replica: Replica) -> None:
        replica.proxy.delay = self._chance.uniform(0.02, 0.2)
        await asyncio.sleep(self._leases(0.5, 1.5))
        replica.proxy.heal(drop=False)

    async def _on_database(self, kind: str) -> None:
        await asyncio.to_thread(getattr(self, f"_{kind}_now"))
        if kind == "clock":
            # For so long after its last beat a gateway may think that it has its leases.
            await asyncio.sleep(self._leases(0.8, 0.8))

    def _clock_now(self) -> None:
        import psycopg

        jump = self._chance.uniform(-LONGEST_JUMP, LONGEST_JUMP)
        with contextlib.closing(
            psycopg.connect(self._server.url(self._fleet.database), autocommit=True)
        ) as own:
            for table in ("replicas", "platform_leases", "turns"):
                own.execute(f"UPDATE {table} SET heartbeat_at = heartbeat_at + %s", (jump,))

    def _backend_now(self) -> None:
        import psycopg

        with contextlib.closing(
            psycopg.connect(self._server.url("postgres"), autocommit=True)
        ) as own:
            own.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def _crash_now(self) -> None:
        import psycopg

        with contextlib.closing(
            psycopg.connect(self._server.url("postgres"), autocommit=True)
        ) as own:
            row = own.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1"
            ).fetchone()
        if row is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(row[0], signal.SIGKILL)
        self._server.wait_until_ready()

    def _postmaster_now(self) -> None:
        self._server.kill()
        self._server.restart()

    def _restart_now(self) -> None:
        self._server.end()
        self._server.restart()
