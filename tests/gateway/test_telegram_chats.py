"""Telegram end to end: groups, topics, edits, files, previews, reactions, webhooks."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("telegram")

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway import delivery, supervision
from gateway.platforms.telegram import media as telegram_files
from gateway.platforms.telegram import polling as telegram_polling
from hermes_state import StoreBusyError

from .bot_api import TOKEN, BotApi, Fault
from .telegram_chats import telegram_gateway

pytestmark = pytest.mark.filterwarnings("ignore:.*retry_after")

STREAMING = {"enabled": True, "edit_interval": 0.01}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, telegram_polling):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(telegram_files, "PAUSE", 0.01)


async def test_a_group_with_topics(tmp_path: Path) -> None:
    where: dict[str, Any] = {"chat_id": -100, "chat_type": "supergroup"}
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        await api.say("nobody is meant", **where)
        await api.say("@hermes_bot one", message_thread_id=7, is_topic_message=True, **where)
        await api.say("@hermes_bot two", message_thread_id=8, is_topic_message=True, **where)
        await api.wait_for(2, -100)
        assert {(one.text, one.thread_id) for one in api.sent} == {
            ("re: one", "7"),
            ("re: two", "8"),
        }
        assert set(chats.runner.session_store._entries) == {
            "agent:main:telegram:group:-100:7",
            "agent:main:telegram:group:-100:8",
        }


async def test_an_edited_message_is_a_new_one_each_time(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api):
        await api.say("hello", message_id=500)
        await api.wait_for(1)
        versions = [
            api.message(text, kind="edited_message", message_id=500, edit_date=1_700_000_100)
            for text in ("hello world", "hello moon")
        ]
        await api.add(versions[0])
        await api.wait_for(2)
        await api.add(versions[1], {**versions[0], "update_id": versions[1]["update_id"] + 1})
        await api.wait_for(3)
        await api.say("end")
        assert await api.wait_for(4) == [
            "re: hello", "re: hello world", "re: hello moon", "re: end",
        ]  # fmt: skip


async def test_files_come_in(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(request: ModelRequest) -> Step:
        seen.append(request.messages[-1]["content"])
        return say("seen")

    async with (
        BotApi() as api,
        telegram_gateway(
            tmp_path / "home", api, itertools.repeat(look), max_inbound_media_bytes=1000
        ),
    ):
        api.files = {"pic": PNG, "pdf": b"%PDF", "big": b"x" * 2000}
        api.faults.append(Fault("502", "getFile"))
        await api.say(None, photo=[{"file_id": "pic", "width": 1, "height": 1}], caption="what?")
        await api.wait_for(1)
        await api.say(None, document={"file_id": "pdf", "file_name": "../x y.pdf"})
        await api.wait_for(2)
        await api.say(None, voice={"file_id": "big", "file_size": 2000})
        await api.wait_for(4)
        await api.say(None, document={"file_id": "big", "file_name": "liar.bin"})
        await api.wait_for(6)
    assert seen[0][0]["text"] == "what?" and seen[0][1]["type"] == "image_url"
    kept = sorted((tmp_path / "home" / "media" / "telegram" / "42").iterdir())
    assert [one.name.partition("-")[2] for one in kept] == ["photo.jpg", "x_y.pdf"]
    assert str(kept[1]) in str(seen[1])
    assert "could not be fetched" in str(seen[2]) and "larger than 1,000" in str(seen[2])
    assert "could not be fetched" in str(seen[3])


async def test_files_of_strangers_are_not_fetched(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, allow_all=False):
        api.files = {"pic": PNG}
        await api.say(None, photo=[{"file_id": "pic", "width": 1, "height": 1}])
        assert "pairing code" in (await api.wait_for(1))[0]
        assert not api.called("getFile")
        assert not (tmp_path / "home" / "media").exists()


async def test_files_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    monkeypatch.chdir(work)
    steps = [say("Here:\n\nMEDIA:chart.png\n\nMEDIA:/etc/passwd"), say("MEDIA:chart.png")]
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps):
        await api.say("draw")
        await api.wait_for(2)
        assert api.sent[0].text == "Here:\n\nMEDIA:/etc/passwd"
        assert (api.sent[1].kind, api.sent[1].file) == ("photo", ("chart.png", PNG))
        await api.say("again")
        await api.wait_for(3)
        assert api.sent[2].kind == "photo"


async def test_a_file_that_fails_is_tried_again_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, [say("Here:\nMEDIA:chart.png")]),
    ):
        api.faults += [Fault("429", "sendPhoto"), Fault("502", "sendPhoto")]
        await api.say("draw")
        await api.wait_for(2)
        assert [one.kind for one in api.sent] == ["text", "photo"]


async def test_an_answer_grows_and_ends_whole(tmp_path: Path) -> None:
    release, more = asyncio.Event(), asyncio.Event()
    steps = [
        say("The **beginning** of a long answer,", more, " its middle", release, " and its end.")
    ]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, steps, streaming=streaming),
    ):
        api.faults.append(Fault("429", "editMessageText"))
        await api.say("tell me")
        await api.wait_for(1)
        assert api.texts() == ["The beginning of a long answer, ▉"]
        more.set()
        await api.until(lambda: "its middle" in api.texts()[0])
        release.set()
        whole = "The beginning of a long answer, its middle and its end."
        await api.until(lambda: api.texts() == [whole])
        assert api.sent[0].raw.startswith("The <b>beginning</b>")


async def test_a_preview_that_was_deleted_is_answered_anew(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say("The beginning of a long answer,", release, " and its end.")]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with (
        BotApi() as api,
        telegram_gateway(tmp_path / "home", api, steps, streaming=streaming),
    ):
        await api.say("tell me")
        await api.wait_for(1)
        api.sent.clear()
        release.set()
        assert await api.wait_for(1) == ["The beginning of a long answer, and its end."]


async def test_messages_are_acknowledged_where_wanted(tmp_path: Path) -> None:
    async with BotApi() as api:
        async with telegram_gateway(tmp_path / "home", api):
            await api.say("hello")
            await api.wait_for(1)
        assert api.reactions == []
        async with telegram_gateway(tmp_path / "home", api, extra={"reactions": True}):
            update = await api.say("hello again")
            await api.until(lambda: bool(api.reactions))
            await api.wait_for(2)
        assert api.reactions[0][:2] == ("42", update["message"]["message_id"])


async def test_a_question_of_the_model_has_buttons(tmp_path: Path) -> None:
    steps = [call("clarify", question="Which?", choices=["red", "blue"]), say("As you wish.")]
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, steps) as chats:
        await api.say("paint it")
        await api.until(lambda: any(one.buttons for one in api.sent))
        await api.press(api.sent[-1], "blue")
        await api.until(lambda: "As you wish." in api.texts())
        results = [one for one in chats.model.requests[-1].messages if one["role"] == "tool"]
        assert "blue" in results[0]["content"]


async def test_while_the_store_fails_nothing_is_confirmed(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        take, failures = chats.adapter.on_message, itertools.count()

        async def failing(event: Any) -> None:
            if next(failures) < 10:
                raise StoreBusyError("locked")
            await take(event)

        chats.adapter.on_message = failing
        await api.say("hello")
        assert await api.wait_for(1) == ["re: hello"]
        assert next(failures) >= 11


async def test_one_message_that_cannot_be_taken_does_not_keep_others_out(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        take = chats.adapter.on_message

        async def faulty(event: Any) -> None:
            if event.text == "poison":
                raise LookupError("a fault of ours")
            await take(event)

        chats.adapter.on_message = faulty
        await api.say("poison")
        await api.say("hello")
        assert await api.wait_for(1) == ["re: hello"]


async def test_a_second_gateway_with_the_token_is_reported(tmp_path: Path) -> None:
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api) as chats:
        await api.until(lambda: bool(api.called("getUpdates")))
        async with httpx.AsyncClient() as client:
            await client.post(f"{api.url}/bot{TOKEN}/getUpdates", data={"timeout": 0})
        states = chats.runner.supervisor.states
        while "terminated by other" not in states["telegram"]:
            await asyncio.sleep(0.002)
        await api.say("hello")
        assert await api.wait_for(1) == ["re: hello"]


async def test_a_webhook(tmp_path: Path) -> None:
    extra = {"webhook_url": "https://bot.example/hook", "webhook_port": 0}
    async with BotApi() as api, telegram_gateway(tmp_path / "home", api, extra=extra) as chats:
        assert api.webhook["url"] == "https://bot.example/hook"
        url = f"http://127.0.0.1:{chats.adapter.webhook_port}"
        secret = {"X-Telegram-Bot-Api-Secret-Token": api.webhook["secret_token"]}
        update = api.message("hello")
        async with httpx.AsyncClient() as client:

            async def post(path: str = "/hook", headers: Any = None, **body: Any) -> int:
                return (await client.post(url + path, headers=headers, **body)).status_code

            assert await post(json=update) == 401
            wrong = {"X-Telegram-Bot-Api-Secret-Token": "wrong"}
            assert await post(json=update, headers=wrong) == 401
            assert await post("/other", json=update, headers=secret) == 404
            assert (await client.get(f"{url}/hook", headers=secret)).status_code == 405
            assert await post(content=b"{", headers=secret) == 400
            assert await post(content=b"1" * 5_000_000, headers=secret) == 413
            assert api.texts() == []
            assert await post(json=update, headers=secret) == 200
            assert await post(json=update, headers=secret) == 200
            assert await post(json=["odd"], headers=secret) == 200
            assert await api.wait_for(1) == ["re: hello"]

            async def full(event: Any) -> None:
                raise StoreBusyError("locked")

            chats.adapter.on_message = full
            assert await post(json=api.message("later"), headers=secret) == 503
        assert not api.called("getUpdates")


async def test_a_file_that_is_sent_from_outside_comes_once(tmp_path: Path) -> None:
    to = {"session_key": "agent:main:telegram:dm:42", "platform": "telegram", "chat_id": "42"}
    copy = tmp_path / "media" / "sent" / "1" / "report.pdf"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"%PDF")
    (tmp_path / "config.pdf").write_bytes(b"%PDF")
    async with BotApi() as api, telegram_gateway(tmp_path, api) as chats:
        # Only what was put where such files lie; a name alone reads nothing.
        chats.db.add_delivery("file:send:a:0", str(tmp_path / "config.pdf"), **to)
        chats.db.add_delivery("file:send:b:0", str(copy), **to)
        await api.until(lambda: len(api.sent) == 1)
        assert api.sent[0].file == ("report.pdf", b"%PDF")
        await api.until(lambda: len(chats.db.list_deliveries(("delivered",))) == 1)
        [failed] = chats.db.list_deliveries(("failed",))
        assert "is not here to be sent" in failed["last_error"]
