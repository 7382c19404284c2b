"""A chat's conversation is compressed: everything the gateway keeps of it follows at once."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.scripted import Call, Step, calls, say

from .chats import Chats, gateway
from .serving import serving

LONG = "word " * 1500


def kept(chats: Chats, chat_id: str = "1") -> Any:
    """The agent that is kept for a chat."""
    return chats.runner._agent_cache[chats.key(chat_id)][0]


def working() -> Iterator[Step]:
    """Greets, then works through a list in steps that fill the window more than once."""
    todos = [{"id": "1", "content": LONG, "status": "pending"}]
    yield say("hi")
    yield from itertools.repeat(calls([Call("todo", {"todos": todos})]), 6)
    yield say("All done.")
    yield from itertools.repeat(say("ok"))


def handler(home: Path) -> Callable[[], list[dict[str, Any]]]:
    """An event hook that hears of compressions; returns what it was told so far."""
    folder = home / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("name: watch\nevents: ['session:compress']\n")
    (folder / "handler.py").write_text(
        "import json, pathlib\n"
        f"FILE = pathlib.Path({str(home / 'told')!r})\n"
        "def handle(event, context):\n"
        "    with FILE.open('a') as file:\n"
        "        file.write(json.dumps(context) + '\\n')\n"
    )

    def told() -> list[dict[str, Any]]:
        lines = (home / "told").read_text() if (home / "told").exists() else ""
        return [json.loads(line) for line in lines.splitlines()]

    return told


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.01)


async def test_a_chats_agent_tells_everybody_in_the_gateway(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        assert kept(chats).holders.names == [
            "session context", "context engine", "memory providers",
            "chat bindings", "agent cache", "event hooks",
        ]  # fmt: skip


async def test_in_the_middle_of_a_turn_the_chat_is_bound_and_the_handlers_are_told(
    tmp_path: Path,
) -> None:
    told = handler(tmp_path)
    bound: list[tuple[str | None, str]] = []
    async with gateway(tmp_path, working(), context_length=6000) as chats:
        await chats.ask("hello")
        first, agent = chats.session_id(), kept(chats)
        # The session server's place in the list comes last, so this looks at what is done by then.
        agent.holders.add(
            "live session",
            lambda rotation: bound.append(
                (
                    chats.runner.session_store.peek_session_id(chats.key()),
                    chats.runner._agent_cache[chats.key()][3],
                )
            ),
        )
        assert await chats.ask("work") == "All done."
        lineage = chats.db.get_compression_lineage(first)
        assert len(lineage) > 2, "compressed twice at least"
        assert bound == [(new, new) for new in lineage[1:]]
        await until(lambda: len(told()) == len(lineage) - 1)
        assert chats.session_id() == agent.session_id == lineage[-1]
    assert sorted(told(), key=lambda one: one["compression_count"]) == [
        {
            "platform": "local", "user_id": "u1", "session_id": new, "old_session_id": old,
            "in_place": False, "compression_count": number,
        }
        for number, (old, new) in enumerate(itertools.pairwise(lineage), 1)
    ]  # fmt: skip


async def test_the_agent_is_kept_for_the_next_turn(tmp_path: Path) -> None:
    async with gateway(tmp_path, working(), context_length=6000) as chats:
        await chats.ask("hello")
        first, agent = chats.session_id(), kept(chats)
        await chats.ask("work")
        assert chats.session_id() != first
        entry = chats.runner.session_store.entry(chats.key())
        assert entry is not None and entry.origin is not None
        agents = chats.runner.request_parts.agents
        assert agents.kept_agent(chats.key(), entry, entry.origin) is agent
        await chats.ask("again")
        assert kept(chats) is agent


async def test_compress_by_hand_is_followed_in_every_linked_chat(tmp_path: Path) -> None:
    async with gateway(tmp_path, itertools.repeat(say(LONG))) as chats:
        for number in range(6):
            await chats.ask(f"m{number} {LONG}")
        first = chats.session_id()
        await chats.ask("hello", chat_id="2")
        chats.runner.session_store.switch_session(chats.key("2"), first)
        await chats.ask("/compact")
        await until(lambda: chats.session_id() != first)
        assert chats.session_id("2") == chats.session_id() == kept(chats).session_id
        assert chats.runner._agent_cache[chats.key()][3] == chats.session_id()


@pytest.mark.parametrize("broken", ["chat bindings", "agent cache"])
async def test_a_chat_whose_holder_failed_heals_through_the_store(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway(tmp_path, working(), context_length=6000) as chats:
        await chats.ask("hello")
        first = chats.session_id()

        def fail(rotation: object) -> None:
            raise OSError("no room")

        monkeypatch.setitem(kept(chats).holders._holders, broken, fail)
        assert await chats.ask("work") == "All done."
        assert f"The {broken} did not follow" in caplog.text
        assert chats.session_id() == chats.db.get_compression_tip(first) != first
        await chats.ask("again")
        assert chats.session_id() == chats.db.get_compression_tip(first)


async def test_a_stream_of_the_api_names_the_session_that_the_turn_is_in(tmp_path: Path) -> None:
    async with serving(tmp_path, working(), context_length=6000) as served:
        await served.chat("hello", "s1")
        answer = await served.http.post("/api/sessions/s1/chat/stream", json={"message": "work"})
        lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
        names = [json.loads(line[6:])["session_id"] for line in lines]
        (owned,) = [row["id"] for row in served.db.list_sessions_rich(limit=10)]
        lineage = served.db.get_compression_lineage(owned)
        assert len(lineage) > 2, "compressed twice at least"
        shown = [name.rpartition(":")[2] for name in names]
        told = [name for name, _ in itertools.groupby(shown)]
        assert told == [one.rpartition(":")[2] for one in lineage]


async def test_a_run_of_the_api_follows_and_is_asked_for_by_either_id(tmp_path: Path) -> None:
    async with serving(tmp_path, working(), context_length=6000) as served:
        await served.chat("hello", "s1")
        begun = await served.http.post("/v1/runs", json={"input": "work", "session_id": "s1"})
        run = f"/v1/runs/{begun.json()['run_id']}"
        events = (await served.http.get(f"{run}/events")).text
        assert events.count('"session.compressed"') > 1
        ended = (await served.http.get(run)).json()
        assert ended["status"] == "completed"
        assert ended["session_id"] != "s1"
        assert (await served.chat("again", "s1")).status_code == 200
