"""Discord end to end: servers, threads, files, commands, outages, and what was missed."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("discord", reason="discord.py is not installed: pip install -e '.[discord]'")

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway import delivery, supervision
from gateway.config import Platform, PlatformConfig
from gateway.delivery import BROKEN
from gateway.platforms import lanes
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.discord import adapter as discord_adapter
from gateway.platforms.discord import media as discord_files
from gateway.platforms.discord import reader, sending
from gateway.platforms.discord.adapter import DiscordAdapter, DiscordError
from gateway.platforms.host import StandaloneHost

from .adapter_conformance import running, until
from .discord_api import BOT_ID, MESSAGE_CONTENT, TOKEN, DiscordApi, Fault
from .discord_chats import DiscordPlace, discord_gateway

ME = f"<@{BOT_ID}>"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, lanes, reader):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(discord_files, "PAUSE", 0.01)
    monkeypatch.setattr(reader, "SAVE_SECONDS", 0.01)


def server(api: DiscordApi) -> None:
    """A server with a channel and a thread in it."""
    api.add_channel("500", guild="900")
    api.add_channel("501", guild="900", parent="500")


async def test_a_server_with_a_thread(tmp_path: Path) -> None:
    async with DiscordApi() as api:
        server(api)
        async with discord_gateway(tmp_path / "home", api) as chats:
            await api.say("nobody is meant", channel_id="500")
            await api.say(f"{ME} one @everyone", channel_id="500")
            await api.say(f"two {ME} <@43>", channel_id="501")
            await api.wait_for(1, "500")
            await api.wait_for(1, "501")
            assert api.texts("500") == ["re: one @everyone"]
            assert api.texts("501") == ["re: two  @Bob"]
            shown = api._messages["500"][-1]
            assert not shown["mention_everyone"], "nobody is notified by an answer"
            ours = api.sent[0]
            await api.say("and then?", channel_id="500", reply_to=shown | {"type": 0})
            assert (await api.wait_for(2, "500"))[1] == "re: and then?"
            assert ours.payload["allowed_mentions"]["parse"] == []
            assert set(chats.runner.session_store._entries) == {
                "agent:main:discord:group:500:42",
                "agent:main:discord:thread:501:501",
            }


async def test_everything_is_read_only_with_the_intent(tmp_path: Path) -> None:
    extra = {"free_response_channels": ["500"]}
    async with DiscordApi() as api:
        server(api)
        config = PlatformConfig(enabled=True, token=TOKEN, extra={"base_url": api.url, **extra})
        adapter = DiscordAdapter(config, lambda event: asyncio.sleep(0))
        await adapter.connect()
        with pytest.raises(DiscordError, match="Message Content intent"):
            await adapter.run()
        await adapter.disconnect()
        api.allowed_intents |= MESSAGE_CONTENT
        async with discord_gateway(tmp_path / "home", api, extra=extra):
            await api.say("for whom?", channel_id="500")
            assert await api.wait_for(1, "500") == ["re: for whom?"]


async def test_a_token_that_is_void_says_what_to_change() -> None:
    async with DiscordApi() as api:
        for token, match in (("", "set DISCORD_BOT_TOKEN"), ("a.b.c", "check DISCORD_BOT_TOKEN")):
            config = PlatformConfig(enabled=True, token=token, extra={"base_url": api.url})
            with pytest.raises(DiscordError, match=match):
                await DiscordAdapter(config, lambda event: asyncio.sleep(0)).connect()


async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    async with DiscordApi() as api:
        server(api)
        api.add_channel("43", "43")
        home = tmp_path / "home"
        async with discord_gateway(home, api, allow_all=False, allowed_users=("42",)) as chats:
            await api.say(f"{ME} hello", channel_id="500", user_id="43")
            pressed = await api.use("status", channel_id="500", user_id="43")
            await api.say("hello", channel_id="43", user_id="43", files={"a.png": PNG})
            assert "pairing code" in (await api.wait_for(1, "43"))[0]
            await api.until(lambda: pressed in api.responses)
            assert api.responses[pressed]["data"]["content"] == reader.NOT_YOURS
            assert not api.texts("500") and not (home / "media").exists()
            code = api.texts("43")[0].partition("code is ")[2].split()[0]
            assert chats.db.approve_pairing(code)
            await api.say("now?", channel_id="43", user_id="43")
            assert (await api.wait_for(2, "43"))[1] == "re: now?"


async def test_commands_are_registered_and_used(tmp_path: Path) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        names = {one["name"] for one in api.commands}
        assert {"new", "status", "stop", "approve", "last"} <= names
        await api.say("hello")
        await api.wait_for(1)
        used = await api.use("title", "A plan")
        assert "A plan" in (await api.wait_for(2))[1]
        await api.until(lambda: used in api.responses)
        assert api.responses[used]["data"]["flags"] == 64, "shown to the person alone"
        await api.use("last")
        assert (await api.wait_for(3))[2] == "re: hello"


async def test_files_come_in(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(request: ModelRequest) -> Step:
        seen.append(request.messages[-1]["content"])
        return say("seen")

    home = tmp_path / "home"
    async with (
        DiscordApi() as api,
        discord_gateway(home, api, itertools.repeat(look), max_inbound_media_bytes=1000),
    ):
        await api.say("what?", files={"pic.png": PNG})
        await api.wait_for(1)
        await api.say("", files={"x y.pdf": b"%PDF"})
        await api.wait_for(2)
        await api.say("", files={"big.ogg": b"x" * 2000})
        await api.wait_for(4)
        message = api.message("gone", files={"gone.txt": b"x"})
        api.files.clear()
        await api.add(message)
        await api.wait_for(6)
    assert seen[0][0]["text"] == "what?" and seen[0][1]["type"] == "image_url"
    kept = sorted((home / "media" / "discord" / "42").iterdir())
    assert [one.name.partition("-")[2] for one in kept] == ["pic.png", "x_y.pdf"]
    assert str(kept[1]) in str(seen[1])
    assert "larger than 1,000" in str(seen[2])
    assert "Discord answers 404" in str(seen[3])


async def test_files_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    (work / "film.mp4").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    monkeypatch.chdir(work)
    steps = [say("Here:\n\nMEDIA:chart.png\n\nMEDIA:/etc/passwd"), say("MEDIA:film.mp4")]
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api, steps):
        await api.say("draw")
        await api.wait_for(2)
        assert api.sent[0].content == "Here:\n\nMEDIA:/etc/passwd"
        assert api.sent[1].files == [("chart.png", PNG)]
        await api.say("again")
        assert "too large for Discord" in (await api.wait_for(3))[2]


async def test_approvals_have_buttons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keep").write_text("x")
    steps = [call("terminal", command="rm -rf keep"), say("done")]
    async with DiscordApi() as api:
        server(api)
        home = tmp_path / "home"
        async with discord_gateway(home, api, steps, allow_all=False, allowed_users=("42",)):
            await api.say(f"{ME} clean up", channel_id="500")
            assert "May I" in (await api.wait_for(1, "500"))[0]
            question = api.sent[0]
            assert [one["label"] for one in question.buttons][-1] == "Deny"
            refused = await api.press(question, "Deny", user_id="43")
            await api.until(lambda: refused in api.responses)
            assert api.responses[refused]["type"] == 4, "told that it is not theirs"
            pressed = await api.press(question, "Allow once")
            assert (await api.wait_for(2, "500"))[-1] == "done"
            await api.until(lambda: pressed in api.responses)
            answer = api.responses[pressed]
            assert (answer["type"], answer["data"]["components"]) == (7, []), "no buttons are left"
    assert not (tmp_path / "keep").exists()


async def test_an_answer_grows(tmp_path: Path) -> None:
    hold = asyncio.Event()
    steps = [say("This is the beginning of a long answer, ", hold, "and this its end.")]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with (
        DiscordApi() as api,
        discord_gateway(tmp_path / "home", api, steps, streaming=streaming) as chats,
    ):
        await api.say("go on")
        await api.wait_for(1)
        assert api.texts()[0].startswith("This is the beginning") and "▉" in api.texts()[0]
        assert api.typing
        hold.set()
        whole = "This is the beginning of a long answer, and this its end."
        await api.until(lambda: api.texts() == [whole])
        assert len(api.sent) == 1 and chats.adapter.capabilities.edits


async def test_an_edited_message_is_a_new_one_and_a_preview_is_none(tmp_path: Path) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        message = await api.say("hello https://example.org")
        await api.wait_for(1)
        await api.unfurl(message)
        await api.rewrite(message, "hello world")
        await api.wait_for(2)
        await api.again("MESSAGE_UPDATE")
        await api.say("end")
        assert (await api.wait_for(3))[1:] == ["re: hello world", "re: end"]


async def test_a_session_that_breaks_is_resumed(tmp_path: Path) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        await api.say("one")
        await api.wait_for(1)
        await api.cut(4000)
        await api.say("two")
        assert await api.wait_for(2) == ["re: one", "re: two"]
        assert (api.identified, api.resumed) == (1, 1)


async def test_what_was_missed_is_read_from_the_history(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with DiscordApi() as api:
        server(api)
        await api.say("before our time")
        async with discord_gateway(home, api):
            await api.say("one")
            await api.say(f"{ME} here", channel_id="500")
            await api.wait_for(1)
            await api.wait_for(1, "500")
            await api.forget_sessions()
            await api.say("two")
            await api.say(f"{ME} there", channel_id="501")
            await api.wait_for(2)
            await api.wait_for(1, "501")
        # Nobody is there; more than a page is said.
        for number in range(120):
            await api.say(f"{number}", channel_id="500")
        await api.say(f"{ME} late", channel_id="500")
        await api.say("three")
        async with discord_gateway(home, api):
            await api.wait_for(3)
            await api.say("four")
            await api.wait_for(4)
            await api.wait_for(2, "500")
        assert api.texts() == ["re: one", "re: two", "re: three", "re: four"]
        assert api.texts("500") == ["re: here", "re: late"]
        assert api.texts("501") == ["re: there"]
        kept = json.loads((home / "gateway" / "discord-place.json").read_text())
        assert kept["account"] == str(BOT_ID) and int(kept["direct"]["42"])


async def test_a_message_that_is_told_again_is_answered_once(tmp_path: Path) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        await api.say("hello")
        await api.again()
        await api.wait_for(1)
        await api.again()
        await api.say("end")
        assert await api.wait_for(2) == ["re: hello", "re: end"]


async def test_an_answer_whose_connection_breaks_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        api.faults.append(Fault("drop_after", "/messages", method="POST"))
        await api.say("one")
        await api.until(lambda: len(api.called("POST", "/messages")) == 2)
        assert await api.wait_for(1) == ["re: one"], "its nonce was known"
        # Discord may have forgotten the nonce by now: the channel is looked through.
        monkeypatch.setattr(sending, "NONCE_SECONDS", 0.0)
        looked = len(api.called("GET", "/channels/42/messages"))
        api.faults.append(Fault("drop_after", "/messages", method="POST"))
        await api.say("two")
        await api.until(lambda: len(api.called("GET", "/channels/42/messages")) > looked)
        await api.say("three")
        assert await api.wait_for(3) == ["re: one", "re: two", "re: three"]
        api.faults.append(Fault("drop", "/messages", method="POST"))
        await api.say("four")
        assert (await api.wait_for(4))[3] == "re: four", "it was not shown, so it is sent"
        assert BROKEN not in api.texts()


async def test_limits_are_obeyed(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} " + "x" * 90 for number in range(160))
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api, [say(text)]):
        api.limit, api.limit_seconds = 3, 0.3
        await api.say("much")
        await api.until(lambda: "line 159 " in "".join(api.texts()), 60)
        assert all(len(one) <= 2000 for one in api.texts())
        shown = "\n".join(api.texts())
        assert [f"line {number} " in shown for number in range(160)] == [True] * 160
        assert len(api.sent) == len(set(api.texts())), "nothing is shown twice"
        assert api.refused


async def test_an_outage_of_everything_ends(tmp_path: Path) -> None:
    async with DiscordApi() as api, discord_gateway(tmp_path / "home", api):
        await api.say("one")
        await api.wait_for(1)
        api.outage = "503"
        await api.say("two")
        await api.until(lambda: api.refused >= 3)
        await api.close()
        await api.add(api.message("three"))
        api.outage = None
        await api.open()
        assert await api.wait_for(3) == ["re: one", "re: two", "re: three"]


async def test_a_gateway_that_stays_silent_is_connected_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord_adapter, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(discord_adapter, "LOOK_SECONDS", 0.01)
    async with DiscordApi() as api:
        place = DiscordPlace(api, tmp_path)
        await place.adapter.connect()
        running = asyncio.ensure_future(place.adapter.run())
        await api.until(lambda: api.connected == 1)
        await api.close()
        with pytest.raises(ConnectionError):
            await running
        await place.adapter.disconnect()
        await api.open()


async def test_chats_that_are_gone_are_told_apart(tmp_path: Path) -> None:
    async with DiscordApi() as api:
        place = DiscordPlace(api, tmp_path)
        api.add_channel("43", "43")
        async with running(place.adapter) as adapter:
            api.closed_to_us.add("43")
            api.gone.add("42")
            for chat_id in ("42", "43", "77", "not a number"):
                with pytest.raises(SendError) as refused:
                    await adapter.send(chat_id, "hello", key="k")
                assert refused.value.permanent and not refused.value.unsure, chat_id
            with pytest.raises(SendError) as late:
                api.gone.clear()
                api.faults.append(Fault("drop_after", "/messages", method="POST"))
                await adapter.send("42", "hello")
            assert late.value.unsure and not late.value.permanent, "without a key nobody knows"


async def test_hostile_names_and_texts(tmp_path: Path) -> None:
    events: list[MessageEvent] = []

    async def take(event: MessageEvent) -> None:
        events.append(event)

    async with DiscordApi() as api:
        config = PlatformConfig(
            enabled=True, token=TOKEN, allow_all=True, extra={"base_url": api.url}
        )
        adapter = DiscordAdapter(config, StandaloneHost(config, take, tmp_path))
        async with running(adapter):
            await api.until(lambda: api.connected == 1)
            await api.say("a\x00b \ud800 c", name="\u202eevil\x00" * 60)
            await api.say("", files={"../../etc/passwd": b"root"})
            await api.say("x" * 4000, sticker_items=[{"id": "1", "name": "s", "format_type": 1}])
            await api.say("from a bot", author={**api._user("7"), "bot": True})
            await api.say("joined", type=7)
            await api.say("end")
            await until(lambda: bool(events) and events[-1].text == "end")
        assert [event.text for event in events] == ["ab \ufffd c", "", "x" * 4000, "end"]
        assert len(events[0].source.user_name or "") <= 128
        assert Path(events[1].media[0]).parent == tmp_path / "media" / "standalone" / "42"
        assert Platform.DISCORD is events[0].source.platform
