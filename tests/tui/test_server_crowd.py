"""Many sessions at once in one server process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

from scripted_provider import ScriptedProvider, say, script
from serving import Child, configure, store

from tui_gateway.client import Client

SESSIONS = 50


def resident_kb(pid: int) -> int:
    """How much memory a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


async def test_fifty_sessions_stream_at_once(tmp_path: Path) -> None:
    async with ScriptedProvider() as provider:
        home = configure(tmp_path / "home", provider)
        child = Child(home, start_anew=True)  # its memory is measured
        async with Client(child) as client, asyncio.timeout(60):
            first = await client.create()
            await client.submit(first["session_id"], "warm up")
            await client.wait_for("message.complete")
            before = resident_kb(child.process.pid)
            opened = [await client.create() for _ in range(SESSIONS)]
            names = {one["session_id"]: f"s{number}" for number, one in enumerate(opened)}
            for sid, name in names.items():
                prompt = script(name, say(f"{name} ", times=200, pieces=40, gate=name))
                assert await client.submit(sid, prompt) == "streaming"
            await asyncio.gather(*(provider.reached(name) for name in names.values()))
            listed = await client.request("session.active_list")
            assert sum(one["running"] for one in listed["sessions"]) == SESSIONS
            for name in names.values():
                provider.open_gate(name)
            text: defaultdict[str, str] = defaultdict(str)
            seen: defaultdict[str, list[int | None]] = defaultdict(list)
            open_ones = set(names)
            async for event in client.events():
                seen[event.session_id].append(event.seq)
                if event.type == "message.delta":
                    text[event.session_id] += event.payload["text"]
                elif event.type == "message.complete":
                    assert event.payload["text"] == text[event.session_id]
                    open_ones.discard(event.session_id)
                    if not open_ones:
                        break
            for sid, name in names.items():
                assert text[sid] == f"{name} " * 200
                assert seen[sid] == list(range(1, len(seen[sid]) + 1))
            each = (resident_kb(child.process.pid) - before) / SESSIONS
            print(f"{each:.0f} KiB for each session")
            assert each < 2_000
    with store(home) as db:
        assert db.session_count() == SESSIONS + 1
        assert all(db.get_session(one["session_key"])["ended_at"] for one in opened)
