"""A gateway whose conversation is that of jobs: each prompt is one that is due now."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.jobs.job import JobSettings
from gateway.platforms.local import adapter as local

from ..script import answer
from . import gateway_child
from .child_side import count_writes, tell

CHAT = {"session_key": gateway_child.KEY, "platform": "local", "chat_id": "1", "thread_id": None}


class Jobs(gateway_child.Gateway):
    """A gateway that begins by itself, and one chat that is told."""

    async def ask(self, name: str) -> None:
        """A job is made, is due at once, and answered in the chat."""
        await self.idle()  # what an earlier process has left comes first
        due = int(await self.db.at_hand(self.db.sync.now))
        await self.db.add_job(name, **about_job(name, due))
        tell(accepted=name)
        while answer(name) not in self.local.texts():
            await asyncio.sleep(0.002)
        await self.idle()
        tell(answered=name)

    async def idle(self) -> None:
        """Nothing is due, waits or runs."""
        while await self.is_busy():
            await asyncio.sleep(0.002)
        await super().idle()

    async def is_busy(self) -> bool:
        """Whether a job is due, or an occurrence has not ended."""
        db = self.db.sync
        moment = await self.db.at_hand(db.next_job_at)
        if moment is not None and moment <= await self.db.at_hand(db.now):
            return True
        return bool(await self.db.list_open_runs())

    async def fork(self, at: int, new_id: str) -> None:  # type: ignore[override]
        """Branch behind the first `at` messages."""
        ids = [one["id"] for one in await self.db.get_messages("s")]
        await self.db.branch_session("s", new_id, until_message_id=ids[at - 1])
        tell(done=True)

    async def _is_left(self) -> bool:
        return await self.is_busy() or await super()._is_left()


def about_job(name: str, due: int) -> dict[str, object]:
    """What the store keeps of a job that asks a prompt once, in the conversation `s`."""
    settings = JobSettings(
        prompt=name, where="session", session_id="s", deliver="chat", to=CHAT, usd_per_day=1e6
    )
    return {
        "user_id": None, "name": name, "schedule": f"at {due}", "timezone": "UTC",
        "settings": settings.kept(), "next_due": due, "next_at": due,
    }  # fmt: skip


def main(home: Path) -> None:
    """The gateway of this home."""
    gateway_child.FileAdapter.file = home / "chat"
    local.LocalAdapter = gateway_child.FileAdapter  # type: ignore[misc]
    asyncio.run(gateway_child.serve(Jobs(home, count_writes(home))))
