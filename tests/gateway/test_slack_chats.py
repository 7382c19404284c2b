"""Slack end to end: threads, files, commands, outages, and what was missed."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("slack_sdk", reason="slack-sdk is not installed: pip install -e '.[slack]'")

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway import delivery, supervision
from gateway.config import PlatformConfig
from gateway.delivery import BROKEN
from gateway.platforms import lanes
from gateway.platforms.base import SendError
from gateway.platforms.slack import adapter as slack_adapter
from gateway.platforms.slack import media as slack_files
from gateway.platforms.slack import reader
from gateway.platforms.slack.adapter import SlackAdapter, SlackError

from .adapter_conformance import running
from .slack_api import BOT_TOKEN, ME, Fault, SlackApi
from .slack_chats import SlackPlace, section, slack_gateway

US = f"<@{ME}>"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, reader, lanes):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(slack_files, "PAUSE", 0.01)
    monkeypatch.setattr(slack_adapter, "PING_SECONDS", 0.05)
    monkeypatch.setattr(reader, "SAVE_SECONDS", 0.01)


async def test_a_channel_is_answered_in_threads(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api) as chats:
        api.members.append("C1")
        await api.say("nobody is meant", channel="C1")
        first = await api.say(f"{US} one <!channel>", channel="C1")
        await api.wait_for(1, "C1")
        await api.say(f"{US} two", channel="C1", thread=first["ts"], user="U43")
        await api.wait_for(2, "C1")
        second = await api.say(f"{US} three", channel="C1")
        assert await api.wait_for(3, "C1") == ["re: one @channel", "re: two", "re: three"]
        assert [one.thread for one in api.sent] == [first["ts"], first["ts"], second["ts"]]
        assert set(chats.runner.session_store._entries) == {
            f"agent:main:slack:group:C1:{first['ts']}",
            f"agent:main:slack:group:C1:{second['ts']}",
        }
        assert len(api.called("chat.postMessage")) == 3, "told twice, answered once"


async def test_everything_in_a_free_channel_is_answered(tmp_path: Path) -> None:
    extra = {"free_response_channels": ["C1"]}
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api, extra=extra):
        api.members.append("C1")
        await api.say("for whom?", channel="C1")
        assert await api.wait_for(1, "C1") == ["re: for whom?"]


async def test_tokens_that_are_void_say_what_to_change() -> None:
    async with SlackApi() as api:
        for token, extra, match in (
            ("", {}, "SLACK_BOT_TOKEN"),
            ("xoxb-other", {}, "check SLACK_BOT_TOKEN"),
            (BOT_TOKEN, {"app_token": ""}, "SLACK_APP_TOKEN"),
            (BOT_TOKEN, {"app_token": BOT_TOKEN}, "check SLACK_APP_TOKEN"),
        ):
            config = PlatformConfig(enabled=True, token=token, extra=section(api, **extra))
            with pytest.raises(SlackError, match=match):
                await SlackAdapter(config, lambda event: asyncio.sleep(0)).connect()


async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        SlackApi() as api,
        slack_gateway(home, api, allow_all=False, allowed_users=("U42",)) as chats,
    ):
        api.members += ["C1", "D43"]
        await api.say(f"{US} hello", channel="C1", user="U43")
        await api.say("hello", channel="D43", user="U43", files={"a.png": PNG})
        assert "pairing code" in (await api.wait_for(1, "D43"))[0]
        assert not api.texts("C1") and not (home / "media").exists()
        code = api.texts("D43")[0].partition("code is ")[2].split()[0]
        assert chats.db.approve_pairing(code)
        await api.say("now?", channel="D43", user="U43")
        assert (await api.wait_for(2, "D43"))[1] == "re: now?"


async def test_commands(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        await api.say("hello")
        await api.wait_for(1)
        await api.use("title A plan")
        assert "A plan" in (await api.wait_for(2))[1]
        await api.say("!last")
        assert (await api.wait_for(3))[2] == "re: hello"


async def test_files_come_in(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(request: ModelRequest) -> Step:
        seen.append(request.messages[-1]["content"])
        return say("seen")

    home = tmp_path / "home"
    async with (
        SlackApi() as api,
        slack_gateway(home, api, itertools.repeat(look), max_inbound_media_bytes=1000),
    ):
        await api.say("what?", files={"pic.png": PNG})
        await api.wait_for(1)
        await api.say("", files={"../x y.pdf": b"%PDF"})
        await api.wait_for(2)
        await api.say("", files={"big.ogg": b"x" * 2000})
        await api.wait_for(4)
        elsewhere = {"id": "F9", "name": "bait.txt", "mode": "external", "is_external": True}
        elsewhere["url_private"] = "https://evil.example.org/"
        message = api.message("", subtype="file_share")
        message["files"] = [elsewhere]
        await api.tell(message)
        await api.wait_for(6)
    assert seen[0][0]["text"] == "what?" and seen[0][1]["type"] == "image_url"
    kept = sorted((home / "media" / "slack" / "D42").iterdir())
    assert [one.name.partition("-")[2] for one in kept] == ["pic.png", "x_y.pdf"]
    assert str(kept[1]) in str(seen[1])
    assert "larger than 1,000" in str(seen[2])
    assert "does not lie on Slack" in str(seen[3])


async def test_files_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    monkeypatch.chdir(work)
    steps = [say("Here:\n\nMEDIA:chart.png\n\nMEDIA:/etc/passwd")]
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api, steps):
        api.members.append("C1")
        asked = await api.say(f"{US} draw", channel="C1")
        await api.wait_for(2, "C1")
        assert api.sent[0].text == "Here:\n\nMEDIA:/etc/passwd"
        assert (api.sent[1].file, api.sent[1].thread) == (("chart.png", PNG), asked["ts"])


async def test_approvals_have_buttons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keep").write_text("x")
    steps = [call("terminal", command="rm -rf keep"), say("done")]
    home = tmp_path / "home"
    async with (
        SlackApi() as api,
        slack_gateway(home, api, steps, allow_all=False, allowed_users=("U42",)),
    ):
        api.members.append("C1")
        await api.say(f"{US} clean up", channel="C1")
        assert "May I" in (await api.wait_for(1, "C1"))[0]
        question = api.sent[0]
        assert [one["text"]["text"] for one in question.buttons][-1] == "Deny"
        await api.press(question, "Deny", user="U43")
        await api.until(lambda: api.whispers == [("U43", reader.NOT_YOURS)])
        assert question.buttons
        await api.press(question, "Allow once")
        assert (await api.wait_for(2, "C1"))[-1] == "done"
        await api.until(lambda: not question.buttons)
        assert "May I" in question.text
    assert not (tmp_path / "keep").exists()


async def test_an_answer_grows(tmp_path: Path) -> None:
    hold = asyncio.Event()
    steps = [say("This is the beginning of a long answer, ", hold, "and this its end.")]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with (
        SlackApi() as api,
        slack_gateway(tmp_path / "home", api, steps, streaming=streaming),
    ):
        await api.say("go on")
        await api.wait_for(1)
        assert api.texts()[0].startswith("This is the beginning") and "▉" in api.texts()[0]
        hold.set()
        whole = "This is the beginning of a long answer, and this its end."
        await api.until(lambda: api.texts() == [whole])
        assert len(api.sent) == 1


async def test_an_edited_message_is_a_new_one_and_a_preview_is_none(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        message = await api.say("hello https://example.org")
        await api.wait_for(1)
        await api.unfurl(message)
        await api.rewrite(message, "hello world")
        await api.wait_for(2)
        await api.say("end")
        assert (await api.wait_for(3))[1:] == ["re: hello world", "re: end"]


async def test_what_is_not_acknowledged_comes_again_and_is_answered_once(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        api.redeliver_seconds = 0.0
        for number in range(5):
            await api.say(f"{number}")
            await api.wait_for(number + 1)
        message = await api.say("again")
        await api.tell(message)
        await api.wait_for(6)
        await api.until(lambda: not api._waiting)
        assert api.texts() == [f"re: {word}" for word in (*range(5), "again")]


async def test_a_connection_that_breaks_is_made_again(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        await api.say("one")
        await api.wait_for(1)
        await api.cut()
        await api.say("two")
        await api.wait_for(2)
        await api.refresh()
        await api.until(lambda: api.hellos == 3)
        await api.say("three")
        assert await api.wait_for(3) == ["re: one", "re: two", "re: three"]


async def test_what_was_missed_is_read_from_the_histories(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with SlackApi() as api:
        api.members.append("C1")
        await api.say("before our time")
        api.forget_envelopes()
        async with slack_gateway(home, api):
            await api.say("one")
            asked = await api.say(f"{US} here", channel="C1")
            await api.wait_for(1)
            await api.wait_for(1, "C1")
        # Nobody is there, and Slack has given up delivering; more than a page is said.
        for number in range(220):
            await api.say(f"{number}", channel="C1")
        await api.say(f"{US} late", channel="C1")
        await api.say(f"{US} in the thread", channel="C1", thread=asked["ts"])
        await api.say("two")
        api.members.append("D43")
        await api.say("from somebody new", channel="D43", user="U43")
        api.forget_envelopes()
        api.faults.append(Fault("429", "conversations.history", retry_after=0.05))
        async with slack_gateway(home, api):
            await api.wait_for(2)
            await api.wait_for(3, "C1")
            await api.wait_for(1, "D43")
            await api.say("three")
            await api.wait_for(3)
        assert api.texts() == ["re: one", "re: two", "re: three"]
        assert api.texts("D43") == ["re: from somebody new"]
        assert sorted(api.texts("C1")) == ["re: here", "re: in the thread", "re: late"]
        kept = json.loads((home / "gateway" / "slack-place.json").read_text())
        assert kept["account"] == f"T1:{ME}" and kept["chats"]["D42"]


async def test_an_answer_whose_connection_breaks_is_shown_once(tmp_path: Path) -> None:
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        api.faults.append(Fault("drop_after", "chat.postMessage"))
        await api.say("one")
        await api.until(lambda: len(api.called("conversations.history")) >= 2)
        await api.say("two")
        assert await api.wait_for(2) == ["re: one", "re: two"]
        api.faults.append(Fault("drop", "chat.postMessage"))
        await api.say("three")
        api.faults.append(Fault("fatal_error", "chat.postMessage"))
        assert (await api.wait_for(3))[2] == "re: three", "it was not shown, so it is sent"
        # Without the scope nobody can look.
        api.missing_scopes.add("conversations.history")
        api.faults.append(Fault("drop_after", "chat.postMessage"))
        await api.say("four")
        assert (await api.wait_for(5))[3:] == ["re: four", BROKEN]


async def test_limits_are_obeyed(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} <&> " + "x" * 90 for number in range(160))
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api, [say(text)]):
        api.limit, api.limit_seconds = 2, 0.2
        await api.say("much")
        await api.until(lambda: "line 159 " in "".join(api.texts()), 60)
        assert all(len(one.text) <= 4000 for one in api.sent)
        joined = "\n".join(api.texts())
        assert all(f"line {number} <&> " in joined for number in range(160))
        assert len(api.sent) == len(set(api.texts())) and api.refused


async def test_an_outage_of_everything_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BRIEF_SECONDS", 0.0)  # as if it had lasted longer
    async with SlackApi() as api, slack_gateway(tmp_path / "home", api):
        await api.say("one")
        await api.wait_for(1)
        api.outage = "503"
        await api.say("two")
        await api.until(lambda: api.refused >= 3)
        await api.close()
        api._keep(api.message("three"), "D42")
        api.outage = None
        await api.open()
        assert await api.wait_for(3) == ["re: one", "re: two", "re: three"]


async def test_chats_that_are_gone_are_told_apart(tmp_path: Path) -> None:
    async with SlackApi() as api:
        place = SlackPlace(api, tmp_path)
        async with running(place.adapter) as adapter:
            api.members += ["C1", "C2"]
            api.gone.add("C1")
            api.archived.add("C2")
            for chat_id in ("C1", "C2", "D77", "not an id"):
                with pytest.raises(SendError) as refused:
                    await adapter.send(chat_id, "hello", key="k")
                assert refused.value.permanent and not refused.value.unsure, chat_id
            with pytest.raises(SendError) as void:
                api.faults.append(Fault("token_revoked", "chat.postMessage"))
                await adapter.send("D42", "hello")
            assert not void.value.permanent, "somebody will renew it"
            with pytest.raises(SendError) as late:
                api.faults.append(Fault("drop_after", "chat.postMessage"))
                await adapter.send("D42", "hello")
            assert late.value.unsure, "without a key nobody knows"
