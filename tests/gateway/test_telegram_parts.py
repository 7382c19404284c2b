"""Albums and split texts on Telegram: one turn each, also when the gateway is killed in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("telegram")

from gateway.platforms.telegram.updates import Me, read_update
from hermes_state import SessionDB

from .. import forked
from .bot_api import TOKEN, BotApi
from .chats import CONFIG
from .telegram_chats import telegram_gateway
from .test_message_parts import end_wait

CHILD = Path(__file__).with_name("telegram_child.py")
ME = Me(1, "hermes_bot")
NAME = "@hermes_bot"


def questions(db: SessionDB) -> list[Any]:
    """What was asked in the only conversation."""
    (session,) = db.list_sessions_rich()
    return [one["content"] for one in db.get_messages(session["id"]) if one["role"] == "user"]


def photo(number: int) -> list[dict[str, Any]]:
    """A picture as an update names it."""
    return [{"file_id": f"pic{number}", "width": 1, "height": 1}]


@pytest.mark.parametrize(
    ("text", "split_with"),
    [("a" * 4096, ""), ("a" * 3000, "\n"), ("a" * 2048, None), ("😀" * 2048, ""), ("", None)],
)
async def test_where_a_client_may_have_split(text: str, split_with: str | None) -> None:
    api = BotApi()
    incoming = read_update(api.message(text or None, photo=photo(1)), ME)
    assert incoming is not None and incoming.event.split_with == split_with


async def test_an_album_in_a_group_is_one_message_though_one_part_names_the_bot(
    tmp_path: Path,
) -> None:
    async with BotApi() as api:
        api.files = {f"pic{number}": b"picture %d" % number for number in range(3)}
        common = {"chat_id": -5, "chat_type": "group", "media_group_id": "g1"}
        mention = {"type": "mention", "offset": 0, "length": len(NAME)}
        caption = {"caption": f"{NAME} which is best?", "caption_entities": [mention]}
        album = [
            api.message(None, photo=photo(number), **common, **(caption if not number else {}))
            for number in range(3)
        ]
        other = api.message(None, photo=photo(0), **{**common, "media_group_id": "g2"})
        async with telegram_gateway(tmp_path, api, message_parts_wait=30.0) as chats:
            await api.add(*album, other)
            await api.until(lambda: chats.runner.turns.waiting == 3 and not api.waiting)
            end_wait(chats)
            (answer,) = await api.wait_for(1, -5)
            assert "which is best?" in answer
            (asked,) = questions(chats.db)
            pictures = [one["type"] for one in asked if one["type"] != "text"]
            assert len(pictures) == 3, asked
            await api.add(album[1])  # delivered again
            await api.say(f"{NAME} and now?", chat_id=-5, chat_type="group")
            assert await api.wait_for(2, -5) == [answer, "re: and now?"]
            assert len(questions(chats.db)) == 2


async def test_a_gateway_that_is_killed_between_the_parts(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    async with BotApi() as api:
        head, tail = "long " * 819 + "t", "he end"
        first = api.message(head)
        await api.add(first)
        child = await _start(tmp_path, api)
        await api.until(lambda: not api.waiting, 60)  # it is stored, and waits for the rest
        child.kill()
        await child.wait()
        await api.add(first, api.message(tail))
        child = await _start(tmp_path, api)
        try:
            await api.wait_for(1, seconds=60)
            await api.until(lambda: any("re: " in text for text in api.texts()), 60)
        finally:
            child.kill()
            await child.wait()
    db = SessionDB(tmp_path / "state.db")
    try:
        assert len(head) == 4096
        assert questions(db) == [head + tail]
    finally:
        db.close()


async def _start(home: Path, api: BotApi) -> Any:
    return await forked.start(CHILD, str(home), api.url, TOKEN, environ=os.environ)
