"""Sending through the Bot API: markup, lengths, threads, buttons, files, and every refusal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("telegram")

from gateway.config import PlatformConfig
from gateway.fencing import fence_effects
from gateway.platforms.base import Button, MessageEvent, SendError
from gateway.platforms.telegram.adapter import TelegramAdapter
from gateway.splitting import split_message

from .bot_api import TOKEN, BotApi, Fault

pytestmark = pytest.mark.filterwarnings("ignore:.*retry_after")

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with BotApi() as server:
        yield server


@pytest.fixture
async def adapter(api: BotApi) -> AsyncIterator[TelegramAdapter]:
    async def nobody(event: MessageEvent) -> None:
        raise AssertionError("nothing comes in here")

    bot = TelegramAdapter(PlatformConfig(True, TOKEN, extra={"base_url": api.url}), nobody)
    await bot.connect()
    yield bot
    await bot.disconnect()


def test_the_library_is_not_imported_before_it_is_used() -> None:
    code = "import sys, gateway.platforms.telegram.adapter; print('telegram' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_markup_is_shown(api: BotApi, adapter: TelegramAdapter) -> None:
    sent = await adapter.send("42", adapter.format("**Hi** & `x<y`"), thread_id="7", reply_to="3")
    shown = api.sent[0]
    assert sent == str(shown.id)
    assert (shown.text, shown.raw) == ("Hi & x<y", "<b>Hi</b> &amp; <code>x&lt;y</code>")
    assert (shown.thread_id, shown.reply_to) == ("7", 3)


async def test_markup_that_is_refused_is_sent_as_text(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    await adapter.send("42", "<b>bold & <i>crossed</b></i>")
    assert api.texts() == ["bold & crossed"]
    assert api.sent[0].parse_mode is None


async def test_every_part_of_a_long_answer_is_taken(api: BotApi, adapter: TelegramAdapter) -> None:
    code = "\n".join(f"if a < {number}: print('😀')" for number in range(300))
    answer = f"# Title\n\n```python\n{code}\n```\n\n" + "**bold** text & more. " * 400
    parts = split_message(answer, adapter.capabilities.max_length, adapter.measure)
    for part in parts:
        await adapter.send("42", adapter.format(part))
    assert len(parts) > 2
    assert all(one.parse_mode == "HTML" for one in api.sent)


async def test_a_text_that_telegram_finds_too_long_is_divided(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    await adapter.send("42", "word " * 1600)
    assert len(api.texts()) > 1
    assert "".join(api.texts()).count("word") == 1600


async def test_an_empty_answer_is_still_a_message(api: BotApi, adapter: TelegramAdapter) -> None:
    await adapter.send("42", adapter.format("```\n```"))
    assert api.texts() == ["…"]


async def test_edits(api: BotApi, adapter: TelegramAdapter) -> None:
    sent = await adapter.send("42", "one")
    assert sent is not None
    await adapter.edit("42", sent, "<b>two</b>")
    await adapter.edit("42", sent, "<b>two</b>")  # the same again is no error
    assert (api.sent[0].text, api.sent[0].versions) == ("two", ["one"])
    with pytest.raises(SendError) as refused:
        await adapter.edit("42", "999", "three")
    assert refused.value.permanent


async def test_buttons_of_any_length(api: BotApi, adapter: TelegramAdapter) -> None:
    await adapter.send("42", "?", buttons=[Button("A", "a:1"), Button("B", "b" * 200)])
    short, long = api.sent[0].buttons
    assert short["callback_data"] == "a:1"
    assert adapter._sender.button_data(long["callback_data"]) == "b" * 200
    assert adapter._sender.button_data("long:of-an-earlier-run") is None


async def test_typing_and_reactions(api: BotApi, adapter: TelegramAdapter) -> None:
    await adapter.typing("42", "7")
    await adapter.react("42", "5", "👀")
    assert api.called("sendChatAction")[0].params["message_thread_id"] == "7"
    assert api.reactions == [("42", 5, [{"type": "emoji", "emoji": "👀"}])]


async def test_a_closed_topic_gets_its_answer_in_the_group(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    api.closed_topics.add("7")
    await adapter.send("-100", "hello", thread_id="7")
    assert api.sent[0].thread_id is None


async def test_a_group_that_was_moved_is_followed(api: BotApi, adapter: TelegramAdapter) -> None:
    api.moved["-5"] = -1005
    await adapter.send("-5", "hello")
    assert api.texts(-1005) == ["hello"]


async def test_a_flood_is_told_how_long_to_wait(api: BotApi, adapter: TelegramAdapter) -> None:
    api.faults.append(Fault("429", "sendMessage", retry_after=17))
    with pytest.raises(SendError) as refused:
        await adapter.send("42", "hello")
    assert refused.value.retry_after == 17
    assert not refused.value.permanent and not refused.value.unsure


async def test_blocked_and_unknown_chats_are_given_up(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    api.blocked.add("1")
    api.gone.add("2")
    for chat_id in ("1", "2"):
        with pytest.raises(SendError) as refused:
            await adapter.send(chat_id, "hello")
        assert refused.value.permanent


@pytest.mark.parametrize(("kind", "unsure"), [("502", False), ("drop", True), ("drop_after", True)])
async def test_trouble_on_the_way(
    api: BotApi, adapter: TelegramAdapter, kind: str, unsure: bool
) -> None:
    api.faults.append(Fault(kind, "sendMessage"))
    with pytest.raises(SendError) as refused:
        await adapter.send("42", "hello")
    assert not refused.value.permanent
    assert refused.value.unsure is unsure


async def test_a_server_that_is_away_has_certainly_shown_nothing(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    await api.close()
    with pytest.raises(SendError) as refused:
        await adapter.send("42", "hello")
    assert not refused.value.permanent and not refused.value.unsure
    await api.open()


async def test_after_disconnecting_nothing_can_be_sent(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    await adapter.disconnect()
    with pytest.raises(SendError, match="not connected"):
        await adapter.send("42", "hello")


async def test_a_wrong_token_is_named_but_not_shown(api: BotApi) -> None:
    async def nobody(event: MessageEvent) -> None: ...

    config = PlatformConfig(True, "1:secret-and-wrong", extra={"base_url": api.url})
    bot = TelegramAdapter(config, nobody)
    with pytest.raises(ConnectionError, match="TELEGRAM_BOT_TOKEN") as refused:
        await bot.connect()
    assert "secret-and-wrong" not in str(refused.value)
    await bot.disconnect()


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [("a.png", PNG, "photo"), ("fake.png", b"not one", "document"), ("a.pdf", b"%PDF", "document"),
     ("a.ogg", b"OggS", "voice")],
)  # fmt: skip
async def test_files_are_sent_as_what_they_are(
    api: BotApi, adapter: TelegramAdapter, tmp_path: Path, name: str, data: bytes, kind: str
) -> None:
    (tmp_path / name).write_bytes(data)
    await adapter.send_media("42", str(tmp_path / name), thread_id="7")
    shown = api.sent[0]
    assert (shown.kind, shown.file, shown.thread_id) == (kind, (name, data), "7")


async def test_a_file_that_cannot_be_sent_is_named(
    api: BotApi, adapter: TelegramAdapter, tmp_path: Path
) -> None:
    (tmp_path / "empty.txt").touch()
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    for name in ("gone.txt", "empty.txt", "large.bin"):
        await adapter.send_media("42", str(tmp_path / name))
        assert name in api.texts()[-1]


async def test_nothing_is_written_under_a_lease_that_is_lost_on_the_way(
    api: BotApi, adapter: TelegramAdapter
) -> None:
    looks: list[bool] = []

    def is_sure() -> bool:
        looks.append(not looks)
        return looks[-1]  # ours when it is called, lost when it has its connection

    fence_effects(adapter, is_sure)
    before = len(api.calls)
    with pytest.raises(SendError, match="another replica") as refused:
        await adapter.send("42", "late")
    assert not refused.value.unsure and not refused.value.permanent, "whoever has it sends it"
    assert looks == [True, False]
    assert (api.sent, len(api.calls)) == ([], before)
