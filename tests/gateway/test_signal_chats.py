"""Signal end to end: groups, files, reactions as answers, outages, and what cannot come again."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway import delivery, supervision
from gateway.config import Platform, PlatformConfig
from gateway.delivery import BROKEN
from gateway.platforms import lanes
from gateway.platforms.base import SendError
from gateway.platforms.signal import client, errors, reader
from gateway.platforms.signal.adapter import SignalAdapter
from gateway.platforms.signal.client import SignalError
from gateway.platforms.signal.unstored import Unstored
from hermes_state import StoreUnavailableError

from .adapter_conformance import running
from .signal_chats import SignalPlace, section, signal_gateway
from .signal_daemon import ACCOUNT, ACI, ANN, GARDEN, Fault, SignalDaemon, person

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
GROUP = f"group:{GARDEN}"
"""As people's devices know it."""
CHAT = "group:Z2FyZGVuK-2dyb3Vw_L2lkPT0="
"""As the gateway does: a part of keys, and the name of a folder."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, lanes):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(errors, "UNTRUSTED_SECONDS", 0.05)


async def test_a_chat_and_a_group(tmp_path: Path) -> None:
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon) as chats:
        said = await daemon.say("**hello** @everyone")
        assert await daemon.wait_for(1) == ["re: hello @everyone"]
        assert daemon.sent[0].styles == ["4:5:BOLD"]
        await daemon.until(lambda: bool(daemon.receipts))
        assert daemon.receipts == [(ANN, said["envelope"]["timestamp"])]
        await daemon.say("not for us", group=GARDEN)
        await daemon.name_us("one")
        await daemon.wait_for(1, GROUP)
        await daemon.name_us("two", user=person(43))
        assert await daemon.wait_for(2, GROUP) == ["re: one", "re: two"]
        assert set(chats.runner.session_store._entries) == {
            f"agent:main:signal:dm:{ANN}",
            f"agent:main:signal:group:{CHAT}:{ANN}",
            f"agent:main:signal:group:{CHAT}:{person(43)}",
        }
        assert len(daemon.receipts) == 1, "in a group nobody is told who has read what"


async def test_a_message_waits_while_nobody_can_say_who_may_talk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is handed out once: passed over now, it would be lost."""
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon) as chats:
        host = chats.runner.adapters[Platform.SIGNAL].host
        is_allowed, failures = host.is_allowed, iter(range(3))

        async def fail_first(source: Any) -> bool:
            if next(failures, None) is not None:
                raise StoreUnavailableError("the server is away")
            return bool(await is_allowed(source))

        monkeypatch.setattr(host, "is_allowed", fail_first)
        await daemon.say("hello")
        assert await daemon.wait_for(1) == ["re: hello"]
        assert next(failures, None) is None


async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ann = "+16660000042"  # listed by number, known by id
    async with (
        SignalDaemon() as daemon,
        signal_gateway(home, daemon, allow_all=False, allowed_users=(ann,)) as chats,
    ):
        await daemon.say("hello")
        assert await daemon.wait_for(1) == ["re: hello"]
        eve = person(66)
        await daemon.name_us("hello", user=eve)
        await daemon.say("hello", user=eve, files={"a.png": PNG})
        assert "pairing code" in (await daemon.wait_for(1, eve))[0]
        assert not daemon.texts(GROUP) and not (home / "media").exists()
        assert not daemon.called("getAttachment") and len(daemon.receipts) == 1
        code = daemon.texts(eve)[0].partition("code is ")[2].split()[0]
        assert chats.db.approve_pairing(code)
        await daemon.say("now?", user=eve)
        assert (await daemon.wait_for(2, eve))[1] == "re: now?"


@pytest.mark.parametrize("shares_folder", [True, False])
async def test_files_come_in(tmp_path: Path, shares_folder: bool) -> None:
    seen: list[Any] = []

    def look(request: ModelRequest) -> Step:
        seen.append(request.messages[-1]["content"])
        return say("seen")

    home = tmp_path / "home"
    folder = tmp_path / "attachments" if shares_folder else None
    async with (
        SignalDaemon(folder) as daemon,
        signal_gateway(home, daemon, itertools.repeat(look), max_inbound_media_bytes=4000),
    ):
        await daemon.say("what?", files={"pic.png": PNG})
        await daemon.wait_for(1)
        await daemon.say("", files={"../x y.pdf": b"%PDF"})
        await daemon.wait_for(2)
        await daemon.say("", files={"big.ogg": b"x" * 5000})
        await daemon.wait_for(4)
        long_text = "beginning " * 300
        kinds = {"long.txt": "text/x-signal-plain"}
        await daemon.say(long_text[:2000], files={"long.txt": long_text.encode()}, kinds=kinds)
        await daemon.wait_for(5)
        missing = [{"contentType": "image/png", "id": "../../etc/passwd", "size": 5}]
        await daemon.say("and this", attachments=missing)
        await daemon.wait_for(7)
        assert not Unstored(home).read(), "all of it is stored"
        assert len(daemon.called("getAttachment")) == (0 if shares_folder else 3)
    assert seen[0][0]["text"] == "what?" and seen[0][1]["type"] == "image_url"
    kept = sorted((home / "media" / "signal" / ANN).iterdir())
    assert [one.name.split("-", 2)[2] for one in kept] == ["pic.png", "x_y.pdf"]
    assert str(kept[1]) in str(seen[1])
    assert "larger than 4,000" in str(seen[2])
    assert seen[3] == long_text.strip()
    assert "could not be fetched" in str(seen[4]) and "passwd" not in str(seen[4])


async def test_files_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    (work / "film.mp4").write_bytes(b"x" * (11 * 1024 * 1024))
    monkeypatch.chdir(work)
    steps = [say("Here:\n\nMEDIA:chart.png\n\nMEDIA:film.mp4\n\nMEDIA:/etc/passwd")]
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon, steps):
        await daemon.name_us("draw")
        await daemon.wait_for(3, GROUP)
        assert daemon.sent[0].text == "Here:\n\nMEDIA:/etc/passwd"
        assert daemon.sent[1].file == ("chart.png", PNG)
        film = daemon.sent[2]
        assert film.given["attachments"] == [str(work / "film.mp4")], "too large for one line"
        assert film.file is not None and len(film.file[1]) == 11 * 1024 * 1024


@pytest.mark.parametrize("answer", ["👎🏽", "4", "4️⃣"])
async def test_an_approval_is_answered_by_a_reaction_or_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keep").write_text("x")
    steps = [say("first"), call("terminal", command="rm -rf keep"), say("done")]
    home, users = tmp_path / "home", (ANN, person(43))
    async with (
        SignalDaemon() as daemon,
        signal_gateway(home, daemon, steps, allow_all=False, allowed_users=users),
    ):
        await daemon.name_us("hello")
        await daemon.wait_for(1, GROUP)
        await daemon.name_us("clean up")
        shown = (await daemon.wait_for(2, GROUP))[1]
        assert "May I" in shown and "4 Deny" in shown and "👎 Deny" in shown
        earlier, question = daemon.sent
        await daemon.respond(earlier, "👍")  # under something else
        await daemon.respond(question, "👍", user=person(43))  # somebody else's
        await daemon.respond(question, "👍", user=person(66))  # a stranger's
        await daemon.respond(question, "👍", isRemove=True)
        if answer == "4":
            await daemon.name_us(answer)
        else:
            await daemon.respond(question, answer)
        await daemon.until(lambda: "done" in daemon.texts(GROUP))
    assert (tmp_path / "keep").exists()


async def test_an_approval_is_given_by_a_thumb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").write_text("x")
    steps = [call("terminal", command="rm -rf gone"), say("done")]
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon, steps):
        await daemon.say("clean up")
        await daemon.wait_for(1)
        await daemon.respond(daemon.sent[0], "👍")
        assert (await daemon.wait_for(2))[1] == "done"
    assert not (tmp_path / "gone").exists()


async def test_an_answer_grows_and_is_whole_within_ten_versions(tmp_path: Path) -> None:
    holds = [asyncio.Event() for _ in range(15)]
    parts: list[Any] = ["This is the beginning of a long answer. "]
    for number, hold in enumerate(holds):
        parts += [hold, f"And here is its part {number}. "]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with (
        SignalDaemon() as daemon,
        signal_gateway(tmp_path / "home", daemon, [say(*parts)], streaming=streaming) as chats,
    ):
        adapter = next(iter(chats.runner.adapters.values()))
        object.__setattr__(adapter.capabilities, "edit_interval", 0.01)
        try:
            await daemon.say("go on")
            await daemon.wait_for(1)
            assert "▉" in daemon.texts()[0]
            for number, hold in enumerate(holds):
                hold.set()
                if number < 8:
                    wanted = number + 1
                    await daemon.until(lambda wanted=wanted: len(daemon.sent[0].versions) >= wanted)
            await daemon.until(lambda: "part 14" in daemon.texts()[0])
        finally:
            object.__setattr__(adapter.capabilities, "edit_interval", 1.5)
        assert len(daemon.sent) == 1 and "▉" not in daemon.texts()[0]
        assert len(daemon.sent[0].versions) == 9 and not daemon.ignored_edits


async def test_an_edited_message_is_a_new_one(tmp_path: Path) -> None:
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon):
        said = await daemon.say("hello")
        await daemon.wait_for(1)
        await daemon.rewrite(said, "hello world")
        assert (await daemon.wait_for(2))[1] == "re: hello world"


async def test_notes_to_oneself(tmp_path: Path) -> None:
    extra = {"note_to_self": True}
    async with (
        SignalDaemon() as daemon,
        signal_gateway(
            tmp_path / "home", daemon, extra=extra, allow_all=False, allowed_users=(ACCOUNT,)
        ),
    ):
        await daemon.say("a friend writes to the owner")
        await daemon.note("hello")
        assert await daemon.wait_for(1, ACCOUNT) == ["re: hello"]
        await daemon.note("and more")
        assert (await daemon.wait_for(2, ACCOUNT))[1] == "re: and more"
        assert not daemon.texts() and not daemon.receipts, "friends notice nothing"


async def test_a_daemon_with_several_accounts(tmp_path: Path) -> None:
    async with SignalDaemon() as daemon:
        daemon.is_multi = True
        async with signal_gateway(tmp_path / "home", daemon):
            other = daemon.envelope(dataMessage=daemon.data("for another account"))
            await daemon.deliver({**other, "account": "+15550000002"})
            await daemon.say("hello")
            assert await daemon.wait_for(1) == ["re: hello"]
        config = PlatformConfig(enabled=True, extra=section(daemon, account="+15550000009"))
        with pytest.raises(SignalError, match=r"no account \+15550000009"):
            await SignalAdapter(config, lambda event: asyncio.sleep(0)).connect()


async def test_what_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    for extra, match in (
        ({}, "SIGNAL_ACCOUNT"),
        ({"account": ACCOUNT, "address": str(tmp_path / "none")}, "--receive-mode=manual"),
        ({"account": ACCOUNT, "address": "127.0.0.1:1"}, "daemon --tcp 127.0.0.1:1"),
    ):
        config = PlatformConfig(enabled=True, extra=extra)
        with pytest.raises(SignalError, match=match):
            await SignalAdapter(config, lambda event: asyncio.sleep(0)).connect()


async def test_a_daemon_that_was_started_otherwise_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SignalDaemon() as daemon:
        daemon.receives_on_start = True
        await daemon.say("nobody is there")
        assert daemon.lost == 1
        with caplog.at_level(logging.WARNING, logger=reader.__name__):
            async with signal_gateway(tmp_path / "home", daemon):
                for number in range(3):
                    await daemon.say(str(number))
                    assert (await daemon.wait_for(number + 1))[-1] == f"re: {number}"
                await daemon.until(lambda: bool(daemon.called("unsubscribeReceive")))
        warnings = [one for one in caplog.records if "--receive-mode=manual" in one.message]
        assert len(warnings) == 1


async def test_what_comes_while_nobody_is_there_waits(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with SignalDaemon() as daemon:
        async with signal_gateway(home, daemon):
            await daemon.say("one")
            await daemon.wait_for(1)
        await daemon.say("two")
        async with signal_gateway(home, daemon):
            assert await daemon.wait_for(2) == ["re: one", "re: two"]
            await daemon.close()
            daemon.waiting.append(daemon.envelope(dataMessage=daemon.data("three")))
            await daemon.open()
            assert (await daemon.wait_for(3))[2] == "re: three"


async def test_what_was_handed_out_and_not_stored_is_found_again(tmp_path: Path) -> None:
    """As after a kill."""
    home = tmp_path / "home"
    async with SignalDaemon() as daemon:
        data = daemon.data("look", attachments=daemon.attached({"a.txt": b"some notes"}, {}))
        said = daemon.envelope(dataMessage=data, timestamp=data["timestamp"])
        file = home / "gateway" / "signal-unstored.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text('{"sourceUuid": ')  # torn
        Unstored(home).add(said["envelope"])
        async with signal_gateway(home, daemon):
            assert "look" in (await daemon.wait_for(1))[0]
            await daemon.deliver(said)
            await daemon.say("end")
            assert (await daemon.wait_for(2))[1] == "re: end", "and it is known"
            await daemon.until(lambda: not file.exists())


async def test_what_may_have_been_sent_is_not_sent_again(tmp_path: Path) -> None:
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon):
        for number, kind in enumerate(("drop_after", "io", "network")):
            daemon.faults.append(Fault(kind))
            await daemon.say(str(number))
            await daemon.until(lambda wanted=number + 1: daemon.texts().count(BROKEN) == wanted)
        assert [text for text in daemon.texts() if text != BROKEN] == ["re: 0"]


async def test_limits_are_obeyed(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} <&> " + "ü" * 90 for number in range(60))
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon, [say(text)]):
        daemon.limit, daemon.limit_seconds = 2, 0.2
        await daemon.say("much")
        await daemon.until(lambda: "line 59 " in "".join(daemon.texts()), 60)
        assert all(len(one.text.encode()) <= 2000 for one in daemon.sent)
        joined = "\n".join(daemon.texts())
        assert all(f"line {number} <&> " in joined for number in range(60))
        assert len(daemon.sent) == len(set(daemon.texts())) and daemon.refused


async def test_trouble_with_people_is_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SignalDaemon() as daemon:
        place = SignalPlace(daemon, tmp_path)
        async with running(place.adapter) as adapter:
            daemon.unregistered.add(person(7))
            daemon.untrusted.add(person(8))
            for chat_id in (person(7), "not a person", "group:AAAA", "group:"):
                with pytest.raises(SendError) as refused:
                    await adapter.send(chat_id, "hello")
                assert refused.value.permanent and not refused.value.unsure, chat_id
            with pytest.raises(SendError, match="signal-cli trust") as changed:
                await adapter.send(person(8), "hello")
            assert changed.value.retry_after and not changed.value.permanent
            daemon.faults.append(Fault("rate_limit", retry_after=90_000))
            with pytest.raises(SendError) as slow:
                await adapter.send(ANN, "hello")
            assert slow.value.retry_after == errors.LONGEST_WAIT
            assert "submitRateLimitChallenge --challenge challenge-1" in caplog.text
            # In a group one who cannot be reached keeps nothing from the others.
            daemon.groups[GARDEN].add(person(7))
            await adapter.send(CHAT, "hello")
            assert daemon.texts(GROUP) == ["hello"]
            daemon.members.clear()
            with pytest.raises(SendError) as gone:
                await adapter.send(CHAT, "hello")
            assert gone.value.permanent, "we were removed"
            await adapter.send(ANN, "quoting", reply_to=f"{ANN}:5")
            assert daemon.sent[-1].given["quoteTimestamp"] == 5
            message_id = await adapter.send(ANN, "a mistake")
            await place.adapter.sender.delete(ANN, str(message_id))
            assert "a mistake" not in daemon.texts()


async def test_a_daemon_that_falls_silent_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "QUIET_SECONDS", 0.05)
    async with SignalDaemon() as daemon, signal_gateway(tmp_path / "home", daemon):
        await daemon.until(lambda: len(daemon.called("version")) >= 3)  # it answers
        daemon.faults.append(Fault("drop", "version", times=1))
        await daemon.say("hello")
        assert await daemon.wait_for(1) == ["re: hello"]
    assert ACI not in daemon.texts()
