"""The process tool: look after what runs in the background."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Literal

from ..base import Tool, ToolContext, ToolError, tool
from ..terminal.tool import MAX_TIMEOUT, check_approval, unavailable
from ..wall.guardhouse import guardhouse_of
from ..wall.leaving import Needs
from .background import Background, short, table_of

_WAIT_SECONDS = 60.0
_WRITE_SECONDS = 5.0
_LOG_LINES = 200
_SETTLE_SECONDS = 0.2
"""After input, how long an answer may take to be part of the result."""

Action = Literal["list", "poll", "log", "wait", "write", "submit", "close", "kill"]


@tool(toolset="terminal", effect="effectful", check=unavailable)
def process(
    context: ToolContext,
    action: Action,
    session_id: str | None = None,
    data: str | None = None,
    timeout: float | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> str:
    """Look after background processes that terminal(background=true) started.

    list: all of them. poll: state and new output. log: lines of all its output. wait: until it
    ends. write: data to its standard input as it is; submit: data and Enter. close: end of its
    input. kill: end it and everything it started.

    action: what to do
    session_id: which process, e.g. proc_1a2b3c4d; for all actions but list
    data: text for write and submit
    timeout: seconds to wait at most, for wait; 60 by default
    offset: first line for log, counted from 1; without it the last lines are shown
    limit: number of lines for log; 200 by default
    """
    table = table_of(context.workspace)
    if action == "list":
        return "\n".join(map(_line, table.all())) or "No background processes."
    chosen = table.get(session_id)
    if action == "log":
        return _log(chosen, offset, limit or _LOG_LINES)
    if action == "wait":
        _wait(context, chosen, min(timeout or _WAIT_SECONDS, MAX_TIMEOUT))
    elif action in ("write", "submit"):
        _write(context, chosen, data, enter=action == "submit")
    elif action == "close":
        chosen.run.child.close_input()
    elif action == "kill":
        chosen.kill()
    return f"{chosen.id} {chosen.status()}\n{chosen.news()}".rstrip("\n")


def _line(process: Background) -> str:
    pid = process.run.child.pid
    return f"{process.id}  {process.status()}  process id {pid}  {short(process.command)}"


def _log(chosen: Background, offset: int | None, limit: int) -> str:
    if offset is None:
        return chosen.tail(limit) or "[no output]"
    path = chosen.flush()
    first = max(1, offset)
    with path.open(encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in islice(file, first - 1, first - 1 + limit)]
    if not lines:
        return f"[no lines from {first} on]"
    note = f"[lines {first} to {first + len(lines) - 1}; the whole log is {path}]"
    return "\n".join((note, *lines))


def _wait(context: ToolContext, chosen: Background, seconds: float) -> None:
    _until(lambda: chosen.done.wait(0.05) or context.cancelled.is_set(), seconds)


def _write(context: ToolContext, chosen: Background, data: str | None, *, enter: bool) -> None:
    if data is None:
        raise ToolError("write and submit need data: the text to send.")
    if chosen.done.is_set():
        raise ToolError(f"{chosen.id} {chosen.status()}; it reads nothing any more.")
    wall = chosen.run.launch.warden.wall if chosen.run.launch.warden is not None else None
    if context.workspace.mode == "plan" and (wall is None or not wall.is_closed):
        raise ToolError(
            f"{chosen.id} was started before plan mode, and could write what it is told to. Say in "
            "the plan what you would type."
        )
    # A shell or an interpreter may run it, and a line may come in pieces.
    line = chosen.typed + data
    # What runs without a wall although there are walls was allowed to, but not to do just anything.
    if _has_left(context, chosen):
        check_approval(context, line, needs=Needs(no_wall=True))
    else:
        check_approval(context, line)
    chosen.typed = "" if enter else line.rpartition("\n")[2]
    child = chosen.run.child
    text = data + (("\r" if child.is_pty else "\n") if enter else "")
    encoded = text.encode("utf-8", "replace")
    try:
        written = child.write(encoded, _WRITE_SECONDS, context.cancelled.is_set)
    except BrokenPipeError as error:
        raise ToolError(f"{chosen.id} has closed its input; nothing can be written.") from error
    if written < len(encoded):
        raise ToolError(
            f"{chosen.id} took only {written} of {len(encoded)} bytes; it is not reading its input."
        )
    chosen.done.wait(_SETTLE_SECONDS)


def _has_left(context: ToolContext, chosen: Background) -> bool:
    """Whether it runs without a wall although the conversation has walls."""
    launch = chosen.run.launch
    is_here = chosen.is_local and launch.warden is None
    return is_here and guardhouse_of(context.workspace) is not None


def _until(happened: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not happened():
        pass


TOOLS: list[Tool] = [process]
