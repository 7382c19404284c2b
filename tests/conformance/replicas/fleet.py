"""Gateways as replicas: real processes with homes of their own, and one database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from pathlib import Path

from hermes_base.process import see

from ...gateway.bot_api import TOKEN
from ...ports import free_port
from ..children.replica_child import EFFECTS, MACHINE, SKEW
from ..children.replica_zygote import LEASE_VARIABLE
from ..implementations.wire import Zygote
from .proxy import Proxy

PROGRAM = "tests.conformance.children.replica_child"
ZYGOTE = "tests.conformance.children.replica_zygote"
KEY = "conformance-key-0123456789"
UNREACHABLE = "hermes_state.errors.StoreUnavailableError"
"""What a gateway ends with that cannot reach its database when it starts."""
LONGEST_SKEW = 300.0
"""Seconds by which the clock of a replica may be wrong, either way."""


class Replica:
    """One gateway, with its home, its way to the database and its lives."""

    def __init__(self, name: str, home: Path, store: str, proxy: Proxy | None) -> None:
        self.name = name
        self.home = home
        self.store = store
        self._proxy = proxy
        self.port = free_port()
        self.pid: int | None = None
        self.lives = 0
        self.is_stopped = False
        self.is_draining = False

    @property
    def proxy(self) -> Proxy:
        """Its way to the database, where that can be cut."""
        assert self._proxy is not None
        return self._proxy

    def close(self) -> None:
        """Close its way to the database."""
        if self._proxy is not None:
            self._proxy.close()


class Fleet:
    """All of them."""

    def __init__(self, folder: Path, chance: random.Random, lease: float) -> None:
        self._folder = folder
        self._chance = chance
        self.lease = lease
        self.database = "replicas"
        """The name of the database that all of them use."""
        self.replicas: list[Replica] = []
        self._zygote = Zygote(ZYGOTE, **{LEASE_VARIABLE: str(lease)})
        self.ended: list[str] = []
        """What ended by itself, and must not have."""
        self.given_up = 0
        """How often one ended at its start because the database was not to be reached."""

    async def add(
        self, name: str, database: str, telegram: str, model: str, *, cuttable: bool = False
    ) -> Replica:
        """A replica that does not run yet; what it says to the database may be `cuttable`."""
        proxy = Proxy(database) if cuttable else None
        if proxy is not None:
            await proxy.start()
            database = proxy.url
        home = self._folder / name
        home.mkdir()
        config = {
            "model": {
                "default": "scripted", "provider": "custom", "api_key": "k",
                "base_url": f"{model}/{name}/v1", "context_length": 1_000_000,
            },
            "platforms": {
                "telegram": {"token": TOKEN, "base_url": f"{telegram}/{name}", "allow_all": True}
            },
            "auxiliary": {"title_generation": {"enabled": False}},
            "memory": {"enabled": False},
            "display": {"busy_input_mode": "queue"},
            "compression": {"enabled": False},
        }  # fmt: skip
        (home / "config.yaml").write_text(json.dumps(config))
        replica = Replica(name, home, database, proxy)
        self.replicas.append(replica)
        return replica

    def start(self, replica: Replica, effects: str, **further: str) -> None:
        """Let it live, with a clock that is wrong in a new way and `further` variables."""
        assert replica.pid is None
        replica.lives += 1
        environment = {
            "HERMES_HOME": str(replica.home),
            "HERMES_STORE": replica.store,
            "API_SERVER_ENABLED": "true",
            "API_SERVER_KEY": KEY,
            "API_SERVER_PORT": str(replica.port),
            EFFECTS: f"{effects}/{replica.name}",
            SKEW: str(self._chance.uniform(-LONGEST_SKEW, LONGEST_SKEW)),
            MACHINE: f"machine-{replica.name}",
            **further,
        }
        with (
            Path(os.devnull).open("rb") as nothing,
            (replica.home / "output").open("ab") as output,
        ):
            descriptors = [nothing.fileno(), output.fileno(), output.fileno()]
            replica.pid = self._zygote.fork(PROGRAM, replica.home, environment, descriptors)

    def signal(self, replica: Replica, number: signal.Signals) -> None:
        """Send a signal to it, if it lives."""
        if replica.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(replica.pid, number)
            replica.is_stopped = number is signal.SIGSTOP

    def kill(self, replica: Replica) -> None:
        """End it at once."""
        if replica.pid is None:
            return
        self.signal(replica, signal.SIGKILL)
        if self._zygote.wait(replica.pid) != -signal.SIGKILL:
            self._note_end(replica)
        replica.pid, replica.is_stopped = None, False

    def revive(self, effects: str) -> None:
        """Start those again that have ended by themselves, as whatever runs a service does."""
        for replica in self.replicas:
            if replica.pid is not None and not replica.is_draining and not is_alive(replica.pid):
                self._zygote.wait(replica.pid)
                self._note_end(replica)
                replica.pid = None
                self.start(replica, effects)

    def _note_end(self, replica: Replica) -> None:
        said = (replica.home / "output").read_text(errors="replace")[-1000:]
        if UNREACHABLE in said:
            self.given_up += 1
        else:
            self.ended.append(f"{replica.name} ended by itself: {said}")

    async def drain(self, replica: Replica, seconds: float) -> None:
        """Ask it to end, and wait; TimeoutError if it does not."""
        if replica.pid is None:
            return
        replica.is_draining = True
        try:
            self.signal(replica, signal.SIGTERM)
            async with asyncio.timeout(seconds):
                while is_alive(replica.pid):
                    await asyncio.sleep(0.02)
            self._zygote.wait(replica.pid)
            replica.pid = None
        finally:
            replica.is_draining = False

    def ports(self) -> list[int]:
        """Where the API of those that run may be reached."""
        return [replica.port for replica in self.replicas if replica.pid and not replica.is_stopped]

    def close(self) -> None:
        """End all of them."""
        for replica in self.replicas:
            self.kill(replica)
            replica.close()
        self._zygote.close()


def is_alive(pid: int) -> bool:
    """Whether a process has not ended."""
    process = see(pid)
    return process is not None and not process.gone
