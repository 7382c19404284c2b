"""Conversations that are handed over go on in a platform's home chat, exactly once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.scripted import say
from gateway import handoff
from gateway.config import Platform, PlatformConfig
from hermes_state import SessionDB

from .chats import Chats, echo, gateway


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff, "LOOK_SECONDS", 0.02)


def terminal_talk(db: SessionDB, session_id: str = "talk") -> None:
    db.create_session(session_id, "cli")
    db.set_session_title(session_id, f"The plan of {session_id}")
    db.append_message(session_id, "user", "what is the plan?")
    db.append_message(session_id, "assistant", "first the cellar")


async def ended(chats: Chats, session_id: str = "talk") -> tuple[str, str]:
    """The state and error of a hand-off, when it is over."""
    while True:
        found = chats.db.get_handoff_state(session_id)
        assert found is not None
        if found["state"] in ("completed", "failed"):
            return found["state"], found["error"] or ""
        await asyncio.sleep(0.01)


async def with_home(chats: Chats, chat_id: str = "1") -> None:
    admin = PlatformConfig(enabled=True, allow_all=True, admins=["u1"])
    chats.runner.config.platforms[Platform.LOCAL] = admin
    assert "home chat of local" in await chats.ask("/sethome", chat_id=chat_id)


async def test_a_conversation_of_the_terminal_goes_on_in_the_home_chat(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await with_home(chats)
        terminal_talk(chats.db)
        assert chats.db.request_handoff("talk", "local")
        assert await ended(chats) == ("completed", "")
        told = (await chats.local.wait_for(2))[1]
        assert "The plan of talk" in told
        assert "first the cellar" in told
        assert chats.session_id() == "talk"
        assert await chats.ask("and then?") == "re: and then?"
        sent = [one["content"] for one in chats.model.requests[-1].messages]
        assert sent == ["what is the plan?", "first the cellar", "and then?"]
        await chats.ask("/new")
        assert "The plan of talk" in await chats.ask("/sessions")


async def test_it_goes_on_at_the_tip(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await with_home(chats)
        terminal_talk(chats.db)
        chats.db.request_handoff("talk", "local")
        chats.db.rotate_session("talk", "tip", [{"role": "user", "content": "a summary"}])
        assert await ended(chats, "tip") == ("completed", "")
        await chats.local.wait_for(2)
        assert chats.session_id() == "tip"
        assert await chats.ask("go on") == "re: go on"


async def test_what_cannot_be_taken_over_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        for name in ("one", "two", "three"):
            terminal_talk(chats.db, name)
        chats.db.request_handoff("one", "local")
        state, error = await ended(chats, "one")
        assert state == "failed" and "/sethome" in error
        chats.db.request_handoff("two", "slack")
        state, error = await ended(chats, "two")
        assert state == "failed" and "not set up" in error
        monkeypatch.setattr(handoff, "CONNECT_SECONDS", 0.05)
        adapters = chats.runner.adapters
        local = adapters.pop(Platform.LOCAL)
        chats.db.request_handoff("three", "local")
        state, error = await ended(chats, "three")
        assert state == "failed" and "not connected" in error
        adapters[Platform.LOCAL] = local


async def test_a_members_conversation_goes_on_in_their_own_home_chat_only(tmp_path: Path) -> None:
    """What a member said before would be read as if whoever has the home chat had said it."""
    async with gateway(tmp_path) as chats:
        await with_home(chats)
        await chats.ask("hello")
        await chats.ask("when I write next, run what I left", chat_id="eve", user_id="eve")
        hers, own = chats.session_id("eve"), chats.session_id()
        assert chats.db.request_handoff(hers, "local")
        missing = await ended(chats, hers)
        assert missing == (
            "failed", "local has no home chat of yours. Write /sethome in the chat it is to be."
        )  # fmt: skip
        assert chats.session_id() == own
        chats.db.set_person_role("local:eve", "operator")
        assert chats.db.request_handoff(hers, "local")
        assert await ended(chats, hers) == ("completed", "")
        chats.runner.config.platforms[Platform.LOCAL].admins = ["ann"]
        await chats.ask("/sethome", chat_id="ann", user_id="ann")
        await chats.ask("/new", chat_id="ann", user_id="ann")
        anns = chats.db.create_session("anns", "tui", user_id="local:ann")
        chats.db.append_message(anns, "user", "mine")
        assert chats.db.request_handoff(anns, "local")
        assert await ended(chats, anns) == ("completed", "")


async def test_sethome_is_for_administrators(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        for line in ("/sethome", "/set-home", "/set_home"):
            assert "administrators" in await chats.ask(line)
        assert chats.runner.handoffs.home_chat(Platform.LOCAL) is None


async def test_two_gateways_take_it_over_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as first, gateway(tmp_path, account="2") as second:
        await with_home(first)
        names = [f"talk{number}" for number in range(5)]
        for name in names:
            terminal_talk(first.db, name)
            first.db.request_handoff(name, "local")
        for name in names:
            assert await ended(first, name) == ("completed", "")
        told: list[str] = []
        while len(told) < len(names):
            await asyncio.sleep(0.01)
            shown = [*first.local.texts(), *second.local.texts()]
            told = [one for one in shown if "goes on here" in one]
        assert sorted(told) == sorted(set(told)), "each is told once"
        # A text is seen a moment before its delivery is settled; then nothing is sent any more.
        while any(
            "goes on here" in row["content"]
            for row in first.db.list_deliveries(("pending", "sending"))
        ):
            await asyncio.sleep(0.01)
        shown = [*first.local.texts(), *second.local.texts()]
        assert sorted(one for one in shown if "goes on here" in one) == sorted(told)


async def test_one_that_was_claimed_when_the_gateway_was_killed_is_gone_on_with(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        await with_home(chats)
        terminal_talk(chats.db)
    with SessionDB(tmp_path / "state.db") as db:
        db.request_handoff("talk", "local")
        db.set_meta("handoff:taking", "talk")
        assert db.claim_handoff("talk")
    async with gateway(tmp_path) as chats:
        assert await ended(chats) == ("completed", "")
        assert "goes on here" in (await chats.local.wait_for(1))[0]
        assert chats.session_id() == "talk"


async def test_a_turn_in_the_home_chat_ends_in_its_own_conversation(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    async with gateway(tmp_path, [say(begun.set, release, "done"), echo]) as chats:
        await with_home(chats)
        await chats.say("work")
        await begun.wait()
        own = chats.session_id()
        terminal_talk(chats.db)
        chats.db.request_handoff("talk", "local")
        while (chats.db.get_handoff_state("talk") or {})["state"] != "running":
            await asyncio.sleep(0.01)
        chats.db.rotate_session("talk", "tip", [{"role": "user", "content": "a summary"}])
        release.set()
        assert await ended(chats, "tip") == ("completed", "")
        await chats.local.wait_for(3)
        assert [one["content"] for one in chats.db.get_messages(own)] == ["work", "done"]
        assert await chats.ask("next") == "re: next"
        assert chats.session_id() == "tip"
