"""WhatsApp end to end: signatures, files, choices, the 24 hours, what is told later, outages."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway import delivery, supervision
from gateway.config import Platform, PlatformConfig
from gateway.delivery import BROKEN
from gateway.platforms.base import SendError
from gateway.platforms.whatsapp_cloud import errors
from gateway.platforms.whatsapp_cloud import media as whatsapp_files
from gateway.platforms.whatsapp_cloud.adapter import WhatsAppAdapter, WhatsAppError
from gateway.session import SessionSource

from .adapter_conformance import running
from .whatsapp_api import ANN, NUMBER, SECRET, TOKEN, VERIFY, Fault, WhatsAppApi
from .whatsapp_chats import WhatsAppPlace, section, whatsapp_gateway

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
BOB = "16505550043"
DELIVERIES = "states of the outbox"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(delivery, "TAKE_BACK_PAUSE", 0.02)
    monkeypatch.setattr(errors, "SOMEBODY_SECONDS", 0.05)
    monkeypatch.setattr(whatsapp_files, "PAUSE", 0.01)
    for code in errors._SOON:
        monkeypatch.setitem(errors._SOON, code, 0.05)


async def remind(chats: Any, text: str, key: str = "job:1:0", user: str = ANN) -> None:
    """Something is owed to a chat that is no answer."""
    host = chats.runner.host_for(Platform.WHATSAPP_CLOUD)
    await host.deliver(SessionSource(Platform.WHATSAPP_CLOUD, user, user_id=user), text, key)


async def test_a_chat(tmp_path: Path) -> None:
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api) as chats:
        message = await api.say("**hello**")
        assert await api.wait_for(1) == ["re: *hello*"]
        await api.until(lambda: message["id"] in api.read and message["id"] in api.typings)
        assert set(chats.runner.session_store._entries) == {f"agent:main:whatsapp_cloud:dm:{ANN}"}
        # Two in one request, and one for another number.
        await api.tell(
            api.message("text", text={"body": "one"}),
            api.message("text", user=BOB, text={"body": "two"}),
        )
        await api.post({
            "metadata": {"phone_number_id": "1"},
            "messages": [api.message("text", text={"body": "for another"})],
        })  # fmt: skip
        assert await api.wait_for(2) == ["re: *hello*", "re: one"]
        assert await api.wait_for(1, BOB) == ["re: two"]
        await api.until(lambda: len(api.posted) >= 4)
        assert len(api.texts()) == 2


async def test_only_meta_is_listened_to(tmp_path: Path) -> None:
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api):
        await api.say("hello")
        await api.wait_for(1)
        body = api.posted[0][1]
        assert await api.post_once(body, "another secret") == 401
        assert await api.post_once({"object": "page", "entry": 5}) == 200, "nothing to us"
        assert await api.post_once({"object": "whatsapp_business_account"}) == 200, "not read"
        async with httpx.AsyncClient(trust_env=False) as client:
            for headers in ({}, {"X-Hub-Signature-256": ""}, {"X-Hub-Signature-256": "sha256=é"}):
                raw = [(name, value.encode()) for name, value in headers.items()]
                assert (
                    await client.post(api.webhook, content=b"{}", headers=raw)
                ).status_code == 401
            ask = {"hub.mode": "subscribe", "hub.challenge": "1158201444"}
            answer = await client.get(api.webhook, params={**ask, "hub.verify_token": VERIFY})
            assert (answer.status_code, answer.text) == (200, "1158201444")
            assert answer.headers["content-type"].startswith("text/plain")
            for token in ("", "another", VERIFY[:-1]):
                other = await client.get(api.webhook, params={**ask, "hub.verify_token": token})
                assert (other.status_code, "1158201444" in other.text) == (403, False)
            large = await client.post(api.webhook, content=b"x" * (4 * 1024 * 1024 + 1))
            assert large.status_code == 413


async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        WhatsAppApi() as api,
        whatsapp_gateway(
            home, api, allow_all=False, allowed_users=(f"+{ANN[0]} {ANN[1:]}",)
        ) as chats,
    ):
        await api.say("hello")
        assert await api.wait_for(1) == ["re: hello"]
        await api.send_file("image", PNG, "image/png", user=BOB)
        assert "pairing code" in (await api.wait_for(1, BOB))[0]
        assert not (home / "media").exists() and len(api.read) == 1
        code = api.texts(BOB)[0].partition("code is ")[2].split()[0].strip("`*")
        assert chats.db.approve_pairing(code)
        await api.say("now?", user=BOB)
        assert (await api.wait_for(2, BOB))[1] == "re: now?"


async def test_files_come_in(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(request: ModelRequest) -> Step:
        seen.append(request.messages[-1]["content"])
        return say("seen")

    home = tmp_path / "home"
    async with (
        WhatsAppApi() as api,
        whatsapp_gateway(home, api, itertools.repeat(look), max_inbound_media_bytes=1000),
    ):
        await api.send_file("image", PNG, "image/png", caption="what?")
        await api.wait_for(1)
        api.faults.append(Fault("html", "node"))
        await api.send_file("document", b"%PDF", "application/pdf", filename="../x y.pdf")
        await api.wait_for(2)
        await api.send_file("audio", b"x" * 2000, "audio/ogg; codecs=opus", voice=True)
        await api.wait_for(3)
        api.url_seconds = -1  # its address is too old whenever it is used
        await api.send_file("video", b"x", "video/mp4")
        await api.wait_for(4)
        assert api.refused == 4, "it was asked for again"
    assert seen[0][0]["text"] == "what?" and seen[0][1]["type"] == "image_url"
    kept = sorted((home / "media" / "whatsapp_cloud" / ANN).iterdir())
    assert [one.name.partition("-")[2] for one in kept] == ["image.png", "x_y.pdf"]
    assert str(kept[1]) in str(seen[1])
    assert "larger than 1,000" in str(seen[2]) and "could not be fetched" in str(seen[3])


async def test_files_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    (work / "huge.png").write_bytes(PNG + b"\0" * (6 * 1024 * 1024))
    (work / "rows.csv").write_text("a,b\n")
    (work / "a.bin").write_bytes(b"\xff\xfe\x00")
    monkeypatch.chdir(work)
    names = ("chart.png", "rows.csv", "huge.png", "a.bin", "/etc/passwd")
    steps = [say("Here:\n\n" + "\n\n".join(f"MEDIA:{name}" for name in names))]
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, steps):
        await api.say("draw")
        await api.wait_for(5)
        assert api.sent[0].text == "Here:\n\nMEDIA:/etc/passwd"
        assert (api.sent[1].kind, api.sent[1].file) == ("image", ("chart.png", PNG, "image/png"))
        assert (api.sent[2].kind, api.sent[2].file) == (
            "document", ("rows.csv", b"a,b\n", "text/plain"),
        )  # fmt: skip
        assert "huge.png` is too large" in api.sent[3].text
        assert "a.bin` is of a kind" in api.sent[4].text


@pytest.mark.parametrize("way", ["list", "thumb"])
async def test_approvals_are_chosen_from_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keep").write_text("x")
    steps = [call("terminal", command="rm -rf keep"), say("done")]
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, steps):
        await api.say("clean up")
        assert "May I" in (await api.wait_for(1))[0]
        question = api.sent[0]
        titles = [one["title"] for one in question.choices]
        assert titles == ["Allow once", "This session", "Always", "Deny"]
        await api.choose(question, "Deny", user=BOB)  # not theirs
        if way == "list":
            await api.choose(question, "Deny")
        else:
            await api.respond(question, "👎🏿")
        assert (await api.wait_for(2))[-1] == "done"
    assert (tmp_path / "keep").exists()


async def test_three_choices_are_buttons(tmp_path: Path) -> None:
    choices = ["red", "green", "a colour that is very long indeed"]
    steps = [call("clarify", question="Which?", choices=choices), say("done")]
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, steps) as chats:
        await api.say("paint")
        await api.wait_for(1)
        assert api.sent[0].given["interactive"]["type"] == "button"
        await api.choose(api.sent[0], "green")
        await api.wait_for(2)
        assert any("green" in str(one) for one in chats.model.requests[-1].messages)


async def test_what_meta_posts_again_is_answered_once(tmp_path: Path) -> None:
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api):
        message = api.message("text", text={"body": "hello"})
        await asyncio.gather(*(api.tell(message) for _ in range(5)))  # while it is being stored
        await api.wait_for(1)
        await api.tell(message)
        await api.say("end")
        assert await api.wait_for(2) == ["re: hello", "re: end"]


async def test_what_comes_while_nobody_is_there_is_posted_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with WhatsAppApi() as api:
        section(api)
        await api.say("one")
        await api.until(lambda: len(api.posted) >= 2)
        async with whatsapp_gateway(home, api):
            assert await api.wait_for(1) == ["re: one"]
        assert {code for code, _ in api.posted} == {0, 200}


@pytest.mark.parametrize("at_once", [True, False])
async def test_after_a_day_of_silence_an_answer_waits_for_the_person(
    tmp_path: Path, at_once: bool
) -> None:
    extra = {"template": "come_back"}
    home = tmp_path / "home"
    async with WhatsAppApi() as api:
        api.refuses_at_once = at_once
        async with whatsapp_gateway(home, api, extra=extra) as chats:
            await api.say("hello")
            await api.wait_for(1)
            api.let_a_day_pass()
            await remind(chats, "Call Ada.")
            await api.until(lambda: api.texts()[1:] == ["<come_back>"])
            await remind(chats, "Call Bob.", "job:2:0")
            await api.until(
                lambda: len([one for _, one in api.calls if one["type"] == "text"]) >= 3
            )
            await remind(chats, "⚠️ A notice.", "say:notice")
            await api.until(lambda: len(_held(chats)) == 3)
            assert len(api.texts()) == 2, "one template a day"
        # They are held over a restart, and nothing is tried meanwhile.
        before = len(api.calls)
        async with whatsapp_gateway(home, api, extra=extra) as chats:
            assert len(_held(chats)) == 3 and len(api.calls) == before
            button = {"payload": "x", "text": "Show me"}
            await api.tell(api.message("button", button=button))
            await api.wait_for(5)
            assert api.texts()[2:] == ["Call Ada.", "Call Bob.", "⚠️ A notice."]
            await api.say("thanks")
            assert (await api.wait_for(6))[5] == "re: thanks", "the button itself asked nothing"
            assert not _held(chats)


def _held(chats: Any) -> list[str]:
    due = {row["obligation_id"] for row in chats.db.list_due_deliveries()}
    waiting = {row["obligation_id"] for row in chats.db.list_deliveries(("pending",))}
    return sorted(waiting - due)


async def test_without_a_template_nothing_is_sent(tmp_path: Path) -> None:
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api) as chats:
        await remind(chats, "Call Ada.")
        await api.until(lambda: bool(_held(chats)))
        assert not api.sent
        await api.say("hello")
        assert await api.wait_for(2) == ["Call Ada.", "re: hello"]


async def test_what_is_told_later_is_taken_back(tmp_path: Path) -> None:
    """As when the status reaches another replica, or comes after the wait."""
    extra = {"template": "come_back", "status_seconds": 0.01}
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, extra=extra) as chats:
        api.tells = False
        await remind(chats, "Call Ada.")
        await remind(chats, "Call Bob.", "job:2:0", user=BOB)
        await api.until(lambda: len(api.calls) == 2 and not chats.db.list_due_deliveries())
        given = {one["to"]: one for _, one in api.calls}
        api.tells = True
        for _ in range(2):  # told again, it changes nothing
            await api._tell_status("wamid.a", given[ANN], "failed", 131047)
            await api._tell_status("wamid.b", given[BOB], "failed", 131026)
        await api.until(lambda: api.texts() == ["<come_back>"] and len(_held(chats)) == 1)
        await api.until(lambda: _failed(chats) == ["job:2:0"])
        await api.say("hello")
        assert (await api.wait_for(3))[1:] == ["Call Ada.", "re: hello"]


def _failed(chats: Any) -> list[str]:
    return [row["obligation_id"] for row in chats.db.list_deliveries(("failed",))]


async def test_limits_are_obeyed(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} <&> " + "x" * 90 for number in range(160))
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, [say(text)]):
        api.pair_limit, api.pair_seconds = 2, 0.2
        await api.say("much")
        await api.until(lambda: "line 159 " in "".join(api.texts()), 60)
        assert all(len(one.text) <= 4096 for one in api.sent)
        joined = "\n".join(api.texts())
        assert all(f"line {number} <&> " in joined for number in range(160))
        assert len(api.sent) == len(set(api.texts())) and api.refused


async def test_trouble_at_metas_is_waited_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"status_seconds": 0.2}
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api, extra=extra):
        faults = [Fault("190"), Fault("131042"), Fault("130429"), Fault("131016")]
        api.faults += [*faults, Fault("131000", later=True)]
        await api.say("one")
        assert await api.wait_for(1) == ["re: one"]
        assert "renew WHATSAPP_CLOUD_ACCESS_TOKEN" in caplog.text and TOKEN not in caplog.text
        api.token = "another that was made since"
        await api.say("two")
        await api.until(lambda: api.refused == 5)
        api.token = TOKEN
        assert (await api.wait_for(2))[1] == "re: two"
        await api.close()
        held = api.say("three")
        await api.open()
        await held
        assert (await api.wait_for(3))[2] == "re: three"


async def test_an_answer_whose_connection_breaks_is_known_by_its_status(tmp_path: Path) -> None:
    async with WhatsAppApi() as api, whatsapp_gateway(tmp_path / "home", api):
        api.faults.append(Fault("drop_after"))
        await api.say("one")
        assert await api.wait_for(1) == ["re: one"]
        await api.say("two")
        assert await api.wait_for(2) == ["re: one", "re: two"], "nobody was told of a doubt"
    async with (
        WhatsAppApi() as api,
        whatsapp_gateway(tmp_path / "other", api, extra={"status_seconds": 0.05}),
    ):
        # Of one that cannot be told of nobody knows.
        api.tells = False
        api.faults.append(Fault("drop_after"))
        await api.say("three")
        assert await api.wait_for(2) == ["re: three", BROKEN]
        api.faults.append(Fault("html"))
        await api.say("four")
        assert (await api.wait_for(3))[2] == BROKEN


async def test_what_cannot_be_used_says_what_to_change() -> None:
    async with WhatsAppApi() as api:
        for token, extra, match in (
            ("", {}, "WHATSAPP_CLOUD_ACCESS_TOKEN"),
            (TOKEN, {"app_secret": ""}, "WHATSAPP_CLOUD_APP_SECRET"),
            (TOKEN, {"verify_token": ""}, "WHATSAPP_CLOUD_VERIFY_TOKEN"),
            ("EAAanother", {}, "renew WHATSAPP_CLOUD_ACCESS_TOKEN"),
            (TOKEN, {"phone_number_id": "5"}, "check WHATSAPP_CLOUD_PHONE_NUMBER_ID"),
        ):
            config = PlatformConfig(enabled=True, token=token, extra=section(api, **extra))
            with pytest.raises(WhatsAppError, match=match):
                await WhatsAppAdapter(config, lambda event: asyncio.sleep(0)).connect()


async def test_people_who_are_gone_are_told_apart(tmp_path: Path) -> None:
    async with WhatsAppApi() as api:
        place = WhatsAppPlace(api, tmp_path)
        place.adapter.config.extra["status_seconds"] = 0.2
        async with running(place.adapter) as adapter:
            api.gone.add(BOB)
            for chat_id in (BOB, ""):
                with pytest.raises(SendError) as refused:
                    await adapter.send(chat_id, "hello", key="k:0")
                assert refused.value.permanent and not refused.value.unsure, chat_id
            with pytest.raises(SendError) as broken:
                api.faults.append(Fault("html"))
                api.tells = False
                await adapter.send(ANN, "hello", key="k:0")
            assert broken.value.unsure, "no error of Meta's: it may have been sent"
            api.written_at["US.someone"] = 9e15
            await adapter.send("US.someone", "hello")
            assert api.sent[-1].given["recipient"] == "US.someone", "who hides their number"


async def test_a_webhook_that_tells_nothing_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with WhatsAppApi() as api:
        place = WhatsAppPlace(api, tmp_path)
        place.adapter.config.extra["status_seconds"] = 0.01
        api.tells = False
        with caplog.at_level(logging.WARNING):
            async with running(place.adapter) as adapter:
                for number in range(5):
                    await adapter.send(ANN, str(number))
        assert caplog.text.count("subscribed to the field messages") == 1
        assert NUMBER and SECRET not in caplog.text
