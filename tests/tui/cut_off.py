"""Servers that are killed in the middle of a turn, and what their stores hold then."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from serving import SECONDS, Child, event, require_valid, store

from hermes_state import SessionDB
from tui_gateway.client import Client


async def kill_during(home: Path, text: str, moment: Callable[[Client], Awaitable[Any]]) -> str:
    """Ask something, kill the server at that moment; returns the conversation's session."""
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        await client.submit(opened["session_id"], text)
        await moment(client)
        await kill(child, client)
    return opened["session_key"]


async def kill(child: Child, client: Client) -> None:
    """Kill a server with no chance to say goodbye."""
    child.send_signal(signal.SIGKILL)
    await event(client, "connection.lost")
    await child.process.wait()


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.02)
    assert holds(), what


def answers(home: Path, key: str) -> list[str]:
    """What the model has said to the person; the history is in order."""
    with store(home) as db:
        messages = db.get_messages(key)
        require_valid(messages)
        return [
            one["content"]
            for one in messages
            if one["role"] == "assistant" and not one["tool_calls"]
        ]


def age_turns(home: Path) -> None:
    """Let every running turn look as if its process had not been heard of for long."""
    with store(home) as db:
        db._execute_write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))


def leave_turn(
    db: SessionDB, session_id: str, text: str, *, source: str = "tui", **fields: Any
) -> None:
    """A turn of a process that is gone, with its question stored and nothing more."""
    message = {"role": "user", "content": text}
    db.begin_turn(session_id, message, source=source, facts={}, leased=True, **fields)

    def orphan(conn: Any) -> None:
        conn.execute("UPDATE turns SET owner = 'gone', heartbeat_at = 0")

    db._execute_write(orphan)
