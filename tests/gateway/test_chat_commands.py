"""Commands of chats: who may use them under which name, and the last answer again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Platform, PlatformConfig

from .chats import gateway


@pytest.mark.parametrize("line", ["/restart", "/restart@bot", "/RESTART now", "/Restart@bot now"])
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
            assert "platforms.local.admins" in told
            assert not chats.runner.chat_options.get(chats.key(person), {}).get("yolo")
        told = await chats.ask(line, chat_id="boss", user_id="boss")
        assert "without asking" in told
        assert chats.runner.chat_options[chats.key("boss")]["yolo"] is True
