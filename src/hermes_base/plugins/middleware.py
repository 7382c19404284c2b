"""Middleware: plugins that change a request, or stand around its execution.

`tool_request` and `llm_request` callbacks return `{"args": {...}}` or `{"request": {...}}`, each
seeing what the one before made of it. `tool_execution` and `llm_execution` callbacks get
`next_call(payload)`, which works once, and return the result: text, or a dict. One that fails or
hangs is skipped: if it had not called `next_call`, the call is made without it; if it had, that
call's result counts. A tool is never run twice.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from .calls import LIMIT, Callback, Outcome, copied, start

SCHEMA_VERSION = "hermes.middleware.v1"

Payload = dict[str, Any]
Call = Callable[[Payload], Any]


class Middleware:
    """The callbacks by kind."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callback]] = {}
        self.limit = LIMIT

    def add(self, kind: str, callback: Callback) -> None:
        """Put a callback behind those of its kind that are there already."""
        self.callbacks[kind] = [*self.callbacks.get(kind, ()), callback]

    def change(
        self, kind: str, key: str, payload: Payload, facts: Payload
    ) -> tuple[Payload, list[Payload]]:
        """The payload as the callbacks of a request kind want it, and who changed it and why."""
        original, trace = payload, []
        for callback in self.callbacks.get(kind, ()):
            given = {
                **facts,
                key: payload,
                f"original_{key}": original,
                "middleware_schema_version": SCHEMA_VERSION,
            }
            returned = callback(given, self.limit)
            if isinstance(returned, dict) and isinstance(returned.get(key), dict):
                payload = copied(returned[key])
                reasons = {name: returned.get(name) for name in ("source", "reason", "name")}
                trace.append({"kind": kind, "plugin": callback.plugin, **reasons})
        return payload, trace

    def execute(self, kind: str, key: str, payload: Payload, facts: Payload, call: Call) -> Any:
        """Make a call through the callbacks of an execution kind, the first one outermost."""
        facts = {**facts, "middleware_schema_version": SCHEMA_VERSION}
        for callback in reversed(self.callbacks.get(kind, ())):
            if not callback.is_off and not callback.is_running_here:
                call = _Layer(callback, key, facts, self.limit, call)
        return call(payload)


class _Layer:
    """One callback around what comes below it."""

    def __init__(
        self, callback: Callback, key: str, facts: Payload, limit: float, below: Call
    ) -> None:
        self._callback = callback
        self._key = key
        self._facts = facts
        self._limit = callback.limit or limit
        self._below = below

    def __call__(self, payload: Payload) -> Any:
        once = _Once(self._below, payload)
        callback = self._callback
        callback.calls += 1
        given = {**copied({**self._facts, self._key: payload}), "next_call": once}
        started = start(lambda: callback.enter(given), f"The plugin {callback.plugin}")
        outcome = started.wait(self._limit)
        while not outcome.finished and not once.close():
            once.ended.wait()  # what lies below takes its own time
            outcome = started.wait(self._limit)
        once.close()
        self._note(outcome)
        if outcome.finished and outcome.error is None and _is_result(outcome.value):
            return outcome.value
        return once.result()

    def _note(self, outcome: Outcome) -> None:
        if outcome.finished and outcome.error is None:
            self._callback.note_success()
        else:
            self._callback.note_failure(outcome, self._limit)


def _is_result(value: Any) -> bool:
    """Whether a callback's answer can stand for a call's result; nothing and nonsense cannot."""
    return isinstance(value, str | dict) and bool(value)


class _Once:
    """`next_call`: makes the call below, once, as long as somebody waits for it."""

    def __init__(self, below: Call, payload: Payload) -> None:
        self._below = below
        self._payload = payload
        # What lies below does not run inside the callback: calls it makes go through it again.
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._state = "waiting"
        self._value: Any = None
        self._error: BaseException | None = None
        self.ended = threading.Event()

    def __call__(self, payload: Any = None, **_: Any) -> Any:
        with self._lock:
            if self._state != "waiting":
                raise RuntimeError("next_call works once, and only while the call is waited for")
            self._state = "running"
        return self._run(payload if isinstance(payload, dict) else self._payload)

    def close(self) -> bool:
        """Refuse further calls; False while the call is being made."""
        with self._lock:
            if self._state == "running":
                return False
            if self._state == "waiting":
                self._state = "closed"
            return True

    def result(self) -> Any:
        """What the call came to; it is made now if nobody did."""
        if self._state == "closed":
            return self._run(self._payload)
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self, payload: Payload) -> Any:
        try:
            self._value = self._context.run(self._below, payload)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._state = "done"
            self.ended.set()
        return self._value
