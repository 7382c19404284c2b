"""Follows one Telegram message through the files of a tree, and prints where it went as JSON.

    python -m bench.ways_child TREE HOME

Run by `bench.ways`, with `TREE` and its `src` on the import path. Whatever runs in an idle gateway
(looks every few seconds, heartbeats) is followed first, and not counted afterwards; the platform's
polling is, since a message comes through it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

IDLE_SECONDS = 4.5
"""Longer than the slowest look of an idle gateway that a message's way may be taken for."""

KEY = "agent:main:telegram:dm:42"
"""The chat of the scripted Bot API."""

Root = tuple[str, str]
"""Where a task or a thread begins: a file and a function."""


class Trace:
    """The files that were entered, and from which file."""

    def __init__(self, src: Path) -> None:
        self._src = f"{src}/"
        self._names: dict[str, str | None] = {}
        self._idle: set[Root] = set()
        self.is_idle = self.is_on = False
        self.files: set[str] = set()
        self.hops: set[tuple[str, str]] = set()

    def file_of(self, frame: FrameType) -> str | None:
        """The file below `src` that a frame is in; None for others, and while one is imported."""
        code = frame.f_code
        if code.co_name == "<module>":
            return None
        if code.co_filename not in self._names:
            is_ours = code.co_filename.startswith(self._src)
            self._names[code.co_filename] = code.co_filename[len(self._src) :] if is_ours else None
        return self._names[code.co_filename]

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Called by the interpreter with every call, and when a coroutine goes on."""
        if event != "call" or not (self.is_on or self.is_idle):
            return
        here = self.file_of(frame)
        if here is None:
            return
        caller, root = None, frame
        above = frame.f_back
        while above is not None:
            if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(
                self._src
            ):
                return  # something is imported
            if (name := self.file_of(above)) is not None:
                caller, root = caller or name, above
            above = above.f_back
        begun = (self.file_of(root) or "", root.f_code.co_qualname)
        if self.is_idle:
            if "/platforms/" not in begun[0]:
                self._idle.add(begun)
        elif begun not in self._idle:
            self.files.add(here)
            if caller is not None and caller != here:
                self.hops.add((caller, here))

    def take(self) -> dict[str, Any]:
        """What was followed since the last time."""
        told = {"files": sorted(self.files), "hops": sorted(self.hops)}
        self.files, self.hops = set(), set()
        return told


async def follow(trace: Trace, home: Path) -> dict[str, Any]:
    """The ways of a chat's first message and of its second, each until its answer is sent and
    the chat is idle."""
    bot_api = importlib.import_module("tests.gateway.bot_api")
    chats = importlib.import_module("tests.gateway.telegram_chats")
    ways = {}
    async with bot_api.BotApi() as api, chats.telegram_gateway(home, api) as gateway:
        trace.is_idle = True
        await asyncio.sleep(IDLE_SECONDS)
        trace.is_idle = False
        for number, name in enumerate(("first", "next"), 1):
            trace.is_on = True
            await api.say(f"message {number}")
            await api.wait_for(number)
            while gateway.runner._running_agents or gateway.runner.turns.is_busy(KEY):
                await asyncio.sleep(0.01)
            trace.is_on = False
            ways[name] = trace.take()
    return ways


def main() -> None:
    """Follow the messages."""
    tree, home = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    trace = Trace(tree / "src")
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    ways = asyncio.run(follow(trace, home))
    sys.setprofile(None)
    print(json.dumps(ways))


if __name__ == "__main__":
    main()
