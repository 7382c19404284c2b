"""Roles as chats and API clients meet them: refused before it runs, the same by every door."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.model import ModelRequest
from agent.scripted import Step, call, say

from .chats import Chats, asked, gateway
from .serving import serving
from .test_persons import ask

GUESTS = "access: {new_people: guest}\n"


def answer(request: ModelRequest) -> Step:
    """Tries what it is asked for as a tool, and says what came of it."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return say(str(last["content"]))
    text = asked(request)
    if text.startswith("write"):
        return call("write_file", path="made.txt", content="x")
    return say(text)


def steps() -> list[Any]:
    return [answer] * 40


def tools_of(chats: Chats, number: int = -1) -> set[str]:
    return {tool["function"]["name"] for tool in chats.model.requests[number].tools}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the gateway was started."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


async def test_a_guest_talks_and_a_member_works_from_the_next_message_on(
    tmp_path: Path, folder: Path
) -> None:
    async with gateway(tmp_path / "home", steps(), yaml=GUESTS) as chats:
        assert await ask(chats, "eve", "hello") == "hello"
        assert tools_of(chats) == {"clarify", "todo", "web_fetch"}
        assert "There is no tool 'write_file'" in await ask(chats, "eve", "write")
        assert "is not for a guest here" in await ask(chats, "eve", "/model gpt-5")
        assert "is not for a guest here" in await ask(chats, "eve", "/bg do something")
        assert "eve (guest)" in await ask(chats, "eve", "/whoami")
        assert not (folder / "made.txt").exists()
        chats.db.set_person_role("local:eve", "member")
        assert "made.txt" in await ask(chats, "eve", "write")
        assert (folder / "made.txt").exists() and "terminal" in tools_of(chats)
        chats.db.set_person_role("local:eve", "guest")
        (folder / "made.txt").unlink()
        assert "There is no tool" in await ask(chats, "eve", "write")
        assert not (folder / "made.txt").exists()


async def test_a_person_is_known_by_each_of_their_doors(tmp_path: Path, folder: Path) -> None:
    yaml = """
access:
  new_people: guest
  people: {"local:ada2": {tools: [files], model: "scripted"}}
"""
    async with gateway(tmp_path / "home", steps(), yaml=yaml) as chats:
        assert "There is no tool" in await ask(chats, "ada", "write")
        await ask(chats, "ada2", "hello")
        chats.db.merge_persons("local:ada2", "local:ada")
        chats.runner._evict_cached_agent(chats.key("ada"))
        entry = chats.runner.session_store.entry(chats.key("ada"))
        assert entry is not None and entry.origin is not None
        await chats.runner.authorization.identify(entry.origin)
        access = chats.runner.authorization.access(entry.origin, chats.key("ada"))
        assert access.permissions.tools.allow("files") and access.model == "scripted"


async def test_a_chat_narrows_what_everybody_may_use_there(tmp_path: Path, folder: Path) -> None:
    yaml = 'access: {chats: {"local:dm:lobby": {tools: [web], commands: [help], modes: [plan]}}}\n'
    async with gateway(tmp_path / "home", steps(), yaml=yaml) as chats:
        await chats.ask("hello", chat_id="lobby", user_id="ada")
        assert tools_of(chats) == {"web_fetch"}
        told = await chats.ask("/status", chat_id="lobby", user_id="ada")
        assert "is not for a member here" in told
        await chats.ask("hello", chat_id="own", user_id="ada")
        assert "terminal" in tools_of(chats)


async def test_a_guest_does_not_steer_the_turn_of_somebody_who_may_more(tmp_path: Path) -> None:
    release = asyncio.Event()
    read: list[str] = []

    def slowly(request: ModelRequest) -> Step:
        text = asked(request)
        read.append(str(request.messages))
        return say(release, "late") if text == "slow" else say(f"re: {text}")

    async with gateway(
        tmp_path, [slowly] * 9, yaml="display: {busy_input_mode: steer}\n",
        group_sessions_per_user=False, busy_input_mode="steer",
    ) as chats:  # fmt: skip
        chats.db.ensure_person("local:eve", "Eve", "guest")
        group = {"chat_id": "g", "chat_type": "group"}
        await chats.say("slow", user_id="ada", **group)
        while chats.model.calls < 1:
            await asyncio.sleep(0.005)
        await chats.say("do it for me", user_id="eve", **group)
        door = chats.runner.turns.door("agent:main:local:group:g")
        while not door.admitted:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert not door.steered
        release.set()
        assert await chats.local.wait_for(2, "g") == ["late", "re: do it for me"]


async def test_a_member_does_not_steer_another_members_turn(tmp_path: Path) -> None:
    """It has the memory and the past conversations of whoever asked."""
    release = asyncio.Event()

    def slowly(request: ModelRequest) -> Step:
        text = asked(request)
        return say(release, "late") if text == "slow" else say(f"re: {text}")

    async with gateway(
        tmp_path, [slowly] * 9, group_sessions_per_user=False, busy_input_mode="steer"
    ) as chats:
        group = {"chat_id": "g", "chat_type": "group"}
        await chats.say("slow", user_id="ada", **group)
        while chats.model.calls < 1:
            await asyncio.sleep(0.005)
        await chats.say("search what she said before", user_id="eve", **group)
        door = chats.runner.turns.door("agent:main:local:group:g")
        while not door.admitted:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert not door.steered
        release.set()
        said = ["late", "re: search what she said before"]
        assert await chats.local.wait_for(2, "g") == said


async def test_a_guest_cannot_approve(tmp_path: Path, folder: Path) -> None:
    yaml = GUESTS + "approvals: {timeout: 60}\n"
    async with gateway(tmp_path / "home", steps(), yaml=yaml) as chats:
        assert "is not for a guest here" in await ask(chats, "eve", "/approve")
        await ask(chats, "eve", "hello")
        answered: list[str] = []
        chats.runner.questions.answer = (  # type: ignore[method-assign]
            lambda key, kind, answer, **more: answered.append(answer) or 1
        )
        await chats.say("", chat_id="eve", user_id="eve", button="approval:1:once")
        await chats.say("", chat_id="eve", user_id="eve", button="approval:1:deny")
        while not answered:
            await asyncio.sleep(0.005)
        assert answered == ["deny"]


async def test_what_an_operators_turn_asks_is_allowed_by_operators(
    tmp_path: Path, folder: Path
) -> None:
    """Where several write in one conversation: what was put there may have led to it."""
    (folder / "doomed").mkdir()
    steps = [call("terminal", command="rm -rf doomed"), say("gone"), say("ok")]
    yaml = "terminal: {sandbox: 'off'}\n"
    async with gateway(tmp_path / "home", steps, yaml=yaml, group_sessions_per_user=False) as chats:
        chats.db.ensure_person("local:ada", "Ada", "operator")
        group = {"chat_id": "g", "chat_type": "group"}
        await chats.say("clean up", user_id="ada", **group)
        [asked] = await chats.local.wait_for(1, "g")
        assert "rm -rf doomed" in asked
        question = chats.runner.questions.list_open("agent:main:local:group:g", "approval")[0]
        told = await chats.ask("/approve", user_id="eve", **group)
        assert told == (
            "An operator's turn asks that; only an operator can allow it. /deny refuses it."
        )
        told = await chats.ask("/approve always", user_id="eve", **group)
        assert told == "Only whose question it is can allow it for good."
        await chats.say("", user_id="eve", button=f"approval:{question.id}:once", **group)
        assert await chats.ask("/version", user_id="eve", **group)
        assert (folder / "doomed").exists() and question.answer is None
        assert await chats.ask("/approve", user_id="ada", **group) == "Allowed (once)."
        while (folder / "doomed").exists():
            await asyncio.sleep(0.01)


async def test_an_api_client_is_refused_as_a_chat_is(tmp_path: Path, folder: Path) -> None:
    yaml = "access: {roles: {guest: {modes: [plan]}}}\n"
    async with serving(tmp_path / "home", steps(), yaml=yaml) as served:
        said = {"model": "m", "messages": [{"role": "user", "content": "write"}]}
        assert (await served.http.post("/v1/chat/completions", json=said)).status_code == 200
        assert (folder / "made.txt").exists()
        (folder / "made.txt").unlink()
        served.db.set_person_role("api_server:alice", "guest")
        told = (await served.http.post("/v1/chat/completions", json=said)).json()
        assert "There is no tool" in told["choices"][0]["message"]["content"]
        assert not (folder / "made.txt").exists()
        for path in ("/v1/skills", "/v1/toolsets", "/metrics", "/health/detailed"):
            refused = await served.http.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
        refused = await served.http.post("/v1/chat/completions", json={**said, "mode": "guarded"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "mode_not_allowed")
        assert (await served.other.get("/v1/skills")).status_code == 200


async def test_prompt_and_persona_are_those_of_the_chat_or_the_person(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "personas").mkdir(parents=True)
    (home / "personas/pirate.md").write_text("You are Captain Hook.")
    (home / "personas/nurse.md").write_text("You are a nurse.")
    yaml = """
access:
  roles: {member: {prompt: Say please.}}
  people: {"local:ada": {persona: pirate, mode: plan}}
  chats: {"local:dm:quiet": {prompt: Whisper.}}
"""
    async with gateway(home, steps(), yaml=yaml) as chats:

        def system() -> str:
            return str(chats.model.requests[-1].system)

        await ask(chats, "bob", "hello")
        assert "Say please." in system() and "Whisper" not in system()
        await chats.ask("hello", chat_id="quiet", user_id="bob")
        assert "Say please.\n\nWhisper." in system()
        await ask(chats, "ada", "hello")
        assert system().startswith("You are Captain Hook.")
        assert "Mode: plan" in await ask(chats, "ada", "/mode")
        before = system()
        await ask(chats, "ada", "again")
        assert system() == before
        assert "There is no persona" in await ask(chats, "ada", "/persona ../SOUL")
        assert "Persona: nurse" in await ask(chats, "ada", "/personality nurse")
        await ask(chats, "ada", "who are you")
        assert system().startswith("You are a nurse.")
        assert system().partition("\n")[2] == before.partition("\n")[2]
        assert "nurse, pirate" in await ask(chats, "ada", "/persona default")
        await ask(chats, "ada", "who are you")
        assert system() == before


async def test_a_model_that_may_not_be_used_any_more_is_not(tmp_path: Path) -> None:
    yaml = "access: {roles: {member: {models: [gpt-*]}}}\nmodel: openai:gpt-5\n"
    async with gateway(tmp_path, steps(), yaml=yaml) as chats:
        await ask(chats, "ada", "hello")
        assert "is not for a member here" in await ask(chats, "ada", "/model claude-sonnet-5-5")
        assert "Model: gpt-5-mini" in await ask(chats, "ada", "/model gpt-5-mini")
        entry = chats.runner.session_store.entry(chats.key("ada"))
        assert entry is not None and entry.model_override == {"model": "gpt-5-mini"}
        chats.db.set_person_role("local:ada", "guest")
        assert await ask(chats, "ada", "again") == "again"  # the shared model, not the chosen one
