"""Matrix against a real server: every promise of the gateway, as people in rooms see it."""

from __future__ import annotations

import asyncio
import itertools
import json
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_state import StoreUnavailableError

from .. import seeds
from ..state.memory import memory_folder
from .adapter_conformance import AdapterConformance
from .chats import asked
from .matrix_rooms import Kept, MatrixPlace, running
from .synapse import Between, NotInstalledError, Person, Synapse, install

pytest.importorskip("nio", reason="matrix-nio is not installed: pip install -e '.[matrix]'")
# Not because each is, but because two processes that share them would each start a server.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def synapse(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    try:
        python = install(model_cache)
    except NotInstalledError as error:
        pytest.skip(str(error))
    # On a disk it would wait for that with every message.
    with memory_folder(tmp_path_factory.mktemp("synapse")) as folder:
        server = Synapse(python, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()


_names = itertools.count(1)


@pytest.fixture
async def people(synapse: Synapse) -> AsyncIterator[Callable[[str], Person]]:
    """Accounts, new for each test."""
    made: list[Person] = []

    def person(name: str) -> Person:
        made.append(synapse.register(f"{name}{next(_names)}"))
        return made[-1]

    yield person
    for one in made:
        await one.close()


async def test_invited_joined_asked_and_answered(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann, eve = people("bot"), people("ann"), people("eve")
    async with running(tmp_path, synapse, bot, [ann], password=True) as gateway:
        strange = await eve.room(bot)
        room = await ann.room(bot, direct=True)
        await ann.say(room, "hello **you**")  # before the bot has joined
        shown = await ann.wait_for(room, by=bot.user_id, until=bool)
        assert shown == ["re: hello **you**"]
        content = (await ann.shown(room, by=bot.user_id))[0]["content"]
        assert "<strong>you</strong>" in content["formatted_body"]
        assert await eve.members(strange) == {eve.user_id}, "strangers are not followed"
        assert gateway.model.calls == 1
    kept = Kept(tmp_path, "matrix-login")
    login = kept.read()
    assert bot.password not in json.dumps(login)
    assert not kept.file.exists() or stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    async with running(tmp_path, synapse, bot, [ann], password=True):
        await ann.say(room, "again")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: again" in texts)
        assert kept.read() == login, "the login is used again"
    await Person(synapse.url, bot.user_id, "", login["access_token"]).call("POST", "logout", {})
    async with running(tmp_path, synapse, bot, [ann], password=True):
        await ann.say(room, "and again")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: and again" in texts)
        renewed = kept.read()
        assert renewed["access_token"] != login["access_token"]
        assert renewed["device_id"] == login["device_id"]


async def test_an_answer_grows_by_edits_and_ends_as_one_message(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    seen = asyncio.Event()
    step = say("The beginning of a long answer, ", seen, "and its end.")
    streaming = {"enabled": True, "edit_interval": 0.05}
    async with running(tmp_path, synapse, bot, [ann], [step], streaming=streaming):
        room = await ann.room(bot, direct=True)
        await ann.say(room, "tell me")
        begun = await ann.wait_for(room, by=bot.user_id, until=bool)
        assert begun[0].startswith("The beginning of a long answer, ")
        seen.set()
        whole = "The beginning of a long answer, and its end."
        shown = await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts == [whole])
        assert len(shown) == 1
        assert (await ann.shown(room, by=bot.user_id))[0]["versions"]


async def test_what_comes_again_after_a_restart_is_answered_once(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    place = Kept(tmp_path, "matrix-sync")
    async with running(tmp_path, synapse, bot, [ann]):
        room = await ann.room(bot, direct=True)
        await ann.say(room, "zero")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts == ["re: zero"])
        before = place.read()
        await ann.say(room, "one")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: one" in texts)
    await ann.say(room, "two")  # while nobody listens
    place.write(before)  # as if it had been killed before it could note how far it was
    async with running(tmp_path, synapse, bot, [ann]) as gateway:
        # Two that wait together would be one question.
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: two" in texts)
        await ann.say(room, "three")
        texts = await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: three" in texts)
        assert texts == ["re: zero", "re: one", "re: two", "re: three"]
        assert gateway.model.calls == 2


async def test_what_was_read_and_not_stored_comes_again(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    begun = asyncio.Event()

    async def never_done(event: MessageEvent) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with running(tmp_path, synapse, bot, [ann]) as gateway:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "zero")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        gateway.adapter.on_message = never_done
        await ann.say(room, "one")
        await begun.wait()
    async with running(tmp_path, synapse, bot, [ann]):
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts[1:] == ["re: one"])


async def test_a_gap_in_the_batch_is_filled_from_the_history(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("gateway.platforms.matrix.sync.PAGE", 3)
    monkeypatch.setitem(
        __import__("gateway.platforms.matrix.sync", fromlist=["_TIMELINE"])._TIMELINE, "limit", 3
    )
    bot, ann = people("bot"), people("ann")
    heard: list[str] = []
    async with running(tmp_path, synapse, bot, [ann]) as gateway:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "zero")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        assert gateway.model.calls == 1
    for number in range(11):
        await ann.say(room, f"m{number}")

    def hear(request: ModelRequest) -> Step:
        heard.append(asked(request))
        return say("ok")

    async with running(
        tmp_path, synapse, bot, [ann], itertools.repeat(hear), busy_input_mode="queue"
    ):
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts.count("ok") == 11)
    assert heard == [f"m{number}" for number in range(11)]


async def test_rooms_threads_and_names(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann, bob = people("bot"), people("ann"), people("bob")
    async with running(tmp_path, synapse, bot, [ann, bob]) as gateway:
        room = await ann.room(bot, bob, name="The garden")
        await bob.join(room)
        while bot.user_id not in await ann.members(room):
            await asyncio.sleep(0.05)
        await ann.say(room, "not for the bot")
        name = bot.user_id.removeprefix("@").partition(":")[0]
        await ann.say(room, f"{name}: by name")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts == ["re: by name"])
        root = await bob.say(room, "a topic")
        thread = {"rel_type": "m.thread", "event_id": root}
        await bob.say(
            room, "in the thread", **{
                "m.relates_to": thread, "m.mentions": {"user_ids": [bot.user_id]},
            },
        )  # fmt: skip
        await ann.wait_for(room, by=bot.user_id, until=lambda t: t[1:] == ["re: in the thread"])
        shown = (await ann.shown(room, by=bot.user_id))[1]
        assert shown["relation"]["rel_type"] == "m.thread"
        assert shown["relation"]["event_id"] == root
        latest = {**thread, "is_falling_back": True, "m.in_reply_to": {"event_id": shown["id"]}}
        edited = await bob.say(room, "an answer to it", **{"m.relates_to": latest})
        await ann.wait_for(room, by=bot.user_id, until=lambda t: t[2:] == ["re: an answer to it"])
        await bob.put(
            room,
            {
                "msgtype": "m.text", "body": "* rather this",
                "m.new_content": {
                    "msgtype": "m.text", "body": "rather this",
                    "m.mentions": {"user_ids": [bot.user_id]},
                },
                "m.relates_to": {"rel_type": "m.replace", "event_id": edited},
            },
        )  # fmt: skip
        await ann.wait_for(room, by=bot.user_id, until=lambda t: t[3:] == ["re: rather this"])
        keys = set(gateway.runner.session_store._entries)
        assert keys == {
            f"agent:main:matrix:group:{room}:{ann.user_id}",
            f"agent:main:matrix:group:{room}:{root}",
        }
        chat = gateway.runner.session_store._entries[f"agent:main:matrix:group:{room}:{root}"]
        assert chat.origin is not None and chat.origin.chat_name == "The garden"
        sent = [one["content"] for one in gateway.model.requests[-1].messages]
        assert sent[0] == "in the thread", "a thread is a conversation of its own"


async def test_a_direct_chat_is_not_inherited(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann, bob = people("bot"), people("ann"), people("bob")
    async with running(tmp_path, synapse, bot, [ann, bob]) as gateway:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "a secret")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        await ann.call("POST", f"rooms/{room}/invite", {"user_id": bob.user_id})
        await bob.join(room)
        await ann.call("POST", f"rooms/{room}/leave", {})
        await bob.say(room, f"{bot.user_id} what was it?")
        await bob.wait_for(room, by=bot.user_id, until=lambda t: t[-1] == "re: what was it?")
        assert [one["content"] for one in gateway.model.requests[-1].messages] == ["what was it?"]


async def test_leave_is_asked_for_and_given_in_the_chat(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    for answer, expected in (("/approve", False), ("!deny", True)):
        victim = tmp_path / "victim"
        victim.mkdir(exist_ok=True)
        steps = [call("terminal", command=f"rm -rf {victim}"), say("done")]
        async with running(tmp_path / "home", synapse, bot, [ann], steps) as gateway:
            room = await ann.room(bot, direct=True)
            await ann.say(room, "remove it")
            asked = await ann.wait_for(room, by=bot.user_id, until=bool)
            assert str(victim) in asked[0] and "/approve" in asked[0]
            assert victim.exists()
            await ann.say(room, answer)
            await ann.wait_for(room, by=bot.user_id, until=lambda texts: "done" in texts)
            assert victim.exists() is expected
            gateway.model.assert_done()


async def test_a_stranger_gets_a_code_and_is_let_in_with_it(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, eve = people("bot"), people("eve")
    async with running(tmp_path, synapse, bot) as gateway:
        room = await eve.room(bot, direct=True)
        await eve.say(room, "hello?")
        told = await eve.wait_for(room, by=bot.user_id, until=bool)
        code = told[0].split("pairing code is ")[1].split()[0]
        assert gateway.model.calls == 0
        assert gateway.db.approve_pairing(code) is not None
        await eve.say(room, "now?")
        await eve.wait_for(room, by=bot.user_id, until=lambda texts: texts[1:] == ["re: now?"])


async def test_files_come_and_go(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    note = tmp_path / "note.txt"
    note.write_text("what the note says")
    async with running(tmp_path / "a", synapse, bot, [ann], max_inbound_media_bytes=100) as one:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "hi")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        await one.adapter.send_media(room, str(note), caption="for you")
        sent = (await ann.shown(room, by=bot.user_id))[1]["content"]
        assert (sent["msgtype"], sent["body"], sent["filename"]) == (
            "m.file",
            "for you",
            "note.txt",
        )
        await ann.put(room, {**sent, "body": "../../note.txt", "filename": "../../note.txt"})
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: len(texts) == 3)
        kept = list((tmp_path / "a" / "media" / "matrix").rglob("*.txt"))
        assert [file.read_text() for file in kept] == ["what the note says"]
        assert str(kept[0]) in asked(one.model.requests[-1])
        note.write_text("x" * 101)
        await one.adapter.send_media(room, str(note))
        large = (await ann.shown(room, by=bot.user_id))[3]["content"]
        large.pop("info")  # its size is not told: it is found out while it comes
        await ann.put(room, large)
        texts = await ann.wait_for(room, by=bot.user_id, until=lambda texts: len(texts) == 6)
        assert texts[4].startswith("📎") and "larger than" in texts[4]
        assert "larger than" in texts[5]
        assert len(list((tmp_path / "a" / "media" / "matrix").rglob("*.txt"))) == 1
        with pytest.raises(SendError) as failed:
            await one.adapter.send_media(room, str(tmp_path / "missing"))
        assert failed.value.permanent


async def test_files_and_what_is_said_of_them_are_one_message(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    note = tmp_path / "note.txt"
    note.write_text("what the note says")
    async with running(tmp_path / "a", synapse, bot, [ann], message_parts_wait=15) as one:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "hi")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        await one.adapter.send_media(room, str(note))
        sent = (await ann.shown(room, by=bot.user_id))[1]["content"]
        before = one.model.calls
        for name in ("first.txt", "second.txt"):
            await ann.put(room, {**sent, "body": name, "filename": name})
        await ann.say(room, "what are these?")  # it ends the wait
        texts = await ann.wait_for(room, by=bot.user_id, until=lambda texts: len(texts) == 3)
        assert all(part in texts[2] for part in ("first.txt", "second.txt", "what are these?"))
        assert one.model.calls == before + 1


async def test_what_a_server_says_is_understood(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("gateway.platforms.matrix.encryption.KEY_SECONDS", 0.0)
    bot, ann = people("bot"), people("ann")
    async with running(tmp_path, synapse, bot, [ann]) as gateway:
        adapter = gateway.adapter
        room = await ann.room(bot, direct=True)
        await ann.say(room, "hi")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        first = await adapter.send(room, "once", key="a key: with / and ü")
        assert await adapter.send(room, "once", key="a key: with / and ü") == first
        await adapter.react(room, str(first), "👍")
        await adapter.typing(room)
        large = "😀<&" * 1333
        await adapter.edit(room, str(first), large)
        assert await ann.texts(room, by=bot.user_id) == ["re: hi", large]
        for emoji in (one["content"] for one in await ann.events(room)):
            if emoji.get("m.relates_to", {}).get("rel_type") == "m.annotation":
                assert emoji["m.relates_to"]["key"] == "👍"
                break
        else:
            raise AssertionError("no reaction")
        await ann.put(room, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x",
                             "device_id": "d", "sender_key": "k", "session_id": "s"},
                      "m.room.encrypted")  # fmt: skip
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "cannot be read" in texts[-1])
        for odd in (
            {"msgtype": "m.text", "body": ""}, {"msgtype": "m.odd", "body": "x"},
            {"msgtype": "m.text", "body": "x", "m.relates_to": {"rel_type": "m.replace"}},
            {"msgtype": "m.notice", "body": "from another bot"},
        ):  # fmt: skip
            await ann.put(room, odd)
        await ann.say(room, "there?", **{"m.relates_to": "nothing"})
        texts = await ann.wait_for(
            room, by=bot.user_id, until=lambda texts: texts[-1] == "re: there?"
        )
        assert len(texts) == 4, texts
        await ann.call("POST", f"rooms/{room}/kick", {"user_id": bot.user_id})
        with pytest.raises(SendError) as refused:
            await adapter.send(room, "anybody?")
        assert refused.value.permanent
    with pytest.raises(SendError) as gone:
        await MatrixAdapter(PlatformConfig(), adapter.on_message).send(room, "not connected")
    assert not gone.value.permanent


class TestConformance(AdapterConformance):
    @pytest.fixture
    async def place(
        self, synapse: Synapse, people: Callable[[str], Person], monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[MatrixPlace]:
        monkeypatch.setattr("gateway.platforms.matrix.sync.FIRST_PAUSE", 0.01)
        async with Between(synapse.url) as between:
            place = MatrixPlace(between, synapse, people("bot"), people("ann"))
            await place.meet()
            yield place
            await place.close()


@pytest.mark.fuzz
@pytest.mark.parametrize("is_stopped", [False] if seeds.fuzz_seed() is None else [False, True])
async def test_nothing_is_lost_while_the_server_is_away(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool,
) -> None:  # fmt: skip
    """Not to be reached; in a search also stopped, since its start takes longer than all else."""
    for module in ("delivery", "supervision"):
        monkeypatch.setattr(f"gateway.{module}.LONGEST_PAUSE", 0.5)
    bot, ann = people("bot"), people("ann")
    seen, goes_on = asyncio.Event(), asyncio.Event()
    slow = say("A beginning that was seen, ", seen, "a middle, ", goes_on, "an end")
    steps = [say("re: zero"), slow, say("re: two")]
    async with Between(synapse.url) as between, running(
        tmp_path, between, bot, [ann], steps,
        busy_input_mode="queue", streaming={"enabled": True},
    ) as gateway:  # fmt: skip
        room = await ann.room(bot, direct=True)
        await ann.say(room, "zero")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        await ann.say(room, "one")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "beginning" in texts[-1])
        seen.set()  # once it is edited, we know that the gateway knows which message it is
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: "middle" in texts[-1])
        await between.go_away()
        if is_stopped:
            await asyncio.to_thread(synapse.stop)
        goes_on.set()
        while not gateway.db.list_deliveries(("pending",)):
            await asyncio.sleep(0.05)
        if is_stopped:
            await asyncio.to_thread(synapse.start)
        await between.come_back()
        await ann.say(room, "two")
        texts = await ann.wait_for(room, by=bot.user_id, until=lambda texts: "re: two" in texts)
        assert texts == ["re: zero", "A beginning that was seen, a middle, an end", "re: two"]
        gateway.model.assert_done()


async def test_a_message_waits_while_its_file_cannot_be_stored(
    tmp_path: Path,
    synapse: Synapse,
    people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bot, ann = people("bot"), people("ann")
    note = tmp_path / "note.txt"
    note.write_text("what the note says")
    monkeypatch.setattr("gateway.platforms.matrix.sync.FIRST_PAUSE", 0.01)
    async with running(tmp_path / "a", synapse, bot, [ann]) as one:
        room = await ann.room(bot, direct=True)
        await ann.say(room, "hi")
        await ann.wait_for(room, by=bot.user_id, until=bool)
        await one.adapter.send_media(room, str(note))
        sent = (await ann.shown(room, by=bot.user_id))[1]["content"]
        keep_file, refused = one.adapter.host.keep_file, []

        async def fails_twice(*given: Any) -> Path:
            if len(refused) < 2:
                refused.append(given)
                raise StoreUnavailableError("away")
            return await keep_file(*given)

        monkeypatch.setattr(one.adapter.host, "keep_file", fails_twice)
        await ann.put(room, sent)
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: len(texts) == 3)
        assert len(refused) == 2
        (kept,) = (tmp_path / "a" / "media" / "matrix").rglob("*.txt")
        assert str(kept) in asked(one.model.requests[-1])
