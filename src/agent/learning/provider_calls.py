"""Calls of memory providers and context engines: foreign code, kept off the turn's thread.

Each provider has one daemon thread on which its calls run one after the other, also when several
conversations share it: a provider need not be safe for threads, and what was said first reaches it
first. No caller waits beyond its time limit; while a call hangs, further calls are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from hermes_base.plugins.calls import copied
from hermes_base.plugins.output import diverted
from tools.base import Tool, ToolContext, ToolError

log = logging.getLogger(__name__)

LONGEST_QUEUE = 200


class _Call(NamedTuple):
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: Future[Any]


class Line:
    """The queue of calls to one provider."""

    def __init__(self, provider: Any, kind: str) -> None:
        self.provider = provider
        self.name = provider_name(provider)
        self.kind = kind
        """What the log calls it."""
        self.users = 0
        """How many conversations use it."""
        self._calls: queue.Queue[_Call | None] = queue.Queue(LONGEST_QUEUE)
        self._current: Future[Any] | None = None
        self._hanging: Future[Any] | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, method: str, *args: Any, **kwargs: Any) -> Future[Any] | None:
        """Queue a call; None if the provider does not have it, hangs or lags far behind."""
        if not callable(getattr(self.provider, method, None)):
            return None
        if self._hanging is not None and not self._hanging.done():
            log.debug("%s hangs; %s was not called", self.name, method)
            return None
        self._hanging = None
        future: Future[Any] = Future()
        call = _Call(method, tuple(map(copied, args)), copied(kwargs), future)
        try:
            self._calls.put_nowait(call)
            self._start()
        except queue.Full:
            log.warning("The %s %s lags behind; %s was left out", self.kind, self.name, method)
            return None
        except RuntimeError as error:  # no thread to be had, or the program is ending
            log.warning("The %s %s cannot be called: %s", self.kind, self.name, error)
            return None
        return future

    def give_up(self, future: Future[Any], method: str) -> None:
        """Nobody waits for this call any more."""
        future.cancel()  # one that has not begun is not made
        self._hanging = self._current
        log.warning("The %s %s took too long for %s; going on", self.kind, self.name, method)

    def end(self) -> None:
        """End the thread after the queued calls."""
        try:
            self._calls.put_nowait(None)
        except queue.Full:
            log.warning("The %s %s still hangs; its queued calls are dropped", self.kind, self.name)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name=f"hermes-plugin-{self.name}", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:
                    self._thread = None
                    raise

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if not call.future.set_running_or_notify_cancel():
                continue
            self._current = call.future
            try:
                with diverted(f"The {self.kind} {self.name}"):
                    outcome = getattr(self.provider, call.method)(*call.args, **call.kwargs)
                call.future.set_result(outcome)
            except BaseException as error:  # SystemExit, too, ends only the call
                log.error(
                    "%s of the %s %s failed", call.method, self.kind, self.name, exc_info=error
                )
                call.future.set_exception(error)
            self._current = None


_lines: dict[int, Line] = {}
"""By the provider's identity; a line keeps its provider alive, so that an id is not reused."""
_lines_lock = threading.Lock()


def join_line(provider: Any, kind: str = "memory provider") -> Line:
    """The line of a provider, shared by all who use it."""
    with _lines_lock:
        line = _lines.get(id(provider)) or _lines.setdefault(id(provider), Line(provider, kind))
        line.users += 1
        return line


def leave_line(line: Line) -> Future[Any] | None:
    """Stop using a provider; the last to leave shuts it down and gets the call that does it."""
    with _lines_lock:
        line.users -= 1
        if line.users > 0:
            return None
        _lines.pop(id(line.provider), None)
    future = line.call("shutdown")
    line.end()
    return future


def provider_name(provider: Any) -> str:
    """What a provider calls itself; `name` may be a method or a plain attribute."""
    try:
        name = provider.name
        return str(name() if callable(name) else name)
    except Exception as error:  # noqa: BLE001 - a provider that cannot say its name still has one
        log.warning("A memory provider does not say its name: %s", error)
        return type(provider).__name__


Asked = list[tuple[Line, Future[Any] | None]]


def ask_each(lines: Iterable[Line], method: str, *args: Any, **kwargs: Any) -> Asked:
    """Queue the same call for each provider."""
    return [(line, line.call(method, *args, **kwargs)) for line in lines]


def answers(asked: Asked, method: str, seconds: float) -> list[tuple[Line, Any]]:
    """What the providers returned within so many seconds in all."""
    deadline = time.monotonic() + seconds
    answered = []
    for line, future in asked:
        if future is None:
            continue
        done, _ = wait([future], max(0.0, deadline - time.monotonic()))
        if not done or future.cancelled():
            line.give_up(future, method)
        elif future.exception() is None:  # otherwise it was logged where it was raised
            answered.append((line, future.result()))
    return answered


async def answers_soon(asked: Asked, method: str, seconds: float) -> list[tuple[Line, Any]]:
    """The same for coroutines: the event loop goes on meanwhile."""
    waiting = [asyncio.wrap_future(future) for _, future in asked if future is not None]
    try:
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)
    finally:
        for task in waiting:
            if task.done() and not task.cancelled():
                task.exception()  # seen: it was logged where it was raised
            else:
                task.cancel()
    return answers(asked, method, 0.0)


# Tools

ToolCall = Callable[[str, dict[str, Any], ToolContext], str]
"""Runs a provider's tool by its name."""


def tool_of(schema: Any, call: ToolCall, toolset: str) -> Tool | None:
    """A provider's tool; its schema may be bare or in the form models are given."""
    given = schema.get("function", schema) if isinstance(schema, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    parameters = given.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        return None
    name = given["name"]

    def run(context: ToolContext, **arguments: Any) -> str:
        return call(name, arguments, context)

    return Tool(
        name=name,
        description=str(given.get("description") or ""),
        run=run,
        parameters=parameters,
        effect="effectful",
        toolset=toolset,
    )


def tool_answer(asked: Asked, name: str, seconds: float) -> str:
    """What a provider's tool returned; ToolError if it failed or took too long."""
    for _, result in answers(asked, name, seconds):
        return str(result)
    for _, future in asked:
        if future is not None and future.done() and not future.cancelled():
            raise ToolError(f"{name} failed: {future.exception()!r}")
    whose = ", ".join(line.name for line, _ in asked) or "Whoever has this tool"
    raise ToolError(f"{whose} does not answer. Go on without {name}.")
