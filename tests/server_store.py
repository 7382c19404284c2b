"""Stores on a real PostgreSQL for tests that open theirs by a path, in every process of a test.

While `HERMES_TEST_STORE` is `postgres`, a store that is opened at a path is a database of the run's
server (`tests.postgres`), here, in forked processes and in programs that a test starts: those find
`on_server/sitecustomize.py` on their path. No other process may look for a file.

A call of the store on an event loop would hold the loop up for as long as the server takes, so it
fails here, and so does its test: see `watch_loops`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from . import postgres

STORE = "HERMES_TEST_STORE"
"""`postgres`: stores are databases of a server. Anything else: files."""

HELD = "HERMES_TEST_HELD"
"""A file that gets a line for each call of the store on an event loop."""

NAMES = (STORE, HELD, postgres.TAG, postgres.ADDRESS)
"""The variables by which a test's processes find its stores; whoever empties the environment keeps
them."""

FOLDER = Path(__file__).parent / "on_server"
PROJECT = Path(__file__).parents[1]
_SOURCE = str(PROJECT / "src") + os.sep
_STATE = _SOURCE + "hermes_state" + os.sep
_SESSIONS = _SOURCE + "tui_gateway" + os.sep
_TESTS = str(PROJECT / "tests") + os.sep


_are_on_server = False
"""Whether a test runs here all of whose stores are to be on the server."""


def is_wanted() -> bool:
    """Whether stores are to be databases of a server."""
    return os.environ.get(STORE) == "postgres"


def environment() -> dict[str, str]:
    """What a forked process must know of the test that it is of."""
    told = {name: os.environ[name] for name in NAMES if name in os.environ}
    return {STORE: os.environ.get(STORE, ""), **told}


def install() -> None:
    """From now on, a store that is opened here is where the environment wants it to be."""
    # Not as an attribute of the package: it may be being imported at this moment.
    module: Any = importlib.import_module("hermes_state.db")
    open_store = module.open_store
    if getattr(open_store, "is_wrapped", False):
        return

    def open_wanted(
        path: Path, busy_timeout: float, server: str | None = None, connections: int | None = None
    ) -> Any:
        if not is_wanted():
            assert not _are_on_server, f"{STORE} is lost: {path} would be a file"
            return open_store(path, busy_timeout, server, connections)
        watch_loops()
        if server is None:
            server = postgres.database_for(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600)  # a sign that something was said in this home; nobody reads it
        return open_store(path, busy_timeout, server, connections)

    open_wanted.is_wrapped = True  # type: ignore[attr-defined]
    module.open_store = open_wanted


def watch_loops() -> None:
    """From now on, a call of a server's store on an event loop fails and is noted.

    What a test itself asks of the store, between the steps of what it tests, holds up nobody.
    """
    from hermes_state.server import ServerDatabase

    for name in ("write", "read", "outside_transaction"):
        method: Callable[..., Any] = getattr(ServerDatabase, name)
        if not getattr(method, "is_watched", False):
            setattr(ServerDatabase, name, _watched(method))


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if asyncio._get_running_loop() is not None and not self._closed:
            caller = _caller()
            if caller is not None:
                with Path(os.environ.get(HELD) or os.devnull).open("a") as file:
                    file.write(caller + "\n")
                raise AssertionError(f"the store was called on an event loop: {caller}")
        return method(self, *args, **kwargs)

    call.is_watched = True  # type: ignore[attr-defined]
    return call


def _caller() -> str | None:
    """Where in the source the store is called; None if it may be.

    That is where a test itself calls it, or a function that does; and in the session server, each
    session of which has a thread and a loop of its own, in which nobody else waits.
    """
    frame: FrameType | None = sys._getframe(2)
    found: list[str] = []
    is_tests = True
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name.startswith(_SESSIONS):
            return None
        if name.startswith(_SOURCE) and not name.startswith(_STATE):
            found.append(f"{name.removeprefix(_SOURCE)}:{frame.f_lineno}")
            is_tests = is_tests and not code.co_flags & inspect.CO_COROUTINE
        elif name.startswith(_TESTS) and name != __file__ and is_tests:
            return None
        elif name.endswith("asyncio/events.py"):
            is_tests = False
        frame = frame.f_back
    return " < ".join(found[:4]) or None


@contextlib.contextmanager
def stores_on_server(patch: Any) -> Iterator[None]:
    """Have a test's stores on the server, those of its child processes too."""
    global _are_on_server
    postgres.address_of("postgres")
    tag = os.urandom(4).hex()
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    with tempfile.NamedTemporaryFile("r", prefix="hermes-held-") as held:
        patch.setenv(STORE, "postgres")
        patch.setenv(postgres.TAG, tag)
        patch.setenv(HELD, held.name)
        patch.setenv("PYTHONPATH", path)
        install()
        _are_on_server = True
        try:
            yield
        finally:
            _are_on_server = False
        lines = held.read()
    postgres.give_back(tag)
    assert not lines, f"the store was called on an event loop:\n{lines}"
