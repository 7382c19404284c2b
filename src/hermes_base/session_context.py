"""Which session the running code belongs to, in coroutines, threads and child processes.

Every fact is a context variable under its environment name, so two turns in one process never see
each other's values. A value that was set wins over the environment even when it is empty: a turn
without a user must not inherit one from the process it runs in. Child processes get the values
through their environment, threads through `ContextThread` or `bind_context`.

This module imports nothing of the project, so that every layer may use it.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_FIELDS = {
    "platform": "HERMES_SESSION_PLATFORM",
    "source": "HERMES_SESSION_SOURCE",
    "chat_id": "HERMES_SESSION_CHAT_ID",
    "chat_name": "HERMES_SESSION_CHAT_NAME",
    "thread_id": "HERMES_SESSION_THREAD_ID",
    "user_id": "HERMES_SESSION_USER_ID",
    "user_name": "HERMES_SESSION_USER_NAME",
    "session_key": "HERMES_SESSION_KEY",
    "session_id": "HERMES_SESSION_ID",
    "message_id": "HERMES_SESSION_MESSAGE_ID",
    "profile": "HERMES_SESSION_PROFILE",
    "async_delivery": "HERMES_SESSION_ASYNC_DELIVERY",
    "ui_session_id": "HERMES_UI_SESSION_ID",
    "cron_deliver_platform": "HERMES_CRON_AUTO_DELIVER_PLATFORM",
    "cron_deliver_chat_id": "HERMES_CRON_AUTO_DELIVER_CHAT_ID",
    "cron_deliver_thread_id": "HERMES_CRON_AUTO_DELIVER_THREAD_ID",
}
"""The keyword of `set_session_vars` for each environment name."""

SESSION_NAMES = tuple(_FIELDS.values())
"""Every name this module knows."""

_VARIABLES: dict[str, contextvars.ContextVar[str]] = {
    name: contextvars.ContextVar(name) for name in SESSION_NAMES
}

SessionTokens = list[contextvars.Token[str]]
"""What `set_session_vars` returns and `reset_session_vars` takes."""


def get_session_env(name: str, default: str = "") -> str:
    """The value of a session name such as "HERMES_SESSION_ID": what this context set, else the
    process environment, else `default`. Any other name is read from the environment."""
    variable = _VARIABLES.get(name)
    value = variable.get(None) if variable is not None else None
    return os.environ.get(name, default) if value is None else value


def set_current_session_id(session_id: str) -> None:
    """Set the session of the current context, e.g. after a compression."""
    _VARIABLES["HERMES_SESSION_ID"].set(session_id)


def set_session_vars(**values: str | bool | None) -> SessionTokens:
    """Set several values by keyword (`platform`, `chat_id`, `session_id`, …) for this context.

    None is stored as empty, True as "1". Undo with `reset_session_vars(tokens)`.
    """
    unknown = values.keys() - _FIELDS.keys()
    if unknown:
        raise TypeError(
            f"unknown session value {sorted(unknown)[0]!r}; known are {', '.join(_FIELDS)}"
        )
    return [_VARIABLES[_FIELDS[key]].set(_as_text(value)) for key, value in values.items()]


def reset_session_vars(tokens: SessionTokens) -> None:
    """Put back what `set_session_vars` replaced; call it in the same context."""
    for token in reversed(tokens):
        token.var.reset(token)


@contextmanager
def session_vars(**values: str | bool | None) -> Iterator[None]:
    """Set values for the length of a `with` block."""
    tokens = set_session_vars(**values)
    try:
        yield
    finally:
        reset_session_vars(tokens)


def session_environ() -> dict[str, str]:
    """The session's values as environment variables, for a child process:
    `subprocess.Popen(…, env={**os.environ, **session_environ()})`."""
    environ: dict[str, str] = {}
    for name, variable in _VARIABLES.items():
        value = variable.get(None)
        if value is None:
            value = os.environ.get(name)
        if value is not None:
            environ[name] = value
    return environ


def bind_context(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, to be called from any thread, running in a copy of the present context.

    Each call gets a copy of its own, so calls may overlap: `pool.submit(bind_context(work), x)`.
    """
    captured = contextvars.copy_context()

    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return captured.copy().run(function, *args, **kwargs)

    return bound


class ContextThread(threading.Thread):
    """A thread that runs in a copy of the context it was started from."""

    _carried: contextvars.Context

    def start(self) -> None:
        """Start the thread, taking the caller's context along."""
        self._carried = contextvars.copy_context()
        super().start()

    def run(self) -> None:
        """Run the target in the carried context."""
        run: Callable[[], Any] = super().run
        self._carried.run(run)


def _as_text(value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    return "1" if value is True else str(value)
