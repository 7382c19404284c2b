"""What a chat platform costs an idle gateway: its memory with one platform connected, beside the
same gateway with none.

Each is connected to the server that its tests use: real ones for Matrix, XMPP, e-mail and IRC, as
far as this machine has them, ours for the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from .gateway_server import Gateway, running
from .lab import Lab, Measurement, run_all, zero_delay_model
from .measure import Finding, progress
from .rows import Row

ROUNDS, QUICK_ROUNDS = 3, 1
MOST_MB = 15.0
CONNECT_SECONDS = 60.0
QUIET_SECONDS, LONGEST_SECONDS = 1.0, 10.0
"""Memory counts once it has not grown for so long; what comes later is not waited for."""
_NOT_THEIRS = "it has other platforms, and loads them all"

Section = dict[str, Any]
Service = Callable[[Path], AbstractContextManager[Section]]
"""Something to connect to, in a folder of its own; gives the section of the platform."""


class AbsentError(Exception):
    """A server is not on this machine; says what to install."""


def memory(lab: Lab) -> list[Finding]:
    """How much more a gateway holds that is connected to a platform and idle."""
    grown: dict[str, list[float]] = {name: [] for name in SERVICES}
    absent: dict[str, str] = {}
    with zero_delay_model() as model, ExitStack() as stack:
        sections: dict[str, Section] = {}
        for name, service in SERVICES.items():
            folder = lab.folder / f"service-{name}"
            folder.mkdir()
            try:
                sections[name] = stack.enter_context(service(folder))
            except (ImportError, AbsentError) as error:
                absent[name] = str(error)
        for number in range(QUICK_ROUNDS if lab.quick else ROUNDS):
            progress(f"gateways with one platform each, round {number + 1}")
            alone = _held(lab, model, {})
            for name, section in sections.items():
                grown[name].append(_held(lab, model, {name: section}) - alone)
    return [_finding(name, samples, absent.get(name, "")) for name, samples in grown.items()]


def _finding(name: str, samples: list[float], absent: str) -> Finding:
    what = f"platforms: memory of an idle gateway for {name}"
    if not samples:
        return Finding(what, f"not measured: {absent}")
    middle = sorted(samples)[len(samples) // 2]
    return Finding(
        what,
        f"{middle:.1f} MB more",
        goal=f"under {MOST_MB:.0f} MB",
        met=middle < MOST_MB,
        details=samples,
        row=Row(f"platforms.{name}", what, "MB", {"ours": samples}, absent=_NOT_THEIRS),
    )


def _held(lab: Lab, model: str, sections: dict[str, Section]) -> float:
    """The megabytes of a gateway that has connected these platforms, and nothing to do."""
    chosen = {name: {"enabled": True, **section} for name, section in sections.items()}
    more = f"platforms: {json.dumps(chosen)}\n" if chosen else ""
    with running(lab, "ours", model, more=more) as gateway:
        if chosen:
            _await_connected(gateway, list(chosen))
        return _settled(gateway) * 1024**2 / 1e6


def _await_connected(gateway: Gateway, names: list[str]) -> None:
    status = gateway.home / "gateway" / "status.json"
    deadline = time.monotonic() + CONNECT_SECONDS
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):  # it is just being written
            states = json.loads(status.read_text()).get("platforms") or {}
        if all(states.get(name) == "connected" for name in names):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{', '.join(names)} is not connected: {states}")


def _settled(gateway: Gateway) -> float:
    """The memory once it has stopped growing."""
    most, since = 0.0, time.monotonic()
    deadline = since + LONGEST_SECONDS
    while time.monotonic() < min(since + QUIET_SECONDS, deadline):
        held = gateway.memory()
        if held > most + 0.2:
            most, since = held, time.monotonic()
        time.sleep(0.05)
    return gateway.memory()


# What is connected to


class _Loop:
    """A loop in a thread, in which servers of the tests run beside what is measured."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def _served(make: Callable[[Path], AsyncGenerator[Section, None]]) -> Service:
    """A service from a generator that gives the section while its server runs."""

    @contextlib.contextmanager
    def service(folder: Path) -> Iterator[Section]:
        loop, serving = _Loop(), make(folder)
        try:
            yield loop.run(anext(serving))
        finally:
            loop.run(serving.aclose())
            loop.stop()

    return service


async def _telegram(folder: Path) -> AsyncGenerator[Section, None]:
    from tests.gateway.bot_api import TOKEN, BotApi

    async with BotApi() as api:
        yield {"token": TOKEN, "base_url": api.url}


async def _discord(folder: Path) -> AsyncGenerator[Section, None]:
    from tests.gateway.discord_api import TOKEN, DiscordApi

    async with DiscordApi() as api:
        yield {"token": TOKEN, "base_url": api.url}


async def _slack(folder: Path) -> AsyncGenerator[Section, None]:
    from tests.gateway.slack_api import SlackApi
    from tests.gateway.slack_chats import section
    from tests.gateway.slack_world import BOT_TOKEN

    async with SlackApi() as api:
        yield {"token": BOT_TOKEN, **section(api)}


async def _signal(folder: Path) -> AsyncGenerator[Section, None]:
    from tests.gateway.signal_chats import section
    from tests.gateway.signal_daemon import SignalDaemon

    async with SignalDaemon(folder) as daemon:
        yield section(daemon)


async def _email(folder: Path) -> AsyncGenerator[Section, None]:
    from tests.gateway.mail_chats import section
    from tests.gateway.mail_server import Dovecot, Post

    with _started(Dovecot) as server:
        async with Post(server.new_mailbox()) as post:
            yield section(post)


@contextlib.contextmanager
def _irc(folder: Path) -> Iterator[Section]:
    from tests.gateway.irc_network import Ngircd

    with _started(lambda: Ngircd(folder)) as server:
        yield {"server": f"127.0.0.1:{server.port}", "tls": False, "nick": "hermes"}


@contextlib.contextmanager
def _xmpp(folder: Path) -> Iterator[Section]:
    from tests.gateway.xmpp_server import Prosody

    with _started(lambda: Prosody(folder)) as server:
        yield server.section(server.add_account("hermes"))


@contextlib.contextmanager
def _matrix(folder: Path) -> Iterator[Section]:
    from tests.conftest import MODEL_CACHE
    from tests.gateway.synapse import NotInstalledError, Synapse, install

    try:
        python = install(MODEL_CACHE)
    except NotInstalledError as error:
        raise AbsentError(str(error)) from error
    with _started(lambda: Synapse(python, folder)) as server:
        bot = server.register("hermes")
        yield {"homeserver": server.url, "user_id": bot.user_id, "password": bot.password}


@contextlib.contextmanager
def _started(make: Callable[[], Any]) -> Iterator[Any]:
    """A server that is started here and stopped; AbsentError if it is not installed."""
    from _pytest.outcomes import Skipped

    try:
        server = make()
    except Skipped as error:  # as its tests say it
        raise AbsentError(str(error)) from error
    try:
        server.start()
        yield server
    finally:
        server.stop()


SERVICES: dict[str, Service] = {
    "telegram": _served(_telegram),
    "discord": _served(_discord),
    "slack": _served(_slack),
    "signal": _served(_signal),
    "irc": _irc,
    "email": _served(_email),
    "xmpp": _xmpp,
    "matrix": _matrix,
}

MEASUREMENTS: dict[str, Measurement] = {"memory": memory}


def run(parts: Iterable[str] = ()) -> list[Finding]:
    """Measure the given parts, or all, and print what was found."""
    return run_all("platforms", MEASUREMENTS, parts)
