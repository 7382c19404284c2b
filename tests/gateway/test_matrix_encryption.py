"""Matrix with end-to-end encryption, against a real server and a client that is not ours."""

from __future__ import annotations

import asyncio
import itertools
import json
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.scripted import say
from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.host import FileRecords, StandaloneHost
from gateway.platforms.matrix.adapter import MatrixAdapter, MatrixError
from hermes_state import SessionDB

from ..state.memory import memory_folder
from .chats import asked
from .matrix_rooms import running
from .synapse import NotInstalledError, Person, Synapse, install

pytest.importorskip("vodozemac", reason="vodozemac is not installed: pip install -e '.[matrix]'")
pytestmark = pytest.mark.long

from nio.crypto import decrypt_attachment  # noqa: E402
from nio.responses import KeysQueryResponse  # noqa: E402

from gateway.platforms.matrix import keys_file  # noqa: E402
from gateway.platforms.matrix.cross_signing import signed_devices  # noqa: E402

from .matrix_clients import ENCRYPTED, client_of  # noqa: E402


async def never(event: MessageEvent) -> None:
    raise AssertionError("nothing was to come in")


class Shelf:
    """The store that several gateways share, as their adapters see it."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.records: dict[str, str] = {}

    def read(self) -> dict[str, Any]:
        return self.kept

    def write(self, kept: Mapping[str, Any]) -> None:
        self.kept.update(kept)


class SharedRecords(FileRecords):
    """Records in that store."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def read(self, prefix: str = "") -> dict[str, str]:
        kept = self._shelf.records
        return {name: kept[name] for name in kept if name.startswith(prefix)}

    def write(self, changes: Mapping[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                self._shelf.records.pop(name, None)
            else:
                self._shelf.records[name] = value


class SharedHost(StandaloneHost):
    """One machine of several."""

    def __init__(self, config: PlatformConfig, home: Path, shelf: Shelf) -> None:
        self._events: asyncio.Queue[MessageEvent] = asyncio.Queue()
        super().__init__(config, self._events.put, home)
        self.config, self.shelf = config, shelf
        self.next = self._events.get

    @property
    def records(self) -> SharedRecords:
        return SharedRecords(self.shelf)


def bot_config(synapse: Synapse, bot: Person, *allowed: Person) -> PlatformConfig:
    return PlatformConfig(
        allowed_users=tuple(one.user_id for one in allowed),
        extra={
            "homeserver": synapse.url, "user_id": bot.user_id, "password": bot.password,
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def synapse(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    try:
        python = install(model_cache)
    except NotInstalledError as error:
        pytest.skip(str(error))
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
    made: list[Person] = []

    def person(name: str) -> Person:
        made.append(synapse.register(f"{name}{next(_names)}"))
        return made[-1]

    yield person
    for one in made:
        await one.close()


async def test_a_direct_chat_is_encrypted_both_ways(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    seen = asyncio.Event()
    steps = [say("The beginning of a long answer, ", seen, "and its end."), say("re: two")]
    streaming = {"enabled": True, "edit_interval": 0.05}
    async with (
        client_of(synapse, ann) as client,
        running(
            tmp_path, synapse, bot, [ann], steps, password=True, streaming=streaming
        ) as gateway,
    ):
        room = await client.room(bot)
        await client.say(room, "one: 😀 & a secret")
        await client.wait_for(room, bot.user_id, bool)
        seen.set()
        whole = "The beginning of a long answer, and its end."
        await client.wait_for(room, bot.user_id, lambda texts: texts == [whole])
        assert client.shown(room, bot.user_id)[0]["versions"], "it grew by edits"
        await client.say(room, "two")
        await client.wait_for(room, bot.user_id, lambda texts: texts[1:] == ["re: two"])
        assert asked(gateway.model.requests[0]) == "one: 😀 & a secret"
        on_the_wire = await ann.events(room)
        assert {event["type"] for event in on_the_wire if event["sender"] == bot.user_id} == {
            "m.room.member", "m.room.encrypted",
        }  # fmt: skip
        assert "secret" not in json.dumps(on_the_wire)


async def test_files_go_both_ways_and_the_server_cannot_read_them(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    note = tmp_path / "note.txt"
    note.write_text("what the note says")
    async with (
        client_of(synapse, ann) as client,
        running(tmp_path / "a", synapse, bot, [ann]) as gateway,
    ):
        room = await client.room(bot)
        await client.say(room, "hi")
        await client.wait_for(room, bot.user_id, bool)
        await gateway.adapter.send_media(room, str(note), caption="for you")
        await client.wait_for(room, bot.user_id, lambda texts: len(texts) == 2)
        sent = client.shown(room, bot.user_id)[1]["content"]
        assert (sent["msgtype"], sent["body"], sent["filename"]) == (
            "m.file", "for you", "note.txt",
        )  # fmt: skip
        assert "url" not in sent
        stored = await client.nio.download(sent["file"]["url"])
        assert b"note" not in stored.body
        assert stored.filename is None
        key = sent["file"]
        read = decrypt_attachment(stored.body, key["key"]["k"], key["hashes"]["sha256"], key["iv"])
        assert read == note.read_bytes()
        await client.put(room, {**sent, "body": "note.txt"})
        await client.wait_for(room, bot.user_id, lambda texts: len(texts) == 3)
        (kept,) = (tmp_path / "a" / "media").rglob("*note.txt")
        assert kept.read_text() == "what the note says"
        broken = {**sent, "file": {**key, "hashes": {"sha256": "A" * 43}}}
        await client.put(room, broken)
        texts = await client.wait_for(room, bot.user_id, lambda texts: len(texts) == 5)
        assert "cannot be decrypted" in texts[3]
        assert len(list((tmp_path / "a" / "media").rglob("*note.txt"))) == 1


async def test_a_message_whose_key_is_missing_is_told_once_and_answered_when_it_comes(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("gateway.platforms.matrix.encryption.KEY_SECONDS", 0.0)
    bot, ann = people("bot"), people("ann")
    async with client_of(synapse, ann) as client:
        async with running(tmp_path, synapse, bot, [ann]):
            room = await client.room(bot)
            await client.say(room, "zero")
            await client.wait_for(room, bot.user_id, lambda texts: texts == ["re: zero"])
            key = client.keep_key(room)
            await client.say(room, "one")
            told = await client.wait_for(room, bot.user_id, lambda texts: len(texts) == 2)
            assert "its key has not come" in told[1]
            await client.say(room, "two")
            client.nio.invalidate_outbound_session(room)
            await client.say(room, "three")
            await client.wait_for(room, bot.user_id, lambda texts: texts[2:] == ["re: three"])
        # It is kept over a restart, and the key comes while nobody listens.
        await client.give_key(bot, key)
        async with running(tmp_path, synapse, bot, [ann], busy_input_mode="queue") as gateway:
            texts = await client.wait_for(room, bot.user_id, lambda texts: len(texts) >= 5)
            assert texts[3:] == ["re: one", "re: two"]
            assert not gateway.adapter.encryption.held
            assert len(await client.wait_for(room, bot.user_id, bool)) == 5, "told once"


async def test_the_device_moves_with_its_keys_and_its_account_signs_it(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    """Another machine that takes the platform over reads what was written meanwhile."""
    bot, ann = people("bot"), people("ann")
    shelf = Shelf()
    async with client_of(synapse, ann) as client:
        room = await client.room(bot)
        for machine, text in (("a", "one"), ("b", "two")):
            host = SharedHost(bot_config(synapse, bot, ann), tmp_path / machine, shelf)
            adapter = MatrixAdapter(host.config, host)
            await adapter.connect()
            device = adapter.client.device_id
            reading = asyncio.create_task(adapter.run())
            await adapter.rooms_known.wait()
            if machine == "a":
                while bot.user_id not in await ann.members(room):
                    await asyncio.sleep(0.05)
                await client.say(room, text)
            assert (await host.next()).text == text
            await adapter.send(room, f"re: {text}")
            await client.wait_for(room, bot.user_id, lambda texts, t=text: f"re: {t}" in texts)
            reading.cancel()
            await asyncio.wait([reading])
            await adapter.disconnect()
            if machine == "a":
                await client.say(room, "two")
        assert not list((tmp_path).rglob("*.json")), "nothing of it is on a machine"
    answer = await ann.call("POST", "keys/query", {"device_keys": {bot.user_id: []}})
    assert list(answer["device_keys"][bot.user_id]) == [device], "there is one device"
    (master,) = answer["master_keys"][bot.user_id]["keys"].values()
    own = answer["device_keys"][bot.user_id][device]["keys"][f"ed25519:{device}"]
    verify = client.nio.olm.verify_json
    assert signed_devices(bot.user_id, answer, master, verify) == {device: own}
    assert signed_devices(bot.user_id, answer, own, verify) == {}


async def test_only_verified_devices_are_read_where_that_is_wanted(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    async with client_of(synapse, ann) as first, client_of(synapse, ann) as second:
        key = first.nio.olm.account.identity_keys["ed25519"]
        strict = {"trust": "verified", "verified_keys": [key]}
        async with running(tmp_path, synapse, bot, [ann], extra=strict) as gateway:
            room = await first.room(bot)
            while bot.user_id not in await ann.members(room):
                await asyncio.sleep(0.05)
            await second.say(room, "from a device that nobody knows")
            await ann.say(room, "not encrypted at all")
            await first.say(room, "from mine")
            await first.wait_for(room, bot.user_id, lambda texts: texts == ["re: from mine"])
            assert gateway.model.calls == 1
            answers = [e for e in second.events[room] if e["sender"] == bot.user_id]
            assert not any(event["is_open"] for event in answers if "ciphertext" in str(event))
            assert not second.texts(room, bot.user_id)


async def test_a_room_that_becomes_encrypted_gets_nothing_in_plain_text(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    async with (
        client_of(synapse, ann) as client,
        running(tmp_path, synapse, bot, [ann]) as gateway,
    ):
        room = await ann.room(bot, direct=True)
        await ann.say(room, "plain")
        await ann.wait_for(room, by=bot.user_id, until=lambda texts: texts == ["re: plain"])
        await ann.call("PUT", f"rooms/{room}/state/m.room.encryption", ENCRYPTED["content"])
        await client.say(room, "secret")
        await client.wait_for(room, bot.user_id, lambda texts: "re: secret" in texts)
        # Nothing is believed that says it is not encrypted any more.
        gateway.adapter.client.rooms[room].encrypted = False
        await gateway.adapter.send(room, "another")
        gateway.adapter.client.rooms[room].encrypted = False
        gateway.adapter.client.encrypted_rooms.clear()
        gateway.adapter.plain_rooms.clear()
        assert await gateway.adapter._must_encrypt(room), "its server is asked"
        await client.wait_for(room, bot.user_id, lambda texts: "another" in texts)
        assert await ann.texts(room, by=bot.user_id) == ["re: plain"]
    off = {"encryption": False}
    async with running(tmp_path / "off", synapse, bot, [ann], extra=off) as gateway:
        with pytest.raises(SendError) as refused:
            await gateway.adapter.send(room, "in plain text")
        assert refused.value.permanent
    assert await ann.texts(room, by=bot.user_id) == ["re: plain"]


async def test_what_strangers_send_between_devices_ends_nothing(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann, eve = people("bot"), people("ann"), people("eve")
    async with (
        client_of(synapse, ann) as client,
        running(tmp_path, synapse, bot, [ann, eve]) as gateway,
    ):
        room = await client.room(bot, eve)
        await eve.join(room)
        encryption = gateway.adapter.client.olm
        own = encryption.account.identity_keys["curve25519"]
        device = gateway.adapter.client.device_id
        for number, body in enumerate(("!", "", "AAAA", "A" * 5000, "é")):
            for kind in (0, 1):
                content = {
                    "algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": own,
                    "ciphertext": {own: {"type": kind, "body": body}},
                }  # fmt: skip
                await eve.call(
                    "PUT", f"sendToDevice/m.room.encrypted/{number}{kind}",
                    {"messages": {bot.user_id: {device: content}}},
                )  # fmt: skip
        bad = {
            "user_id": eve.user_id, "device_id": "EVE", "algorithms": [],
            "keys": {"ed25519:EVE": "!", "curve25519:EVE": "?"},
            "signatures": {eve.user_id: {"ed25519:EVE": "x"}},
        }  # fmt: skip
        await eve.put(room, {
            "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "!", "sender_key": own,
            "session_id": next(iter(encryption.inbound_group_store)).id
            if list(encryption.inbound_group_store) else "s", "device_id": "EVE",
        }, "m.room.encrypted")  # fmt: skip
        encryption._handle_key_query(KeysQueryResponse({eve.user_id: {"EVE": bad}}, {}))
        name = bot.user_id.removeprefix("@").partition(":")[0]
        await client.say(room, f"{name}: still there?")
        await client.wait_for(room, bot.user_id, lambda texts: texts == ["re: still there?"])


async def test_a_token_whose_keys_are_elsewhere_is_not_used_and_a_password_makes_a_device(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person]
) -> None:
    bot, ann = people("bot"), people("ann")
    async with client_of(synapse, bot) as element:
        token, device = element.nio.access_token, element.nio.device_id
    config = PlatformConfig(token=token, extra={"homeserver": synapse.url})
    adapter = MatrixAdapter(config, StandaloneHost(config, never, tmp_path / "a"))
    with pytest.raises(MatrixError, match="keys are not here"):
        await adapter.connect()
    async with running(tmp_path / "b", synapse, bot, [ann], password=True) as gateway:
        before = gateway.adapter.client.device_id
        assert before != device
    with SessionDB(tmp_path / "b" / "state.db") as db:
        db.keep_platform_records("matrix", dict.fromkeys(db.get_platform_records("matrix")))
    async with running(tmp_path / "b", synapse, bot, [ann], password=True) as gateway:
        assert gateway.adapter.client.device_id != before, "its keys were lost"


async def test_keys_are_exported_and_imported(
    tmp_path: Path, synapse: Synapse, people: Callable[[str], Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(keys_file, "ROUNDS", 100)
    bot, ann = people("bot"), people("ann")
    file = tmp_path / "keys.txt"
    async with client_of(synapse, ann) as client:
        async with running(tmp_path / "a", synapse, bot, [ann]) as gateway:
            room = await client.room(bot)
            while bot.user_id not in await ann.members(room):
                await asyncio.sleep(0.05)
            await client.say(room, "one")
            await client.wait_for(room, bot.user_id, bool)
            count = keys_file.export_keys(gateway.db, file, "a passphrase")
            assert count >= 2 and stat.S_IMODE(file.stat().st_mode) == 0o600
            mine = client.nio.olm.account.identity_keys["ed25519"]
            known = {(one.user_id, one.key) for one in keys_file.read_devices(gateway.db)}
            assert (ann.user_id, mine) in known
        await client.nio.import_keys(str(file), "a passphrase")
        with SessionDB(tmp_path / "b.db") as db:
            with pytest.raises(keys_file.KeysFileError, match="Start the gateway"):
                keys_file.import_keys(db, file, "a passphrase")
            db.add_platform_records("matrix", {"@b:x D account ": "{}"})
            with pytest.raises(keys_file.KeysFileError, match="passphrase"):
                keys_file.import_keys(db, file, "another")
            assert keys_file.import_keys(db, file, "a passphrase") == (count, count)
            assert keys_file.import_keys(db, file, "a passphrase") == (0, count)
