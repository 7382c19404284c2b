"""A gateway on Slack that is killed at any moment: each chat gets each of its answers once.

Each answer carries its key, so one that was being sent is looked for and never in doubt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("slack_sdk", reason="slack-sdk is not installed: pip install -e '.[slack]'")

from conversation.abandoned import CUT_OFF

from .. import forked
from .chats import CONFIG
from .slack_api import APP_TOKEN, BOT_TOKEN, SlackApi

CHILD = Path(__file__).with_name("platform_child.py")


async def _killed_when(home: Path, api: SlackApi, fits: Callable[[], bool]) -> None:
    section = json.dumps({"token": BOT_TOKEN, "app_token": APP_TOKEN, "base_url": api.url})
    child = await forked.start(CHILD, str(home), "slack", section, environ={**os.environ})
    try:
        await api.until(fits, 60)
    finally:
        child.kill()
        await child.wait()
    await api.until(lambda: api.connected == 0)


async def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"{CONFIG}agent: {{cut_off_turns: continue}}\n")
    chats = [f"D{number}" for number in range(100, 112)]
    async with SlackApi() as api:
        api.members += chats
        api.redeliver_seconds = 0.2
        for chat in chats:
            await api.say("hello", channel=chat, user=f"U{chat}")
        await _killed_when(tmp_path, api, lambda: len(api.acknowledged) >= 4)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 3)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 7)
        await _killed_when(tmp_path, api, lambda: all(api.texts(chat) for chat in chats))
        # While nobody is there, and Slack gives up delivering.
        for chat in chats:
            await api.say("again", channel=chat, user=f"U{chat}")
        api.forget_envelopes()
        await _killed_when(
            tmp_path, api, lambda: all("re: again" in api.texts(chat) for chat in chats)
        )
    for chat in chats:
        assert [text for text in api.texts(chat) if text != CUT_OFF] == ["re: hello", "re: again"]
