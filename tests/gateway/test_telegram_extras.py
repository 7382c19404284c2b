"""Telegram's menus, topics, reactions as answers, and voice notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.scripted import call, say
from gateway.platforms.telegram.updates import Me, read_update

from .bot_api import BOT_ID, BOT_NAME, BotApi
from .chats import asked
from .telegram_chats import telegram_gateway

ME = Me(BOT_ID, BOT_NAME)


async def test_each_kind_of_chat_has_its_menu(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        names = {scope: {one["command"] for one in menu} for scope, menu in api.menus.items()}
        assert set(names) == {
            "default", "all_private_chats", "all_group_chats", "all_chat_administrators",
        }  # fmt: skip
        assert {"new", "stop", "approve", "reload_skills", "last"} <= names["all_group_chats"]
        assert {"restart", "people"} <= names["all_private_chats"]
        assert {"restart", "people"} <= names["all_chat_administrators"]
        assert not {"restart", "people", "yolo"} & names["all_group_chats"]
        assert names["default"] == names["all_group_chats"]


@pytest.mark.parametrize(("emoji", "is_done"), [("👍🏽", True), ("👎", False)])
async def test_a_thumb_answers_a_request_for_approval(
    tmp_path: Path, emoji: str, is_done: bool
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("done")]
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps) as chats:
        await api.say("remove it")
        await api.wait_for(1)
        question = api.sent[0]
        assert question.buttons
        await api.put_reaction(question, "🤔")
        await api.put_reaction(question, "", before=emoji)
        await api.until(lambda: not api.waiting)
        assert victim.exists() and len(api.sent) == 1
        update = await api.put_reaction(question, emoji)
        await api.add(update)  # delivered again
        assert (await api.wait_for(2))[1] == "done"
        assert victim.exists() is not is_done
        await api.until(lambda: not question.buttons)
        chats.model.assert_done()


async def test_reactions_of_strangers_and_where_they_are_switched_off_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(source: Any) -> bool:
        return False

    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("done")]
    off = {"reaction_answers": "off"}
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, steps, extra=off) as chats,
    ):
        await api.say("remove it")
        await api.wait_for(1)
        await api.put_reaction(api.sent[0], "👍")
        await api.until(lambda: not api.waiting)
        chats.adapter.config.extra["reaction_answers"] = True
        with monkeypatch.context() as patch:
            patch.setattr(chats.adapter.host, "is_allowed", nobody)
            await api.put_reaction(api.sent[0], "👍", user_id=666)
            await api.until(lambda: not api.waiting)
        assert victim.exists() and api.sent[0].buttons
        await api.say("/deny")
        await api.wait_for(2)
        assert victim.exists()


def test_a_reaction_is_read() -> None:
    def reaction(**more: Any) -> Any:
        return {
            "update_id": 7,
            "message_reaction": {
                "chat": {"id": 42, "type": "private"}, "message_id": 3, "date": 1,
                "user": {"id": 42, "is_bot": False, "first_name": "Ann"},
                "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}], **more,
            },
        }  # fmt: skip

    found = read_update(reaction(), ME)
    assert found is not None and found.reaction == "👍"
    assert (found.event.message_id, found.event.reply_to) == ("reaction:7", "3")
    thumb = [{"type": "emoji", "emoji": "👍"}]
    for nothing in (
        {"old_reaction": thumb}, {"new_reaction": []}, {"user": None},
        {"new_reaction": [{"type": "custom_emoji", "custom_emoji_id": "1"}]},
        {"user": {"id": BOT_ID, "is_bot": True, "first_name": "Hermes"}},
    ):  # fmt: skip
        assert read_update(reaction(**nothing), ME) is None, nothing


async def test_a_topic_is_a_conversation_with_its_name(tmp_path: Path) -> None:
    def in_topic(api: BotApi, text: str, topic: int = 7) -> Any:
        """As the service tells it: what replies to nothing names the topic's beginning."""
        begun = {
            "message_id": topic, "date": 1, "chat": {"id": -5, "type": "supergroup"},
            "from": {"id": BOT_ID, "is_bot": True, "first_name": "Hermes"},
            "forum_topic_created": {"name": "Plans", "icon_color": 1},
        }  # fmt: skip
        return api.message(
            text, chat_id=-5, chat_type="supergroup", is_topic_message=True,
            message_thread_id=topic, reply_to_message=begun,
        )  # fmt: skip

    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        await api.add(in_topic(api, "not for the bot, though it made the topic"))
        await api.add(in_topic(api, f"@{BOT_NAME} one"))
        assert await api.wait_for(1, -5) == ["re: one"]
        assert api.sent[0].thread_id == "7"
        await api.add(in_topic(api, f"@{BOT_NAME} two", topic=8))
        await api.wait_for(2, -5)
        assert api.sent[1].thread_id == "8"
        assert [one["content"] for one in chats.model.requests[-1].messages] == ["two"]
        entries = chats.runner.session_store._entries.values()
        assert {one.origin.chat_name for one in entries} == {"Friends: Plans"}
        await api.add(api.message(f"@{BOT_NAME} in general", chat_id=-5, chat_type="supergroup"))
        await api.wait_for(3, -5)
        assert api.sent[2].thread_id is None
        assert len(chats.runner.session_store._entries) == 3


async def test_a_voice_note_is_kept_and_told_as_what_it_is(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        api.files["v1"] = b"OggS and so on"
        voice = {"file_id": "v1", "file_unique_id": "u", "duration": 72, "file_size": 14,
                 "mime_type": "audio/ogg"}  # fmt: skip
        await api.say(None, voice=voice)
        await api.wait_for(1)
        told = asked(chats.model.requests[0])
        (kept,) = (tmp_path / "home" / "media").rglob("*.ogg")
        assert kept.read_bytes() == b"OggS and so on"
        assert "[Voice note, 1:12]" in told
        assert f"[Attached file: {kept}] (audio/ogg, 14 bytes)" in told


async def test_a_file_that_cannot_be_kept_is_said_to_its_sender_once(tmp_path: Path) -> None:
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, max_inbound_media_bytes=10) as chats,
    ):
        document = {"file_id": "d", "file_unique_id": "u", "file_name": "plan.pdf", "file_size": 99}
        update = await api.say(None, document=document, caption="read it")
        texts = await api.wait_for(2)
        assert texts[0].startswith("📎 1-plan.pdf could not be fetched: it is larger than")
        assert "read it" in texts[1]
        await api.add(update)
        await api.until(lambda: not api.waiting)
        api.files["gone"] = b"12"
        keep_file = chats.adapter.host.keep_file

        async def keep_and_lose(*given: Any) -> Path:
            path = await keep_file(*given)
            path.unlink()
            return path

        chats.adapter.host.keep_file = keep_and_lose
        document = {**document, "file_id": "gone", "file_size": 2}
        await api.say(None, document=document, caption="and this")
        texts = await api.wait_for(4)
        assert "plan.pdf cannot be read: No such file" in texts[2]
        assert "Attached file" not in asked(chats.model.requests[-1])
        assert len(texts) == 4
