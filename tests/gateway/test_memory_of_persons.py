"""Everybody's own memory from a chat's view: prompts, tools, reviews, groups, links, commands."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from hermes_state import OPERATOR
from tools.memory import memory_path, read_entries
from tools.memory_scope import Space

from .chats import Chats, asked, gateway

ADA, BOB = Space("person", "local:ada"), Space("person", "local:bob")


def keeper(request: ModelRequest) -> Step:
    """Notes what it is told to ("note X"), and answers with what it knows."""
    last = request.messages[-1]
    text = asked(request)
    if last["role"] == "user" and text.startswith("note "):
        return call("memory", target="memory", action="add", content=text.split("\n")[0][5:])
    if last["role"] == "tool":
        return say(f"tool: {last['content']}")
    return say("ok")


def entries(home: Path, space: Space) -> list[str]:
    return read_entries(memory_path(space.folder(home), "memory"))


async def ask(chats: Chats, who: str, text: str, **more: Any) -> str:
    """What somebody is answered in their direct chat, or the chat that is named."""
    return await chats.ask(text, user_id=who, **{"chat_id": who, **more})


def system(chats: Chats) -> str:
    return chats.model.requests[-1].system


async def test_what_is_learnt_of_one_person_no_other_reads(tmp_path: Path) -> None:
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "MEMORY.md").write_text("The operator's cat is Tom.\n")
    (tmp_path / "shared" / "memories").mkdir(parents=True)
    (tmp_path / "shared" / "memories" / "MEMORY.md").write_text("Closed on Mondays.\n")
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        assert "Saved" in await ask(chats, "ada", "note Ada is moving.")
        await ask(chats, "bob", "note Bob is ill.")
        assert entries(tmp_path, ADA) == ["Ada is moving."]
        assert entries(tmp_path, BOB) == ["Bob is ill."]
        for who, theirs, others in (
            ("ada", "Ada is moving.", "Bob is ill."),
            ("bob", "Bob is ill.", "Ada is moving."),
        ):
            await ask(chats, who, "/new")
            await ask(chats, who, "hello")
            assert theirs in system(chats) and "Closed on Mondays." in system(chats)
            assert others not in system(chats) and "Tom" not in system(chats)
            told = await ask(chats, who, "/memory")
            assert theirs in told and others not in told and "Tom" not in told
            assert "noted in a conversation" in told


async def test_a_group_has_a_memory_of_its_own(tmp_path: Path) -> None:
    group = {"chat_id": "g1", "chat_type": "group"}
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "note Ada is moving.")
        await ask(chats, "ada", "note We meet on Fridays.", **group)
        assert entries(tmp_path, Space("chat", "local:g1")) == ["We meet on Fridays."]
        assert entries(tmp_path, ADA) == ["Ada is moving."]
        await ask(chats, "bob", "hello", **group)
        assert "Fridays" in system(chats) and "moving" not in system(chats)
        told = await ask(chats, "ada", "/memory", **group)
        assert "Fridays" in told and "moving" not in told

        def sent() -> str:
            return json.dumps(chats.model.requests[-1].messages)

        await ask(chats, "ada", "hello", **group)
        before = system(chats)
        assert "moving" not in before + sent()
        assert "not read" in await ask(chats, "ada", "/memory here", **group)
        assert "others may read" in await ask(chats, "ada", "/memory here on", **group)
        await ask(chats, "ada", "again", **group)
        assert "moving" in sent() and system(chats) == before
        await ask(chats, "bob", "me too", **group)
        assert "moving" not in sent() + system(chats)
        await ask(chats, "ada", "elsewhere", chat_id="g2", chat_type="group")
        assert "moving" not in sent() + system(chats)
        assert "any more" in await ask(chats, "ada", "/memory here off", **group)
        await ask(chats, "ada", "and now", **group)
        assert "moving" not in sent() + system(chats)
        assert "That is said in a group" in await ask(chats, "ada", "/memory here on")


async def test_whoever_is_let_into_a_conversation_is_not_told_its_owners_memory(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "note Ada is moving.")
        await ask(chats, "ada", "/new")
        await ask(chats, "ada", "hello")
        assert "moving" in (hers := system(chats))
        code = (await ask(chats, "ada", "/link")).split("/link ")[1].split()[0]
        await ask(chats, "bob", f"/link {code}")
        refused = await ask(chats, "bob", "note Bob is ill.")
        assert "Nothing is kept" in refused
        assert "moving" not in system(chats)
        assert "moving" not in await ask(chats, "bob", "/memory")
        await chats.say("goes on", chat_id="ada", user_id="ada")
        await chats.local.wait_for(len(chats.local.texts("ada")) + 1, "ada")
        assert system(chats) == hers
        assert not BOB.folder(tmp_path).exists()


async def test_after_a_merge_is_undone_no_prompt_tells_what_went_back(tmp_path: Path) -> None:
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "note Ada is moving.")
        await ask(chats, "bob", "note Bob is ill.")
        merge = chats.db.merge_persons("local:bob", "local:ada")
        for who in ("ada", "bob"):
            await ask(chats, who, "/new")
            await ask(chats, who, "hello")
            assert "moving" in system(chats) and "ill" in system(chats)
        chats.db.unmerge_persons(merge.id)
        await ask(chats, "ada", "hello")
        assert "moving" in system(chats) and "ill" not in system(chats)
        await ask(chats, "bob", "hello")
        assert "moving" not in system(chats) and "ill" in system(chats)
        assert entries(tmp_path, ADA) == ["Ada is moving."]


async def test_what_is_learnt_can_be_looked_at_changed_and_undone(tmp_path: Path) -> None:
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "note Ada is moving.")
        assert "There are 2 entries" in await ask(chats, "ada", "/memory add Likes tea.")
        history = await ask(chats, "ada", "/memory history")
        assert history.index("Likes tea.") < history.index("Ada is moving.")
        assert "Undone: + Likes tea." in await ask(chats, "ada", "/memory undo")
        await ask(chats, "ada", "/memory edit moving Ada has moved.")
        assert entries(tmp_path, ADA) == ["Ada has moved."]
        assert "Forgotten" in await ask(chats, "ada", "/memory forget moved")
        await ask(chats, "ada", "/memory undo")
        assert entries(tmp_path, ADA) == ["Ada has moved."]
        await ask(chats, "ada", "/memory forget --for-good moved")
        assert (
            "has moved" not in (ADA.folder(tmp_path) / "memories/history/changes.jsonl").read_text()
        )
        assert "There is nobody" not in await ask(chats, "bob", "/memory history")
        assert "tea" not in await ask(chats, "bob", "/memory history")
        assert "there is no 'fly'" in await ask(chats, "ada", "/memory fly")


async def test_what_everybody_gets_is_the_operators_to_write(tmp_path: Path) -> None:
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "hello")
        assert "Only the operator" in await ask(chats, "ada", "/memory shared add Free beer.")
        chats.db.set_person_role("local:ada", "operator")
        await ask(chats, "ada", "/memory shared add Closed on Mondays.")
        group = {"chat_id": "g", "chat_type": "group"}
        assert "Only the operator" in await ask(chats, "ada", "/memory shared add x", **group)
        await ask(chats, "bob", "hello")
        assert "Closed on Mondays." in system(chats)
        told = await ask(chats, "bob", "/memory")
        assert "For everybody" in told and "Closed on Mondays." in told
        assert "No entry" in await ask(chats, "bob", "/memory forget Mondays")


async def test_prompts_of_earlier_releases_are_not_told_to_others(tmp_path: Path) -> None:
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "hello")
        session_id = chats.session_id("ada")
        chats.db.update_system_prompt(session_id, "Hi.\n\n# Memory\nWhat you noted:\nTom")
        await ask(chats, "ada", "hello")
    async with gateway(tmp_path, itertools.repeat(keeper)) as chats:
        await ask(chats, "ada", "again")
        assert "Tom" not in system(chats)
        kept = chats.db.get_session(session_id)
        assert kept is not None and "Tom" not in kept["system_prompt"]
        assert OPERATOR not in kept["memory_of"]
