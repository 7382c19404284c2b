"""Modes in chats: plan and guarded for everybody, full for administrators, each for its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.config import Platform, PlatformConfig

from .chats import Chats, gateway


def admins(chats: Chats, *names: str) -> None:
    chats.runner.config.platforms[Platform.LOCAL] = PlatformConfig(
        enabled=True, allow_all=True, admins=names
    )


def mode(chats: Chats, chat_id: str = "1") -> str:
    found = chats.runner.session_store.peek_session_id(chats.key(chat_id))
    return str(chats.db.get_wall_settings(found or "")["mode"])


async def test_everybody_plans_and_only_administrators_go_without_a_wall(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        admins(chats, "boss")
        assert "Mode: guarded" in await chats.ask("/mode", user_id="ann")
        assert "Mode: plan" in await chats.ask("/mode plan", user_id="ann")
        told = await chats.ask("/mode full", user_id="ann")
        assert "for administrators" in told
        assert ".admins in config.yaml" in told
        assert mode(chats) == "plan"
        assert "Mode: full" in await chats.ask("/mode full", chat_id="2", user_id="boss")
        assert (mode(chats), mode(chats, "2")) == ("plan", "full")
        await chats.ask("hello", user_id="ann")
        assert chats.runner._agent_cache[chats.key()][0].workspace.mode == "plan"
        assert "Plan mode" in str(chats.model.requests[-1].messages)


async def test_folders_are_for_administrators(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    async with gateway(tmp_path / "home") as chats:
        admins(chats, "boss")
        line = f"/folder add {tmp_path / 'more'}"
        assert "for administrators" in await chats.ask(line, user_id="ann")
        assert "for administrators" in await chats.ask("/folders", user_id="ann")
        assert "Added" in await chats.ask(line, user_id="boss")


async def test_full_is_not_brought_into_the_chat_of_another(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        admins(chats, "boss")
        await chats.ask("/mode full", user_id="boss")
        await chats.ask("hello", user_id="boss")
        code = (await chats.ask("/link", user_id="boss")).split("/link ")[1].split()[0]
        await chats.ask(f"/link {code}", chat_id="2", user_id="ann")
        assert mode(chats) == mode(chats, "2") == "guarded"


async def test_full_is_not_handed_over_to_a_home_chat_of_others(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as chats:
        admins(chats, "ann")
        await chats.ask("/sethome", user_id="ann")
        admins(chats, "boss")
        chats.db.create_session("talk", "cli")
        chats.db.append_message("talk", "user", "hello")
        chats.db.set_wall_mode("talk", "full")
        assert chats.db.request_handoff("talk", "local")
        while (state := chats.db.get_handoff_state("talk")) is None or state["state"] in (
            "pending",
            "running",
        ):
            await asyncio.sleep(0.01)
        assert state["state"] == "completed"
        assert mode(chats) == "guarded"
