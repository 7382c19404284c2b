"""The server is killed in the middle of turns again and again; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted_provider import ScriptedProvider, call, say, script
from serving import SECONDS, Child, configure, require_valid, store

from hermes_state.turn_log import CUT_OFF
from tui_gateway.client import Client

from .. import seeds

KILLS = seeds.times(20, 100)
CHAINS = 2


class Chain:
    """One conversation, whose server is killed again and again while it is being talked to."""

    def __init__(self, folder: Path, provider: ScriptedProvider, seed: int) -> None:
        self.home = configure(folder, provider, display={"busy_input_mode": "queue"})
        self.effects = folder / "effects"
        self.chance = random.Random(seed)
        self.child = Child(self.home)
        self.turn_began = asyncio.Event()
        self.sent = 0
        self.accepted: list[str] = []

    def prompt(self) -> tuple[str, str]:
        """The next prompt and its name: two tools with an effect, then an answer."""
        self.sent += 1
        name = f"p{self.sent}"
        steps = [
            call("terminal", command=f"echo {name}a >> {self.effects}"),
            call("terminal", command=f"echo {name}b >> {self.effects}"),
            say(f"done with {name}", pieces=4, pause=0.005),
        ]
        return name, script(name, *steps)

    async def run(self, kills: int) -> str:
        """Talk and kill; returns the conversation's session."""
        async with Client(self.child) as client:
            key = await self.begin(client)
            watching = asyncio.create_task(self.watch(client))
            for _ in range(kills):
                self.turn_began.clear()
                sending = [
                    asyncio.create_task(self.send(client))
                    for _ in range(self.chance.choice((1, 1, 2)))
                ]
                if self.chance.random() < 0.85:  # within a turn; else wherever it is
                    async with asyncio.timeout(SECONDS):
                        await self.turn_began.wait()
                await asyncio.sleep(self.chance.uniform(0, 0.15))
                starts = self.child.starts
                self.child.send_signal(self.chance.choice((signal.SIGKILL, signal.SIGTERM)))
                async with asyncio.timeout(SECONDS):
                    await asyncio.gather(*sending)
                    while self.child.starts == starts:
                        await asyncio.sleep(0.005)
            async with asyncio.timeout(2 * SECONDS):
                while (await client.resume(key))["running"]:
                    await asyncio.sleep(0.1)
            watching.cancel()
        return key

    async def begin(self, client: Client) -> str:
        opened = await client.create()
        self.sid = opened["session_id"]
        await self.send(client)
        return opened["session_key"]

    async def watch(self, client: Client) -> None:
        """Follow the session to its new live id after each kill."""
        async for event in client.events():
            assert event.type != "session.gone", event
            if event.type == "session.snapshot":
                self.sid = event.session_id
            elif event.type == "message.start":
                self.turn_began.set()

    async def send(self, client: Client) -> None:
        name, text = self.prompt()
        assert await client.submit(self.sid, text) in ("streaming", "queued", "known")
        self.accepted.append(name)


def require_nothing_lost(chain: Chain, key: str) -> Counter[str]:
    """Look at what the kills left behind; returns how the turns ended."""
    with store(chain.home) as db:
        assert db.session_count() == 1, "a ghost row"
        assert db.list_waiting() == []
        row = db.get_session(key)
        # A session that was ended by SIGTERM is reopened by the next turn, not by looking at it.
        assert row["ended_at"] is not None
        assert row["end_reason"] in ("tui_close", "sigterm")
        messages = db.get_messages(key)
        require_valid(messages)
        asked = [json.loads(one["content"])["name"] for one in messages if one["role"] == "user"]
        assert len(asked) == len(set(asked)), "a prompt is there twice"
        assert set(chain.accepted) == set(asked), "a prompt was lost"
        return check_answers(messages, check_effects(chain))


def check_effects(chain: Chain) -> set[str]:
    """Whatever a tool did, it did once; returns what was done."""
    done = Counter(chain.effects.read_text().split())
    assert set(done.values()) == {1}, "a tool ran twice"
    return set(done)


def check_answers(messages: list[dict[str, Any]], done: set[str]) -> Counter[str]:
    """What is said to be done was done; returns how the turns have ended."""
    ends: Counter[str] = Counter()
    name, unknown = "", set()
    for message in messages:
        if message["role"] == "user":
            name, unknown = json.loads(message["content"])["name"], set()
        elif message["role"] == "tool" and message["effect_disposition"] == "unknown":
            step = message["tool_call_id"].rpartition("_")[2]
            unknown.add(f"{name}{'ab'[int(step)]}")
            ends["outcome unknown"] += 1
        elif message["role"] == "assistant" and not message["tool_calls"]:
            answered = message["content"] == f"done with {name}"
            assert not answered or {f"{name}a", f"{name}b"} <= done | unknown
            given_up = message["content"] == CUT_OFF
            ends["answered" if answered else "given up" if given_up else "interrupted"] += 1
    return ends


@pytest.mark.fuzz
async def test_killed_again_and_again(tmp_path: Path) -> None:
    seed = seeds.seed()
    async with ScriptedProvider() as provider:
        chains = [
            Chain(tmp_path / str(number), provider, seed + number) for number in range(CHAINS)
        ]
        keys = await asyncio.gather(*(chain.run(KILLS // CHAINS) for chain in chains))
    for chain, key in zip(chains, keys, strict=True):
        assert chain.child.starts > KILLS // CHAINS
        ends = require_nothing_lost(chain, key)
        print(f"{chain.child.starts} servers, {len(chain.accepted)} prompts: {ends}")
