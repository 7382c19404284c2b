"""Commands of chats: who may use them under which name, and the last answer again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.scripted import say
from gateway.config import Platform, PlatformConfig

from .chats import Chats, echo, gateway


@pytest.mark.parametrize(
    "line", ["/restart", "/restart@bot", "/RESTART now", "/Restart@bot now", "/reload-mcp"]
)
async def test_no_spelling_is_a_way_around_a_level(tmp_path: Path, line: str) -> None:
    async with gateway(tmp_path / "home") as chats:
        assert "is for administrators" in await chats.ask(line)


@pytest.mark.parametrize("line", ["/new", "/reset", "/new@bot", "/Reset"])
async def test_every_name_of_new_begins_anew(tmp_path: Path, line: str) -> None:
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("hello")
        before = chats.session_id()
        assert "New session" in await chats.ask(line)
        assert chats.session_id() != before


async def test_a_chat_is_not_told_where_the_home_is(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("hello")
        for line in ("/status", "/model --global x"):
            told = await chats.ask(line)
            assert ("Session:" if line == "/status" else "/model takes") in told
            assert str(tmp_path) not in told


async def test_the_last_answer_again(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        assert "no answer" in await chats.ask("/last")
        await chats.ask("hello")
        assert await chats.ask("/last") == "re: hello"


@pytest.mark.parametrize("line", ["/yolo", "/yolo on", "/YOLO@bot on"])
async def test_only_administrators_do_without_being_asked(tmp_path: Path, line: str) -> None:
    async with gateway(tmp_path / "home", allow_all=False) as chats:
        platforms = chats.runner.config.platforms
        platforms[Platform.LOCAL] = PlatformConfig(
            enabled=True, allowed_users=("u1",), admins=("boss",)
        )
        code = chats.db.offer_pairing("local", "paired", "P")
        assert code is not None
        chats.db.approve_pairing(code)
        for person in ("u1", "paired"):
            told = await chats.ask(line, chat_id=person, user_id=person)
            assert "for administrators" in told
            assert ".admins in config.yaml" in told
            assert chats.db.get_wall_settings(session_of(chats, person))["mode"] == ""
        told = await chats.ask(line, chat_id="boss", user_id="boss")
        assert "without asking" in told
        assert chats.db.get_wall_settings(session_of(chats, "boss"))["mode"] == "full"


def session_of(chats: Chats, person: str) -> str:
    """The session that a person's chat is in; nothing if it has none."""
    return chats.runner.session_store.peek_session_id(chats.key(person)) or ""


def effort(chats: Chats) -> Any:
    """How hard the model was asked to think last."""
    return chats.model.requests[-1].reasoning_effort


async def test_what_is_set_before_the_first_message_holds_until_the_conversation_ends(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("/reasoning high")
        await chats.ask("hello")
        assert effort(chats) == "high"
        chats.runner._evict_cached_agent(chats.key())  # an idle agent makes room
        await chats.ask("again")
        assert effort(chats) == "high"
        await chats.ask("/new")
        await chats.ask("hello")
        assert effort(chats) is None
        assert "high" not in await chats.ask("/reasoning")


async def test_another_gateway_knows_what_was_set_in_a_chat(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("/reasoning high")
        await chats.ask("/busy steer")
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("hello")
        assert effort(chats) == "high"
        assert chats.runner.turns._busy_mode(chats.key()) == "steer"
        first = chats.session_id()
        await chats.ask("/new Harbour plans")
    async with gateway(tmp_path / "home") as chats:
        assert await chats.ask("hello") == "re: hello"
        assert effort(chats) is None
        assert chats.db.get_session_title(chats.session_id()) == "Harbour plans"
        assert chats.db.get_session_title(first) is None
        await chats.ask("/title Other plans")
        await chats.ask("more")
        assert chats.db.get_session_title(chats.session_id()) == "Other plans", "wished once"


async def test_yolo_ends_with_its_conversation(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        chats.runner.config.platforms[Platform.LOCAL].admins = ("1",)
        agents: list[Any] = []
        for line in ("/yolo on", "/new"):
            await chats.ask(line, user_id="1")
            await chats.ask("hello", user_id="1")
            agents.append(chats.runner._agent_cache[chats.key()][0])
        assert [agent.workspace.mode for agent in agents] == ["full", "guarded"]


async def test_a_queued_message_waits_though_others_interrupt(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps: list[Any] = [say("one", begun.set, release), echo]
    async with gateway(tmp_path / "home", steps) as chats:
        await chats.say("first")
        await begun.wait()
        assert await chats.ask("/queue second") == "Queued; 1 waiting."
        release.set()
        assert (await chats.local.wait_for(3))[1:] == ["one", "re: second"]


async def test_busy_holds_for_the_chat_it_was_said_in(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps: list[Any] = [say("one", begun.set, release), echo]
    async with gateway(tmp_path / "home", steps) as chats:
        assert "queue" in await chats.ask("/busy queue")
        await chats.say("first")
        await begun.wait()
        await chats.say("second")
        release.set()
        assert (await chats.local.wait_for(3))[1:] == ["one", "re: second"]


async def test_a_message_that_is_taken_back_is_shown_and_not_sent_again(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        await chats.ask("first")
        await chats.ask("second")
        told = await chats.ask("/undo")
        assert told.startswith("Took back 2 messages.") and told.endswith("\nsecond")
        assert await chats.ask("third") == "re: third"
        said = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert said == ["first", "re: first", "third", "re: third"]
