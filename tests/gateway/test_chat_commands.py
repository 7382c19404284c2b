"""Commands of chats: who may use them under which name, and the last answer again."""

from __future__ import annotations

from pathlib import Path

import pytest

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
