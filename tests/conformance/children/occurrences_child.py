"""A gateway that runs jobs, whose clock is a file in its home that the suite sets."""

from __future__ import annotations

import asyncio
import itertools
import mmap
import struct
import time
from pathlib import Path

import agent.build
from agent.errors import AuthenticationError
from agent.model import ModelRequest
from agent.scripted import Call, ScriptedModel, Step, calls, fail, say
from gateway.platforms.local import adapter as local
from tools.base import ToolContext, tool
from tools.registry import Registry

from ..script import name_of
from . import gateway_child
from .child_side import Reaper, count_writes, tell
from .jobs_child import Jobs

CLOCK = "clock"
"""The file: by how many seconds the clock is ahead, as a double."""
FAILING, SILENT = "failing", "silent"
"""The jobs whose runs fail, and those that have nothing to say."""


def follow_clock(home: Path) -> None:
    """From now on the time is as the file has it, also while this process runs."""
    with (home / CLOCK).open("rb") as file:
        ahead = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real = time.time
    time.time = lambda: real() + float(struct.unpack("d", ahead[:8])[0])


def next_step(request: ModelRequest) -> Step:
    """One effect for each occurrence, then a word about it."""
    messages = request.messages
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    name = name_of(str(messages[asked]["content"]))
    if name.startswith(FAILING):
        return fail(AuthenticationError("no key"))
    if name.startswith(SILENT):
        return say("[SILENT]")
    if len(messages) > asked + 1:
        return say(f"did {name}")
    return calls([Call("leave_mark", {"mark": f"{name}-{asked}"}, f"{name}-{asked}")])


def marking_tools(home: Path, reaper: Reaper) -> Registry:
    """A tool that leaves a mark of its conversation and the place in it."""

    def leave_mark(context: ToolContext, mark: str) -> str:
        number = reaper.count("tool")
        reaper.at("tool-before", number)
        with (home / "effects").open("a") as file:
            file.write(f"{context.session_id}:{mark}\n")
        reaper.at("tool-after", number)
        return "marked"

    return Registry([tool(toolset="test", effect="effectful")(leave_mark)])


class Occurrences(Jobs):
    """Runs what is due."""

    def __init__(self, home: Path, reaper: Reaper) -> None:
        super().__init__(home, reaper)
        agent.build.usable_tools = lambda *_: marking_tools(home, reaper)
        self.runner._model = ScriptedModel(itertools.repeat(next_step), record=False)

    async def settle(self) -> None:
        """Until nothing is due, runs, or is to be sent."""
        while await self.is_busy() or await self.db.list_deliveries(("pending", "sending")):
            await asyncio.sleep(0.005)
        tell(done=True)


def main(home: Path) -> None:
    """The gateway of this home."""
    follow_clock(home)
    gateway_child.FileAdapter.file = home / "chat"
    local.LocalAdapter = gateway_child.FileAdapter  # type: ignore[misc]
    asyncio.run(gateway_child.serve(Occurrences(home, count_writes(home))))
