"""The page's server: a session server whose clients are browsers, until a signal ends it.

One runs for a home. Where it listens is in `web.json` of the home, so that a second `hermes web`
finds it. Turns run in its threads as in any session server; what other processes do is followed
through the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agent.home import hermes_home
from hermes_base.files import write_private
from hermes_base.process import is_gone, this_process

PORT = 8643
LOOPBACK = "127.0.0.1"
FILE = "web.json"
SETTLE_SECONDS = 0.5
"""After so long, abandoned processes of an earlier run are ended, and its turns taken over."""
SHUTDOWN_SECONDS = 8.0
CLOSE_SECONDS = 2.0


class CannotServeError(Exception):
    """The page cannot be served; the message says why and what to do."""


class Place(NamedTuple):
    """Where the page listens, and under which names."""

    host: str = LOOPBACK
    port: int = PORT
    hosts: tuple[str, ...] = ()
    """Names, beyond this machine's own, that a browser may call it by."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in (LOOPBACK, "localhost", "::1")


def place_of(settings: dict[str, Any]) -> Place:
    """The place that `platforms.web` of the configuration names."""
    hosts = settings.get("hosts") or ()
    names = hosts.split() if isinstance(hosts, str) else [str(name) for name in hosts]
    return Place(
        str(settings.get("host") or LOOPBACK), int(settings.get("port") or PORT), tuple(names)
    )


def running_at(home: Path) -> str | None:
    """The address of the page's server that runs for a home; None if none does."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads((home / FILE).read_text(encoding="utf-8"))
        if not is_gone(known["process"]):
            return str(known["url"])
    return None


def serve(place: Place, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `on_ready` is told the address. Raises CannotServeError."""
    from tui_gateway import entry

    entry.start_logging()
    with _session_server():
        asyncio.run(_serve(place, on_ready))


@contextlib.contextmanager
def _session_server() -> Iterator[None]:
    """What every session server does beside answering."""
    from tui_gateway import other_processes, server
    from tui_gateway.reaper import Reaper

    watcher, reaper = other_processes.Watcher(server.hub()), Reaper(server.hub())

    def settle() -> None:
        server.reap_orphans()
        watcher.run()

    settling = threading.Timer(SETTLE_SECONDS, settle)
    settling.daemon = True
    settling.start()
    reaper.start()
    try:
        yield
    finally:
        settling.cancel()
        server.serve_no_more()
        watcher.stop()
        reaper.stop()
        _exit_in_any_case()
        server.shut_down("exit", SHUTDOWN_SECONDS)


def _exit_in_any_case() -> None:
    timer = threading.Timer(SHUTDOWN_SECONDS + CLOSE_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()


async def _serve(place: Place, on_ready: Callable[[str], None]) -> None:
    from agent.descriptors import raise_descriptor_limit
    from gateway.platforms.http_server import HttpServer
    from tui_gateway import server
    from tui_gateway.transport import MAX_LINE

    from .app import WebApp
    from .assets import Assets
    from .gate import Gate

    raise_descriptor_limit()
    db = await asyncio.to_thread(server.get_db)
    gate = Gate(place.hosts)
    http = HttpServer(
        WebApp(Assets(), gate, db),
        place.host,
        place.port,
        what="The web page",
        advice="Choose another with --port, or set platforms.web.port.",
        ws="websockets-sansio",
        ws_max_size=MAX_LINE,
        ws_per_message_deflate=not place.is_local,  # within one machine it costs more than it saves
    )
    try:
        await http.start()
    except OSError as error:
        raise CannotServeError(str(error)) from error
    gate.port = http.port
    url = f"http://{'[::1]' if place.host == '::1' else LOOPBACK}:{http.port}"
    file = hermes_home() / FILE
    write_private(file, json.dumps({"url": url, "process": this_process()}), durable=False)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ending.set)
    on_ready(url)
    try:
        await ending.wait()
    finally:
        file.unlink(missing_ok=True)
        await http.stop(CLOSE_SECONDS)
