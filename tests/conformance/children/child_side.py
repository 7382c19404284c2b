"""The child's side of every implementation here: it dies where it is told to, and it is scripted.

`HERMES_TEST_KILL_AT` (see `adapter.Death`) is read by these test programs alone. Writes are counted
by wrapping `SessionDB._execute_write`, effects by the tools themselves; the process sends SIGKILL
to itself, so nothing after the point is run: no handler, no `finally`, no flush.
"""

from __future__ import annotations

import dataclasses
import http.client
import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, Step, calls, say
from gateway.platforms.base import Capabilities
from hermes_state import SessionDB
from hermes_state.dialect import Connection
from tools.base import ToolContext, tool
from tools.registry import Registry

from ... import postgres
from ..adapter import SERVER_DEATHS
from ..counter import COUNTER_VARIABLE
from ..script import CALLS, answer, name_of, result

R = TypeVar("R")


class Reaper:
    """Knows where this process is to die, and counts."""

    def __init__(self, home: Path) -> None:
        place, _, name = os.environ.get("HERMES_TEST_KILL_AT", "").partition("=")
        self._where, _, number = place.partition(":")
        self._number = int(number or 0)
        self._name = name or "SIGKILL"
        self._counts = {"write": itertools.count(1), "tool": itertools.count(1)}
        self._home = home
        self._reached = home / "reached"
        if self._where:
            self._reached.unlink(missing_ok=True)

    def count(self, what: str) -> int:
        """The number of this write or effect."""
        return next(self._counts[what])

    def at(self, where: str, number: int) -> None:
        """Die, if it is here."""
        if where == self._where and number == self._number:
            self._reached.touch()
            if self._name in SERVER_DEATHS:
                self._where = ""  # once
                postgres.die(self._name, self._home / "state.db")
            else:
                os.kill(os.getpid(), signal.Signals[self._name])


def tell(**frame: Any) -> None:
    """A line to whoever has started this process."""
    os.write(1, json.dumps(frame).encode() + b"\n")


def count_writes(home: Path) -> Reaper:
    """From now on each write to a store is a point to die at, and leaves a dot in `writes`."""
    reaper = Reaper(home)
    write = SessionDB._execute_write
    dots = os.open(home / "writes", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def counted(self: SessionDB, work: Callable[[Connection], R], *about: Any, **how: Any) -> R:
        number = reaper.count("write")
        os.write(dots, b".")
        reaper.at("before", number)

        def counted_work(connection: Connection) -> R:
            done = work(connection)
            reaper.at("during", number)
            return done

        done = write(self, counted_work, *about, **how)
        reaper.at("after", number)
        return done

    SessionDB._execute_write = counted  # type: ignore[method-assign]
    return reaper


def scripted_tools(home: Path, reaper: Reaper) -> Registry:
    """Tools that append to a file and post to a counter, and one that does nothing."""
    counter = urlsplit(os.environ[COUNTER_VARIABLE])

    def leave_mark(context: ToolContext, mark: str) -> str:
        number = reaper.count("tool")
        reaper.at("tool-before", number)
        with (home / "effects").open("a") as file:
            file.write(mark + "\n")
        reaper.at("tool-after", number)
        return result("leave_mark", mark)

    def count_up(context: ToolContext, mark: str) -> str:
        number = reaper.count("tool")
        reaper.at("tool-before", number)
        connection = http.client.HTTPConnection(counter.netloc)
        connection.request("POST", f"/{home.name}/{mark}")
        connection.getresponse().read()
        connection.close()
        reaper.at("tool-after", number)
        return result("count_up", mark)

    def echo(context: ToolContext, mark: str) -> str:
        return result("echo", mark)

    return Registry(
        [
            tool(toolset="test", effect="effectful")(leave_mark),
            tool(toolset="test", effect="effectful")(count_up),
            tool(toolset="test", effect="none")(echo),
        ]
    )


def plain(capabilities: Capabilities) -> Capabilities:
    """What a platform can do that shows texts and nothing else."""
    return dataclasses.replace(
        capabilities, edits=False, buttons=False, typing=False, reactions=False, repeatable=False
    )


def _name(request: ModelRequest) -> tuple[int, str]:
    """Where the last of the user's messages is, and the prompt's name in it."""
    messages = request.messages
    asked = max((n for n, one in enumerate(messages) if one["role"] == "user"), default=0)
    return asked, name_of(str(messages[asked]["content"])) if messages else ""


def next_step(request: ModelRequest) -> Step:
    """The step that a conversation is at."""
    asked, name = _name(request)
    # By the steps' own numbers: a compression may have left out the first ones of a turn.
    seen = [call["id"] for one in request.messages[asked:] for call in one.get("tool_calls") or ()]
    done = max((int(one.split("-")[-2]) + 1 for one in seen), default=0)
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
