"""A gateway that is killed at each point of a message's way, and what people are left with."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

from ..delivery import BROKEN, UNSURE
from .place import Place, until
from .serving import ECHO

POINTS = ("came", "stored", "model", "owed", "sending", "sent")
"""In the order in which a message passes them; see `child.py`."""
NOTICES = {BROKEN, UNSURE}
CHILD = Path(__file__).with_name("child.py")


class KillChecks:
    """With gateways in processes of their own."""

    points: Sequence[str] = POINTS
    """Where one is killed; fewer where time is short."""

    async def start_gateway(self, *arguments: str) -> Any:
        """Start `child.py` with a pipe from its output."""
        return await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), *arguments, env={**os.environ},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def test_killed_at_each_point(self, place: Place, tmp_path: Path) -> None:
        if not place.converses or "killed" in place.lacks:
            return
        home = tmp_path / "home"
        await place.prepare(home)
        points = [point for point in self.points if place.keeps_for_later or point != "came"]
        chats = {}
        for number, point in enumerate(points):
            async with Life(self, place, home, f"{point}:q{number}.") as life:
                chats[f"q{number}."] = await place.person_leaves(f"q{number}.")
                await life.reaches(point)
        with SessionDB(home / "state.db") as db:
            async with Life(self, place, home, "end:"):
                await until(
                    lambda: (
                        is_settled(place, chats) and not db.list_deliveries(("pending", "sending"))
                    )
                )
        problems = find_problems(place, chats, points)
        assert not problems, problems


class Life:
    """One gateway, from its start until it is killed."""

    def __init__(self, starter: KillChecks, place: Place, home: Path, point: str) -> None:
        self._starter, self._place, self._home, self._point = starter, place, home, point

    async def __aenter__(self) -> Life:
        platform = self._place.adapter.platform.value
        section = json.dumps(self._place.section())
        self._process = await self._starter.start_gateway(
            str(self._home), platform, section, self._point
        )
        await self.reaches("start")
        await self._place.is_there(self._home)
        return self

    async def reaches(self, point: str) -> None:
        """Wait until it says that it is somewhere, where it stays."""
        async with asyncio.timeout(60):
            while line := await self._process.stdout.readline():
                if json.loads(line)["at"] == point:
                    return
        raise RuntimeError(f"the gateway has ended before {point}; its error is above")

    async def __aexit__(self, *exc: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._place.is_deserted()


def is_settled(place: Place, chats: Mapping[str, str]) -> bool:
    """Whether every question (with its chat) was answered, or its answer reported as unsure."""
    missing = [question for question in chats if not _times(place, chats, question)]
    notices = sum(text in NOTICES for chat in {*chats.values()} for text in place.shown_in(chat))
    return len(missing) <= notices


def find_problems(place: Place, chats: Mapping[str, str], points: Sequence[str]) -> list[str]:
    """Questions that were not answered exactly once, or reported where that cannot be known."""
    found = []
    for question, point in zip(chats, points, strict=True):
        times = _times(place, chats, question)
        may_be_missing = point in ("sending", "sent") and not place.adapter.capabilities.repeatable
        if times > 1 or (times == 0 and not may_be_missing):
            texts = place.shown_in(chats[question])
            found.append(f"killed at {point}: {question} was answered {times} times: {texts}")
    return found


def _times(place: Place, chats: Mapping[str, str], question: str) -> int:
    return place.shown_in(chats[question]).count(f"{ECHO}{question}")
