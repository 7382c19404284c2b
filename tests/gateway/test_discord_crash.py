"""A gateway on Discord that is killed at any moment: each chat gets one answer, or is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("discord", reason="discord.py is not installed: pip install -e '.[discord]'")

from conversation.abandoned import CUT_OFF
from gateway.delivery import BROKEN, UNSURE

from .. import forked
from .chats import CONFIG
from .discord_api import TOKEN, DiscordApi

CHILD = Path(__file__).with_name("platform_child.py")


async def _killed_when(home: Path, api: DiscordApi, fits: Callable[[], bool]) -> None:
    section = json.dumps({"token": TOKEN, "base_url": api.url})
    child = await forked.start(CHILD, str(home), "discord", section, environ={**os.environ})
    try:
        await api.until(fits, 60)
    finally:
        child.kill()
        await child.wait()
    await api.until(lambda: api.connected == 0)
    api.sessions.clear()


async def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    chats = [str(number) for number in range(100, 112)]
    notices = {BROKEN, UNSURE, CUT_OFF}
    async with DiscordApi() as api:
        # A first time, so that it knows from when on messages are for it. Discord does not list
        # direct chats: these are channels of a server, where it is mentioned.
        for one in chats:
            api.add_channel(one, guild="900")
        await _killed_when(
            tmp_path, api, lambda: (tmp_path / "gateway" / "discord-place.json").exists()
        )
        hello, again = (f"<@{api.bot_id}> {word}" for word in ("hello", "again"))
        for one in chats:
            await api.say(hello, channel_id=one, user_id=one)
        await _killed_when(tmp_path, api, lambda: len(api.called("GET", "/messages")) >= 4)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 3)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 7)
        await _killed_when(tmp_path, api, lambda: all(api.texts(one) for one in chats))
        for one in chats:
            await api.say(again, channel_id=one, user_id=one)
        await _killed_when(
            tmp_path, api, lambda: all("re: again" in api.texts(one) for one in chats)
        )
    for one in chats:
        texts = api.texts(one)
        assert texts.count("re: hello") <= 1 and texts.count("re: again") == 1
        assert set(texts) <= {"re: hello", "re: again"} | notices
        assert set(texts[:-1]) & ({"re: hello"} | notices)
    answered = sum("re: hello" in api.texts(one) for one in chats)
    assert answered >= len(chats) - 9  # at most three were being sent at each of three deaths
