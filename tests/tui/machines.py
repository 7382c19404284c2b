"""Session servers on machines of their own, which share only a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from scripted_provider import ScriptedProvider
from serving import SECONDS, configure, stdio_client

from hermes_state import SessionDB
from tests import postgres
from tests.state.raw import query, tamper
from tui_gateway.client import Client


class Machines:
    """Two of them, and the database."""

    def __init__(self, runs: Client, watches: Client, db: SessionDB) -> None:
        self.runs = runs
        """Of the machine on which turns run."""
        self.watches = watches
        self.db = db
        # A signal is deleted when it was acted on, or is waited for no more.
        tamper(db, "CREATE TABLE acted (kind TEXT)")
        tamper(db, "CREATE RULE keep AS ON DELETE TO signals DO ALSO INSERT INTO acted"
                   " VALUES (OLD.kind)")  # fmt: skip

    async def acted_on(self, count: int) -> None:
        """Wait until so many signals were acted on."""
        await self.until(lambda: query(self.db, "SELECT COUNT(*) FROM acted")[0][0] >= count)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something."""
        async with asyncio.timeout(SECONDS):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.02)

    def said(self, session_id: str) -> list[str]:
        """What was said in a conversation, but for the prompts that are scripts."""
        messages = self.db.get_messages(session_id)
        texts = [message["content"] for message in messages if message["role"] != "tool"]
        return [text for text in texts if text and not text.startswith("{")]


@contextlib.asynccontextmanager
async def machines(
    folder: Path, provider: ScriptedProvider, **sections: Any
) -> AsyncIterator[Machines]:
    """Two machines."""
    address = postgres.database_for(folder / "state.db")
    homes = [
        configure(folder / name, provider, store=address, **sections)
        for name in ("runs", "watches")
    ]
    with SessionDB(folder / "look" / "state.db", server=address) as db:
        async with stdio_client(homes[0]) as runs, stdio_client(homes[1]) as watches:
            yield Machines(runs, watches, db)
    postgres.forget_database(folder / "state.db")
