"""A gateway on WhatsApp that is killed at any moment: every message is answered once, or told of.

Meta posts what was not answered with 200 again; what it takes twice it shows twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from conversation.abandoned import CUT_OFF
from gateway.delivery import BROKEN, UNSURE

from .. import forked
from .chats import CONFIG
from .whatsapp_api import TOKEN, WhatsAppApi
from .whatsapp_chats import section

CHILD = Path(__file__).with_name("platform_child.py")


async def _killed_when(home: Path, api: WhatsAppApi, fits: Callable[[], bool]) -> None:
    given = json.dumps({"token": TOKEN, **section(api)})
    child = await forked.start(CHILD, str(home), "whatsapp_cloud", given, environ={**os.environ})
    try:
        await api.until(fits, 60)
    finally:
        child.kill()
        await child.wait()


async def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    chats = [f"165055501{number:02}" for number in range(12)]
    notices = {BROKEN, UNSURE, CUT_OFF}
    async with WhatsAppApi() as api:
        section(api)
        for chat in chats:
            await api.say("hello", user=chat)
        await _killed_when(tmp_path, api, lambda: any(code == 200 for code, _ in api.posted))
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 3)
        await _killed_when(tmp_path, api, lambda: all(api.texts(chat) for chat in chats))
        # While nobody is there.
        for chat in chats:
            await api.say("again", user=chat)
        await _killed_when(
            tmp_path, api, lambda: all("re: again" in api.texts(chat) for chat in chats)
        )
    for chat in chats:
        texts = api.texts(chat)
        assert texts.count("re: hello") <= 1 and texts.count("re: again") == 1
        assert set(texts) <= {"re: hello", "re: again"} | notices
        assert set(texts[:-1]) & ({"re: hello"} | notices)
    answered = sum("re: hello" in api.texts(chat) for chat in chats)
    assert answered >= len(chats) - 9  # at most three were being sent at each of three deaths
