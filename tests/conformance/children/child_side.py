"""The child's side of every implementation here: it dies where it is told to, and it is scripted.

`HERMES_TEST_KILL_AT` (see `adapter.Death`) is read by these test programs alone. Writes are counted
by wrapping `SessionDB._execute_write`, effects by the tool itself; the process sends SIGKILL to
itself, so nothing after the point is run: no handler, no `finally`, no flush.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, Step, calls, say
from hermes_state import SessionDB
from hermes_state.connection import Connection
from tools.base import ToolContext, tool
from tools.registry import Registry

from ..script import CALLS, answer, result

R = TypeVar("R")


class Reaper:
    """Knows where this process is to die, and counts."""

    def __init__(self) -> None:
        self._where, _, number = os.environ.get("HERMES_TEST_KILL_AT", "").partition(":")
        self._number = int(number) if number.isdecimal() else 0
        self._counts = {"write": itertools.count(1), "tool": itertools.count(1)}

    def count(self, what: str) -> int:
        """The number of this write or effect."""
        return next(self._counts[what])

    def at(self, where: str, number: int) -> None:
        """Die, if it is here."""
        if where == self._where and number == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


REAPER = Reaper()


def count_writes(home: Path) -> None:
    """From now on each write to a store is a point to die at, and leaves a dot in `writes`."""
    write = SessionDB._execute_write
    dots = os.open(home / "writes", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def counted(self: SessionDB, work: Callable[[Connection], R]) -> R:
        number = REAPER.count("write")
        os.write(dots, b".")
        REAPER.at("before", number)

        def counted_work(connection: Connection) -> R:
            done = work(connection)
            REAPER.at("during", number)
            return done

        done = write(self, counted_work)
        REAPER.at("after", number)
        return done

    SessionDB._execute_write = counted  # type: ignore[method-assign]


def scripted_tools(home: Path) -> Registry:
    """A tool that appends to a file, and one that does nothing."""

    def leave_mark(context: ToolContext, mark: str) -> str:
        number = REAPER.count("tool")
        REAPER.at("tool-before", number)
        with (home / "effects").open("a") as file:
            file.write(mark + "\n")
        REAPER.at("tool-after", number)
        return result("leave_mark", mark)

    def echo(context: ToolContext, mark: str) -> str:
        return result("echo", mark)

    return Registry(
        [
            tool(toolset="test", effect="effectful")(leave_mark),
            tool(toolset="test", effect="none")(echo),
        ]
    )


def _name(request: ModelRequest) -> tuple[int, str]:
    """Where the last of the user's messages is, and its first word, which is the prompt's name."""
    messages = request.messages
    asked = max((n for n, one in enumerate(messages) if one["role"] == "user"), default=0)
    return asked, str(messages[asked]["content"]).split()[0] if messages else ""


def next_step(request: ModelRequest) -> Step:
    """The step that a conversation is at."""
    asked, name = _name(request)
    done = sum(one["role"] == "assistant" for one in request.messages[asked:])
    if not request.tools or done >= len(CALLS):
        return say(answer(name))
    return calls(
        Call(tool, {"mark": name + argument}, f"{name}-{done}-{number}")
        for number, (tool, argument) in enumerate(CALLS[done])
    )


def scripted_model(asked: Callable[[str], object] = lambda name: None) -> ScriptedModel:
    """A model that plays the script; `asked` is told each time what the user's last word is."""

    def step(request: ModelRequest) -> Step:
        asked(_name(request)[1])
        return next_step(request)

    return ScriptedModel(itertools.repeat(step), record=False)
