"""A gateway that is killed at any moment: every chat ends with one answer, or is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("telegram")

from conversation.abandoned import CUT_OFF
from gateway.delivery import BROKEN, UNSURE
from hermes_state import SessionDB

from .. import forked
from .bot_api import TOKEN, BotApi
from .chats import CONFIG

CHILD = Path(__file__).with_name("telegram_child.py")


async def _killed_when(home: Path, api: BotApi, fits: Callable[[], bool], **environ: str) -> None:
    child = await forked.start(CHILD, str(home), api.url, TOKEN, environ={**os.environ, **environ})
    try:
        await api.until(fits, 60)
    finally:
        child.kill()
        await child.wait()


async def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    chats = range(100, 112)
    notices = {BROKEN, UNSURE, CUT_OFF}
    async with BotApi() as api:
        await api.add(*(api.message("hello", chat_id=one, user_id=one) for one in chats))
        polls = len(api.called("getUpdates"))
        await _killed_when(tmp_path, api, lambda: len(api.called("getUpdates")) > polls + 1)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 3)
        await _killed_when(tmp_path, api, lambda: len(api.sent) >= 7)
        await _killed_when(tmp_path, api, lambda: all(api.texts(one) for one in chats))
        await api.add(*(api.message("again", chat_id=one, user_id=one) for one in chats))
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


@pytest.mark.parametrize("goes_on", [True, False])
async def test_the_preview_of_a_gateway_that_was_killed_becomes_the_answer(
    tmp_path: Path, goes_on: bool
) -> None:
    setting = "continue" if goes_on else "ask"
    (tmp_path / "config.yaml").write_text(f"{CONFIG}agent: {{cut_off_turns: {setting}}}\n")
    told = "re: hello" if goes_on else CUT_OFF
    async with BotApi() as api:
        await api.add(api.message("hello"))
        streaming = {"HERMES_TEST_STREAMING": "1"}
        await _killed_when(
            tmp_path, api, lambda: _noted(tmp_path), **streaming, HERMES_TEST_HOLD="1"
        )
        assert [text.startswith("This is the beginning") for text in api.texts()] == [True]
        await _killed_when(tmp_path, api, lambda: told in api.texts(), **streaming)
    assert api.texts() == [told], "the preview took its text, and nothing else is shown"


def _noted(home: Path) -> bool:
    """Whether a preview is shown and known."""
    if not (home / "state.db").exists():
        return False
    db = SessionDB(home / "state.db")
    try:
        return db.get_preview("telegram:42:1") is not None
    finally:
        db.close()
